//! What a restart does about open intents, by the rules of the protocol: finish what was begun, put
//! back what was only fenced, write off what was never touched.

use derelict_core::ids::IntentId;

use super::ground::{Finished, Ground, Held, Line, Place};
use super::ports::Port;

/// Settles every open intent that can be settled now.
pub(crate) fn recover(port: Port<'_>) {
    let ground = port.0.borrow();
    let open = ground.journal.iter().filter(|(_, line)| line.finished == Finished::No);
    let open: Vec<(IntentId, Line)> = open.map(|(intent, line)| (*intent, *line)).collect();
    drop(ground);
    for (intent, line) in open {
        if port.0.borrow().locks[line.workspace] != Held::Free {
            continue;
        }
        port.0.borrow_mut().note(format!("recover {intent}"));
        if settled(port, intent, line) == Finished::Yes {
            let mut ground = port.0.borrow_mut();
            ground.journal.insert(intent, Line { finished: Finished::Yes, ..line });
        }
    }
}

fn settled(port: Port<'_>, intent: IntentId, line: Line) -> Finished {
    let (begun, trash, live) = (Place::Begun(intent), Place::Trash(intent), Place::Live(line.workspace));
    let lies_at = |ground: &Ground, place| ground.names.get(&place).copied();
    let ground = port.0.borrow();
    let (in_begun, in_trash, in_live) = (lies_at(&ground, begun), lies_at(&ground, trash), lies_at(&ground, live));
    drop(ground);
    if in_begun == Some(line.ino) {
        if !port.unlink_all(intent, line.ino, begun).is_empty() {
            return Finished::No;
        }
        let _ = port.0.borrow_mut().release(line.workspace);
        return Finished::Yes;
    }
    if in_trash == Some(line.ino) {
        let put_back = port.0.borrow_mut().rename(intent, trash, live);
        return if put_back.is_ok() { Finished::Yes } else { Finished::No };
    }
    if in_begun.is_some() || in_trash.is_some() {
        // Something else lies in our trash: it is left and told.
        return Finished::No;
    }
    if in_live.is_none() {
        let _ = port.0.borrow_mut().release(line.workspace);
    }
    Finished::Yes
}
