//! What others do between any two port calls.

use super::ground::{Cancelled, End, Ground, Held, Immutable, Ino, Place, Row, Weather, Workspace};

/// One thing that others can do.
#[derive(Debug, Clone, Copy)]
enum Move {
    Row(Row),
    Resume,
    Enter,
    Write,
    Leave,
    Save,
    Replace,
    Vanish,
    Lock,
    Unlock,
    MakeImmutable,
}

/// Each as often as it stands here.
const MOVES: [Move; 18] = [
    Move::Row(Row::None),
    Move::Row(Row::Standing),
    Move::Row(Row::Held),
    Move::Row(Row::Elsewhere),
    Move::Row(Row::Unreadable),
    Move::Row(Row::None),
    Move::Resume,
    Move::Resume,
    Move::Enter,
    Move::Write,
    Move::Leave,
    Move::Leave,
    Move::Save,
    Move::Replace,
    Move::Vanish,
    Move::Lock,
    Move::Unlock,
    Move::MakeImmutable,
];

/// The most moves between two port calls.
const MOST_MOVES: usize = 3;

/// How rarely somebody asks the sweep to stop: one pause in so many.
const CANCELS: usize = 200;

/// Lets others act, in most pauses not at all, so that some removals go through.
pub(crate) fn act(ground: &mut Ground) {
    ground.calls += 1;
    if ground.weather == Weather::Calm {
        return;
    }
    if ground.dice.one_in(CANCELS) {
        ground.note("  meanwhile: asked to stop");
        ground.cancelled = Cancelled::Yes;
    }
    if !ground.dice.one_in(5) {
        return;
    }
    for _ in 0..=ground.dice.below(MOST_MOVES) {
        let what = MOVES[ground.dice.below(MOVES.len())];
        let workspace = ground.dice.below(ground.rows.len());
        ground.note(format!("  meanwhile: {what:?} w{workspace}"));
        ground.moves += 1;
        make(ground, what, workspace);
    }
}

/// From now on nobody does anything, and whatever was in the way is out of it.
pub(crate) fn rest(ground: &mut Ground) {
    ground.note("  everybody else rests");
    ground.weather = Weather::Calm;
    ground.locks.fill(Held::Free);
    for tree in ground.trees.values_mut() {
        tree.handles = 0;
        tree.entries.iter_mut().for_each(|entry| entry.immutable = Immutable::No);
    }
}

fn make(ground: &mut Ground, what: Move, workspace: Workspace) {
    match what {
        Move::Row(row) => ground.rows[workspace] = row,
        Move::Resume => resume(ground, workspace),
        Move::Enter => {
            if let Some(ino) = ground.come_to(workspace) {
                ground.tree(ino).handles += 1;
            }
        }
        Move::Write => {
            if let Some(ino) = inside(ground) {
                ground.write(ino);
            }
        }
        Move::Leave => {
            if let Some(ino) = inside(ground) {
                ground.tree(ino).handles -= 1;
            }
        }
        Move::Save => {
            if let Some(ino) = ground.come_to(workspace) {
                ground.tree(ino).entries.iter_mut().for_each(|entry| entry.work = None);
            }
        }
        Move::Replace => {
            if let Some(ino) = ground.names.remove(&Place::Live(workspace)) {
                ground.names.insert(Place::Aside(ino), ino);
                let another = ground.make(workspace);
                ground.write(another);
            }
        }
        Move::Vanish => {
            if let Some(ino) = ground.names.remove(&Place::Live(workspace)) {
                ground.tree(ino).end = End::ByItsOwner;
            }
        }
        Move::Lock => {
            if ground.locks[workspace] == Held::Free {
                ground.locks[workspace] = Held::ByACreator;
            }
        }
        Move::Unlock => {
            if ground.locks[workspace] == Held::ByACreator {
                ground.locks[workspace] = Held::Free;
            }
        }
        Move::MakeImmutable => {
            if let Some(entry) = ground.come_to(workspace).and_then(|ino| ground.tree(ino).entries.first_mut()) {
                entry.immutable = Immutable::Yes;
            }
        }
    }
}

/// An owner with a row, who knows no lock: it touches its row, and finds its directory or starts cold.
fn resume(ground: &mut Ground, workspace: Workspace) {
    ground.rows[workspace] = Row::Standing;
    let ino = match ground.come_to(workspace) {
        Some(ino) => ino,
        None => ground.make(workspace),
    };
    ground.tree(ino).handles += 1;
}

/// Some tree that somebody is in, wherever it lies now.
fn inside(ground: &mut Ground) -> Option<Ino> {
    let open: Vec<Ino> = ground
        .trees
        .iter()
        .filter(|(_, tree)| tree.handles > 0 && tree.end == End::NotYet)
        .map(|(ino, _)| *ino)
        .collect();
    ground.dice.pick(&open).copied()
}
