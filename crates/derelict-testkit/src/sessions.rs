//! Sessions with a database that last longer than one statement: they hold a lock until a test lets go,
//! and they wait for something to be true. With them a test meets a program at a point, and not at a time.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin};

use crate::postgres::Database;

/// How often is looked whether something is true by now, in seconds.
const GLANCE: &str = "0.005";

/// How many glances somebody waits: five minutes, for a machine that is busy with other things.
const MOST_GLANCES: u32 = 60_000;

/// A session that holds what its statements took, until it is dropped.
#[derive(Debug)]
pub struct Held {
    child: Child,
    input: Option<ChildStdin>,
}

impl Database {
    /// Runs statements in a session of their own, which goes on. Returns when they are done.
    ///
    /// # Panics
    /// When one fails.
    #[must_use]
    pub fn hold(&self, statements: &str) -> Held {
        let mut child = self.psql().spawn().expect("because psql can be started");
        let input = child.stdin.take();
        let mut held = Held { child, input };
        held.send(&format!("{statements};\n\\echo done"));
        let output = held.child.stdout.as_mut().expect("because it is a pipe");
        let done = BufReader::new(output).lines().map_while(Result::ok).any(|line| line == "done");
        assert!(done, "these statements fail: {statements}");
        held
    }

    /// Waits until a condition is true.
    ///
    /// # Panics
    /// When it never is.
    pub fn await_true(&self, condition: &str) {
        self.sql(&until(condition));
    }
}

/// A statement that waits until a condition is true, within the session that runs it.
#[must_use]
pub fn until(condition: &str) -> String {
    format!(
        "do $wait$ begin for glance in 1..{MOST_GLANCES} loop \
         if ({condition}) then return; end if; \
         perform pg_sleep({GLANCE}), pg_stat_clear_snapshot(); \
         end loop; raise exception 'it never was true'; end $wait$;"
    )
}

impl Held {
    /// Has the session run more statements, without waiting for them.
    ///
    /// # Panics
    /// When the session has ended.
    pub fn send(&mut self, statements: &str) {
        let input = self.input.as_mut().expect("because it is taken at the end only");
        input.write_all(format!("{statements}\n").as_bytes()).expect("because the session goes on");
    }

    /// Ends the session when it has done what was sent, and gives up what it holds.
    ///
    /// # Panics
    /// When one of its statements failed.
    pub fn release(mut self) {
        drop(self.input.take());
        let status = self.child.wait().expect("because it is our child");
        assert!(status.success(), "a statement of a held session failed");
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Its server may be gone, and it ended then by itself.
        drop(self.input.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
