//! Asking remotes: by the real git, over the wire, at a server of the test's own.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use derelict_testkit::Cache;
use derelict_testkit::git::shell;
use derelict_testkit::scratch::{mkdir, read, write};

use crate::support::{Report, derelict, prune_json};

/// Serves the files below a directory over HTTP, as git's oldest protocol wants it, until it is dropped.
struct Forge {
    address: SocketAddr,
    asked: Arc<AtomicU64>,
}

impl Forge {
    fn of(directory: PathBuf) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("because some port is free");
        let address = listener.local_addr().expect("because it is bound");
        let asked = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&asked);
        // It ends with the process of the test.
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                // A client that gave up is no trouble of the server.
                let _ = answer(connection, &directory, &counted);
            }
        });
        Self { address, asked }
    }

    fn asked(&self) -> u64 {
        self.asked.swap(0, Ordering::Relaxed)
    }
}

fn answer(mut connection: TcpStream, directory: &Path, asked: &AtomicU64) -> std::io::Result<()> {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        connection.read_exact(&mut byte)?;
        request.extend(byte);
    }
    let request = String::from_utf8_lossy(&request).into_owned();
    let path = request.split(' ').nth(1).unwrap_or("/").split('?').next().unwrap_or("/");
    if path.ends_with("info/refs") {
        asked.fetch_add(1, Ordering::Relaxed);
    }
    match std::fs::read(directory.join(path.trim_start_matches('/'))) {
        Ok(body) => {
            write!(connection, "HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n", body.len())?;
            connection.write_all(&body)
        }
        Err(_) => write!(connection, "HTTP/1.0 404 Not Found\r\nContent-Length: 0\r\n\r\n"),
    }
}

/// Two clones with a commit each on a branch that only the forge has.
fn at_the_forge() -> (Cache, Forge) {
    let mut cache = Cache::small();
    let served = cache.root().join("served");
    mkdir(&served);
    // In place of the one that tells when it is started.
    shell(cache.bin(), "rm git; ln -s \"$(command -v git)\" git", &[]);
    shell(&served, "git init -q --bare w.git", &[]);
    let forge = Forge::of(served.clone());
    for id in ["one", "two"] {
        let clone = cache.clean(id);
        let script = format!(
            "git checkout -q -b {id}; echo {id} >n; commit n; git push -q '{}/w.git' HEAD:refs/heads/{id}
            git remote set-url origin http://{}/w.git; git update-ref refs/remotes/origin/{id} HEAD
            rm -rf .git/logs/refs/remotes",
            served.display(),
            forge.address
        );
        shell(&clone, &script, &[]);
    }
    shell(&served, "git -C w.git update-server-info", &[]);
    (cache, forge)
}

fn both(report: &Report) -> [String; 2] {
    ["one", "two"].map(|id| report.verdict(id))
}

#[test]
fn a_remote_is_asked_only_when_it_may_be_once_and_what_it_dropped_keeps_the_clone() {
    let (cache, forge) = at_the_forge();
    let believed = prune_json(&cache, &["-n"], 0);
    assert_eq!((both(&believed), forge.asked()), (["clean", "clean"].map(String::from), 0));
    let heard = prune_json(&cache, &["-n", "--ask-remote"], 0);
    assert_eq!((both(&heard), forge.asked()), (["clean", "clean"].map(String::from), 1));
    shell(cache.root().join("served/w.git"), "git update-ref -d refs/heads/two; git update-server-info", &[]);
    let heard = prune_json(&cache, &["-n", "--ask-remote"], 0);
    assert_eq!(both(&heard), ["clean", "unsaved"]);
    assert!(heard.reasons("two").contains("on branch two"), "{}", heard.reasons("two"));
}

#[test]
fn a_remote_that_cannot_be_asked_keeps_what_it_alone_would_save() {
    let (cache, _forge) = at_the_forge();
    let nowhere = "git remote set-url origin http://127.0.0.1:1/w.git";
    shell(cache.path_of("one"), nowhere, &[]);
    let heard = prune_json(&cache, &["-n", "--ask-remote"], 1);
    assert_eq!(both(&heard), ["undetermined", "clean"]);
    assert!(heard.reasons("one").contains("could not be asked"), "{}", heard.reasons("one"));
}

#[test]
fn asking_obeys_no_repository_and_asks_nobody_for_a_password() {
    let (cache, forge) = at_the_forge();
    let mark = cache.root().join("mark");
    let trap = cache.root().join("trap");
    write(&trap, format!("#!/bin/sh\necho \"$@\" >>{}\n", mark.display()));
    let script = format!(
        "chmod +x {0}; git config core.sshCommand {0}; git config credential.helper {0}; git config core.askPass {0}
        git config http.proxy http://127.0.0.1:1; git config url.ext::{0}.insteadOf http://",
        trap.display()
    );
    shell(cache.path_of("one"), &script, &[]);
    // What the clone's own configuration makes of its address is no forge; nothing of it is run.
    let run = derelict(&cache, &["prune", "-n", "--json", "--ask-remote"]).finish();
    assert_eq!(Report(run.json()).verdict("two"), "clean");
    assert!(!mark.exists(), "{}", String::from_utf8_lossy(&read(&mark)));
    assert_eq!(forge.asked(), 1);
}
