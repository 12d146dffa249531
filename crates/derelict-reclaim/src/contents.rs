//! What a journal says, read from its first line to its last: its name, the next number, and the
//! intents that are not finished. How a line is understood is `lines`'; how the file is opened,
//! locked and written is `journal`'s.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use derelict_core::evidence::Candidate;
use derelict_core::ids::IntentId;
use derelict_core::outcome::Discarded;
use derelict_core::record::SetAside;

use crate::fence::JournalId;
use crate::journal::JournalError;
use crate::lines::{IntentLine, Line, NotALine, parse};

/// An intent that is not known to be finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenIntent {
    /// Its number.
    pub intent: IntentId,
    /// The directory it was for.
    pub candidate: Candidate,
    /// How far it is known to have come.
    pub phase: Phase,
}

/// How far an intent that is not finished is known to have come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// Somewhere between the intent and the end: what lies on the disk says where.
    InHand,
    /// Set aside on purpose, for its grace.
    SetAside(Box<SetAside>),
}

impl OpenIntent {
    /// What is known of it as a directory that was set aside, if it was.
    #[must_use]
    pub fn set_aside(&self) -> Option<&SetAside> {
        match &self.phase {
            Phase::InHand => None,
            Phase::SetAside(set_aside) => Some(set_aside),
        }
    }
}

/// A directory that is gone, and of which no record of a sweep is known to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Untold {
    /// The intent it went for.
    pub intent: IntentId,
    /// Where it lay.
    pub path: PathBuf,
    /// What was unlinked.
    pub discarded: Discarded,
}

/// What was read of a journal.
#[derive(Debug)]
pub(crate) struct Contents {
    pub(crate) id: Option<JournalId>,
    pub(crate) next: u64,
    pub(crate) open: BTreeMap<IntentId, OpenIntent>,
    /// What a line that is still to come may make of an intent.
    promised: BTreeMap<IntentId, SetAside>,
    /// What went since a record was last known to be kept.
    pub(crate) untold: Vec<Untold>,
    /// Whether this journal says when records are kept: an older one does not, and they were.
    tells_records: bool,
    /// Where the last complete line ends, in bytes.
    pub(crate) end: u64,
}

impl Contents {
    /// Those of a journal that has no line yet.
    pub(crate) fn empty() -> Self {
        Self {
            id: None,
            next: 1,
            open: BTreeMap::new(),
            promised: BTreeMap::new(),
            untold: Vec::new(),
            tells_records: false,
            end: 0,
        }
    }

    /// Reads every complete line.
    pub(crate) fn read(file: &File, path: &Path) -> Result<Self, JournalError> {
        let mut contents = Self::empty();
        let mut lines = BufReader::new(file);
        let mut text = Vec::new();
        for line in 1.. {
            text.clear();
            let failed = |source| JournalError::Io { deed: "read", path: path.to_owned(), source };
            lines.read_until(b'\n', &mut text).map_err(failed)?;
            let Some(complete) = text.strip_suffix(b"\n") else { break };
            // A crash can leave a hole in the last line, even though its end was written.
            if complete.contains(&0) && lines.fill_buf().map_err(failed)?.is_empty() {
                break;
            }
            let understood = parse(complete).and_then(|said| contents.take_in(said));
            understood.map_err(|error| match error {
                NotALine::Corrupt(why) => JournalError::Corrupt { path: path.to_owned(), line, why },
                NotALine::Newer(version) => JournalError::Newer { path: path.to_owned(), line, version },
            })?;
            contents.end += text.len() as u64;
        }
        Ok(contents)
    }

    /// Begins an intent; `set_aside` is what it becomes if it is set aside.
    pub(crate) fn begin(&mut self, intent: IntentId, candidate: Candidate, set_aside: Option<SetAside>) {
        self.open.insert(intent, OpenIntent { intent, candidate, phase: Phase::InHand });
        if let Some(set_aside) = set_aside {
            self.promised.insert(intent, set_aside);
        }
    }

    /// The directory of an intent was set aside.
    pub(crate) fn set_aside(&mut self, intent: IntentId) {
        if let (Some(open), Some(set_aside)) = (self.open.get_mut(&intent), self.promised.remove(&intent)) {
            open.phase = Phase::SetAside(Box::new(set_aside));
        }
    }

    /// Everything so far is in the record of sweeps.
    pub(crate) fn recorded(&mut self) {
        self.untold.clear();
        self.tells_records = true;
    }

    /// Nothing of an intent is left to do.
    pub(crate) fn finish(&mut self, intent: IntentId) {
        self.open.remove(&intent);
        self.promised.remove(&intent);
    }

    fn take_in(&mut self, said: Line) -> Result<(), NotALine> {
        let corrupt = |why: String| Err(NotALine::Corrupt(why));
        match (said, &self.id) {
            (Line::Journal(id), None) => self.id = Some(id),
            (Line::Journal(_), Some(_)) => return corrupt("a second journal begins here".to_owned()),
            (_, None) => return corrupt("the journal's first line is missing".to_owned()),
            // A sweep begins.
            (Line::Remark, Some(_)) if !self.tells_records => self.untold.clear(),
            (Line::Remark, Some(_)) => {}
            (Line::Recorded, Some(_)) => self.recorded(),
            (Line::Intent(intent, _), Some(_)) if intent.0 < self.next => {
                return corrupt(format!("intent {intent} comes a second time, or out of order"));
            }
            (Line::Intent(intent, line), Some(_)) => {
                let Some(next) = intent.0.checked_add(1) else {
                    return corrupt(format!("there is no intent after {intent}"));
                };
                self.next = next;
                let IntentLine { candidate, set_aside } = *line;
                self.begin(intent, candidate, set_aside);
            }
            (Line::Unfinished(intent) | Line::Finished(intent, _) | Line::SetAside(intent), Some(_))
                if intent.0 >= self.next =>
            {
                return corrupt(format!("there is no intent {intent} before this line"));
            }
            (Line::SetAside(intent), Some(_))
                if self.open.contains_key(&intent) && !self.promised.contains_key(&intent) =>
            {
                return corrupt(format!("intent {intent} was not to be set aside"));
            }
            (Line::SetAside(intent), Some(_)) => self.set_aside(intent),
            (Line::Unfinished(_), Some(_)) => {}
            (Line::Finished(intent, gone), Some(_)) => {
                let untold = gone.zip(self.open.get(&intent)).map(|(discarded, open)| Untold {
                    intent,
                    path: open.candidate.path.clone(),
                    discarded,
                });
                self.untold.extend(untold);
                self.finish(intent);
            }
        }
        Ok(())
    }
}
