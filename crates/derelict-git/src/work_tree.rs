//! The fused walk of a work tree: every entry is tracked, untracked, ignored, rebuildable, or the top
//! of another repository, and each of these is told apart in the one pass that also sizes it.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};

use bstr::ByteSlice;
use gix_hash::ObjectId;
use rustix::fs::FileType;
use sha2::Digest as _;

use crate::attributes::{ATTRIBUTES_BYTES, Attributes, Conversion, LineEndings};
use crate::content::{bytes_of, mode_of, object_of};
use crate::conversion::{CONVERTED_BYTES, Compared, compare};
use crate::doubts::{Doubt, Doubts};
use crate::examine::{Examiner, join};
use crate::ignore::{IGNORE_BYTES, IsDir, Rules};
use crate::index::{ByStat, Found, Index};
use crate::lfs::{POINTER_BYTES, Pointer};
use crate::proof::{Channel, Purely, Remade, print_of};
use crate::rebuildable::{is_precious, is_rebuildable_file};
use crate::refs::read_limited;
use crate::report::{Place, Report, shown};
use crate::repository::Repository;
use crate::saved::Saved;
use crate::saved_files::Sought;
use crate::stat::{Stat, open_dir_at, open_file_at, stat_at};
use crate::walk::{Entry, Meter, Visit, walk};

/// Directories that mark a checkout of another system, which this program cannot judge.
const FOREIGN: [(&[u8], &str); 7] = [
    (b".jj", "jj"),
    (b".hg", "Mercurial"),
    (b".svn", "Subversion"),
    (b".bzr", "Bazaar"),
    (b"_darcs", "Darcs"),
    (b".pijul", "Pijul"),
    (b".sl", "Sapling"),
];

/// Untracked files larger than this are not looked for in saved history: nobody commits such.
const SOUGHT_BYTES: u64 = 64 * 1024 * 1024;

/// Files of one untracked directory that are looked for; a larger one is told as it is.
const MOST_OF_A_HEAP: usize = 1_000;

/// The marker by which a person keeps a directory; reading it is the observer's.
const KEEP_MARKER: &[u8] = b".derelict-keep";

/// A file compared with its object.
enum Content {
    Same,
    /// It would be this object.
    Other(ObjectId),
    /// Only this would tell.
    Undecided(String),
}

/// The repository of a work tree, and what is asked of it.
pub(crate) struct Owner<'r> {
    pub(crate) repo: &'r Repository,
    pub(crate) index: Option<Index>,
    pub(crate) saved: &'r Saved,
    pub(crate) doubts: &'r mut Doubts,
}

/// Walks a work tree. Without a repository, or without an index, nothing is tracked.
pub(crate) fn walk_work_tree(
    examiner: &mut Examiner<'_>,
    dir: BorrowedFd<'_>,
    prefix: &[u8],
    place: &Place,
    owner: Option<Owner<'_>>,
) {
    let base = if prefix.is_empty() { 0 } else { prefix.len() + 1 };
    let mut rules = Rules::default();
    let repo = owner.as_ref().map(|owner| owner.repo);
    let (index, known) = match owner {
        Some(Owner { repo, index, saved, doubts }) => (index, Some((repo.settings.hash, saved, doubts))),
        None => (None, None),
    };
    let users = examiner.around.users();
    if let Some(text) = &users.ignore {
        rules.push(text, b"");
    }
    // Missing or unreadable, it ignores nothing, which keeps more.
    if let Some(Ok(text)) = repo.map(|repo| read_limited(&repo.common_dir.join("info/exclude"), IGNORE_BYTES)) {
        rules.push(&text, b"");
    }
    let git = &join(prefix, b".git");
    let all = index.as_ref().map(|index| 0..index.entries());
    let top = Frame { mode: all.map_or(Mode::Untracked(None), Mode::Tracked), lists: [0; 2] };
    // Missing or unreadable, they convert nothing, and a file that differs is told as changed.
    let info = repo.map(|repo| read_limited(&repo.common_dir.join("info/attributes"), ATTRIBUTES_BYTES));
    let info = info.and_then(Result::ok);
    let attributes = Attributes::new(&users.attributes, info.as_deref());
    let converts = repo.and_then(|repo| repo.settings.autocrlf).or(users.autocrlf).unwrap_or(false);
    let line_endings = if converts { LineEndings::Converted } else { LineEndings::Kept };
    let heaps = Vec::new();
    let (looked, prints) = ([0; 2], [0; 3]);
    let mut visit =
        WorkTree { examiner, place, git, base, index, rules, attributes, heaps, line_endings, looked, prints, known };
    walk(dir, prefix, top, &mut visit);
    visit.finish();
}

struct WorkTree<'w, 'a> {
    examiner: &'w mut Examiner<'a>,
    place: &'w Place,
    git: &'w [u8],
    /// Length of what precedes paths of this work tree.
    base: usize,
    index: Option<Index>,
    rules: Rules,
    attributes: Attributes,
    heaps: Vec<Heap>,
    /// What the configuration says of line endings.
    line_endings: LineEndings,
    /// Untracked and ignored entries that were looked at.
    looked: [u64; 2],
    /// Of what was met among tracked, untracked and ignored files.
    prints: [u64; 3],
    /// The kind of object names, what is saved of the repository, and what is looked for there.
    known: Option<(gix_hash::Kind, &'w Saved, &'w mut Doubts)>,
}

/// What is remembered of a directory.
struct Frame {
    mode: Mode,
    /// How many lists of rules and of attributes were in force before it was entered.
    lists: [usize; 2],
}

enum Mode {
    /// These index entries lie below it.
    Tracked(Range<usize>),
    /// Nothing below it is tracked; the heap it is told under, unless that is each file itself.
    Untracked(Option<usize>),
    /// Hidden by ignore rules, and nobody makes it again.
    Ignored(usize),
    /// Made again by a tool; which of the directories that are.
    Rebuildable(usize),
}

/// Files below one directory, told as one loss.
struct Heap {
    channel: Channel,
    path: Vec<u8>,
    files: u64,
    content: sha2::Sha256,
    /// All its files, as long as each of them may be saved.
    sought: Option<Vec<Sought>>,
}

impl WorkTree<'_, '_> {
    fn report(&mut self) -> Report<'_> {
        Report::new(self.examiner.findings, self.place.clone())
    }

    fn heap(&mut self, channel: Channel, path: &[u8]) -> usize {
        self.heaps.push(Heap {
            channel,
            path: path.to_vec(),
            files: 0,
            content: sha2::Sha256::new(),
            sought: Some(Vec::new()),
        });
        self.heaps.len() - 1
    }

    fn put(&mut self, heap: usize, at: &Entry<'_>) {
        if let Some(mut sought) = self.heaps[heap].sought.take()
            && sought.len() < MOST_OF_A_HEAP
            && let Some(file) = self.sought(at)
        {
            sought.push(file);
            self.heaps[heap].sought = Some(sought);
        }
        let heap = &mut self.heaps[heap];
        heap.files += 1;
        heap.content.update(at.path);
        heap.content.update(content_of(&at.stat));
    }

    /// The file as it may be saved somewhere: if an object of its content is in any store at all.
    fn sought(&self, at: &Entry<'_>) -> Option<Sought> {
        let (hash, saved, doubts) = self.known.as_ref()?;
        if at.stat.size > SOUGHT_BYTES || !doubts.has_room() {
            return None;
        }
        // One that cannot be read is told as a loss.
        let id = object_of(at.dir, at.name, &at.stat, *hash).ok()??;
        let path = at.path[self.base..].to_vec();
        saved.stores.has(&id).then(|| Sought { path, held: (mode_of(&at.stat), id) })
    }

    /// Tells a loss, unless all of it turns out to be saved.
    fn tell(&mut self, channel: Channel, what: String, content: Vec<Vec<u8>>, sought: Option<Vec<Sought>>) {
        match (sought, &mut self.known) {
            (Some(sought), Some((_, _, doubts))) => doubts.add(Doubt { channel, what, content, sought }),
            (Some(_) | None, _) => {
                let content: Vec<&[u8]> = content.iter().map(Vec::as_slice).collect();
                self.report().loss(channel, || what, &content);
            }
        }
    }

    /// A file of rules in a directory; where a sparse checkout left it out, as the index has it. Missing or
    /// unreadable, it says nothing, which keeps more.
    fn list(&self, dir: BorrowedFd<'_>, base: &[u8], name: &[u8], most: u64) -> Option<Vec<u8>> {
        match open_file_at(dir, name) {
            Ok(file) if file.metadata().is_ok_and(|metadata| metadata.is_file()) => {
                bytes_of(dir, name, most).ok().flatten()
            }
            Ok(_) => None,
            Err(rustix::io::Errno::NOENT) => {
                let index = self.index.as_ref()?;
                let entry = index.position(&join(base, name)).filter(|entry| index.is_left_out(*entry))?;
                let (_, saved, _) = self.known.as_ref()?;
                let mut buffer = Vec::new();
                saved.stores.find(&index.id(entry), &mut buffer).ok()?.map(|data| data.data.to_vec())
            }
            Err(_) => None,
        }
    }

    fn tracked_leaf(&mut self, at: &Entry<'_>, range: &Range<usize>) {
        let path = &at.path[self.base..];
        let Some(index) = &mut self.index else { return self.untracked_leaf(at, None) };
        match index.find(path, range) {
            Found::Entry(entry) => self.compare(at, entry),
            // A file where the index has a directory: what was below it is told as deleted.
            Found::Directory(_) | Found::Nothing => self.untracked_leaf(at, None),
        }
    }

    /// Stat data first; the content only where they leave a doubt.
    fn compare(&mut self, at: &Entry<'_>, entry: usize) {
        let Some(index) = &self.index else { return };
        let (same, id) = (index.by_stat(entry, &at.stat), index.id(entry));
        let path = at.path[self.base..].to_vec();
        let changed = || (format!("changed: {}", shown(&path)), vec![path.clone(), content_of(&at.stat)]);
        // A file that became something else is more than a change.
        let ignored = at.stat.kind() == FileType::RegularFile && self.examiner.around.ignored_changes().matches(&path);
        match same {
            ByStat::Same => self.smudged(at, &id),
            ByStat::OtherKind if ignored => self.allow(changed()),
            ByStat::OtherKind => {
                let (what, content) = changed();
                self.tell(Channel::Tracked, what, content, None);
            }
            ByStat::Read => match self.content(at, &id) {
                Ok(Content::Same) => self.smudged(at, &id),
                Ok(Content::Other(_) | Content::Undecided(_)) if ignored => self.allow(changed()),
                Ok(Content::Other(other)) => {
                    let held = (mode_of(&at.stat), other);
                    let known = self.known.as_ref().is_some_and(|(_, saved, _)| saved.stores.has(&other));
                    let (what, content) = changed();
                    self.tell(Channel::Tracked, what, content, known.then(|| vec![Sought { path, held }]));
                }
                Ok(Content::Undecided(what)) => {
                    let why = format!("{} may have changed; only {what} would tell", shown(&path));
                    self.report().unknown(Channel::Tracked, &why);
                }
                Err(error) => {
                    self.report().unknown(Channel::Tracked, &format!("cannot read {}: {error}", shown(&path)))
                }
            },
        }
    }

    /// A change that the operator lets go.
    fn allow(&mut self, (what, content): (String, Vec<Vec<u8>>)) {
        let content: Vec<&[u8]> = content.iter().map(Vec::as_slice).collect();
        self.report().allowed(|| what, &content);
    }

    /// What the file holds, compared with what the index has.
    fn content(&self, at: &Entry<'_>, id: &ObjectId) -> io::Result<Content> {
        let Some(other) = object_of(at.dir, at.name, &at.stat, id.kind())?.filter(|other| other != id) else {
            return Ok(Content::Same);
        };
        if at.stat.kind() != FileType::RegularFile {
            return Ok(Content::Other(other));
        }
        let conversion = self.attributes.of(&at.path[self.base..], self.line_endings);
        if conversion == Conversion::default() {
            return Ok(Content::Other(other));
        }
        let Some(bytes) = bytes_of(at.dir, at.name, CONVERTED_BYTES)? else {
            return Ok(Content::Undecided("a conversion of a very large file".into()));
        };
        Ok(match compare(&bytes, id, self.object(id).as_deref(), &conversion) {
            Compared::Converted => Content::Same,
            Compared::Different => Content::Other(other),
            Compared::Undecided(what) => Content::Undecided(what),
        })
    }

    /// An object of the repository that is small enough to be a pointer of git-lfs.
    fn object(&self, id: &ObjectId) -> Option<Vec<u8>> {
        let (_, saved, _) = self.known.as_ref()?;
        let mut buffer = Vec::new();
        let data = saved.stores.find(id, &mut buffer).ok()??;
        (data.data.len() as u64 <= POINTER_BYTES).then(|| data.data.to_vec())
    }

    /// A clean file whose object is only a pointer: its content is what git-lfs keeps.
    fn smudged(&mut self, at: &Entry<'_>, id: &ObjectId) {
        if !self.attributes.mention_lfs() || at.stat.kind() != FileType::RegularFile {
            return;
        }
        let conversion = self.attributes.of(&at.path[self.base..], self.line_endings);
        if conversion.filter.as_deref() != Some(b"lfs") {
            return;
        }
        let is_here = self.known.as_ref().is_some_and(|(_, saved, _)| saved.stores.has(id));
        if !is_here {
            let path = shown(&at.path[self.base..]);
            return self.report().unknown(Channel::Lfs, &format!("the pointer of {path} is missing"));
        }
        let Some(pointer) = self.object(id).as_deref().and_then(Pointer::parse) else { return };
        let is_pointer = at.stat.size <= POINTER_BYTES
            && object_of(at.dir, at.name, &at.stat, id.kind()).is_ok_and(|object| object == Some(*id));
        if !is_pointer {
            self.examiner.lfs.insert(pointer);
        }
    }

    fn untracked_leaf(&mut self, at: &Entry<'_>, heap: Option<usize>) {
        if let Some(heap) = heap {
            self.looked[0] += 1;
            return self.put(heap, at);
        }
        let path = at.path[self.base..].to_vec();
        let ignored = self.rules.ignores(&path, IsDir::No);
        if ignored && is_rebuildable_file(at.name) {
            return;
        }
        self.looked[usize::from(ignored)] += 1;
        let (channel, word) = if ignored { (Channel::Ignored, "ignored") } else { (Channel::Untracked, "new") };
        let sought = self.sought(at).map(|sought| vec![sought]);
        self.tell(channel, format!("{word}: {}", shown(&path)), vec![path, content_of(&at.stat)], sought);
    }

    /// A directory that belongs to another repository is that repository's to judge.
    fn nested(&mut self, at: &Entry<'_>, submodule: Option<usize>) {
        let dir = match open_dir_at(at.dir, at.name) {
            Ok(dir) => dir,
            Err(error) => return self.unreadable(at.path, error.into()),
        };
        let place = match submodule {
            Some(_) => Place::Submodule(at.path.to_vec()),
            None => Place::Nested(at.path.to_vec()),
        };
        Report::new(self.examiner.findings, place.clone()).examined(Channel::Nested, "repositories inside", 1);
        let head = self.examiner.work_tree(dir.as_fd(), at.path, &place);
        let recorded = submodule.and_then(|entry| self.index.as_ref().map(|index| index.id(entry)));
        // On another commit than the recorded one, but one that is saved: only the word "here" is lost.
        let saved = head.is_some_and(|head| self.examiner.stands_on_saved(at.path, &head));
        if let Some(recorded) = recorded.filter(|recorded| head != Some(*recorded) && !saved) {
            let what = || format!("it stands on another commit than the recorded {}", recorded.to_hex_with_len(9));
            let head = head.map_or_else(Vec::new, |head| head.as_slice().to_vec());
            Report::new(self.examiner.findings, place).loss(Channel::Submodules, what, &[at.path, &head]);
        }
    }

    /// A directory of which nothing is tracked.
    fn untracked_directory(&mut self, at: &Entry<'_>, heap: Option<usize>) -> Mode {
        let path = &at.path[self.base..];
        if !self.rules.ignores(path, IsDir::Yes) && !ignores_itself(at) {
            return Mode::Untracked(Some(heap.unwrap_or_else(|| self.heap(Channel::Untracked, at.path))));
        }
        if self.examiner.around.rebuildable().knows(at.dir, at.name) {
            self.report().examined(Channel::Ignored, "rebuildable directories", 1);
            let remade = &mut self.examiner.findings.rebuildable;
            remade.push(Remade { path: at.path.to_vec(), purely: Purely::Yes });
            return Mode::Rebuildable(remade.len() - 1);
        }
        Mode::Ignored(self.heap(Channel::Ignored, at.path))
    }

    fn foreign(&mut self, at: &Entry<'_>, mode: &Mode) {
        if let Some((_, system)) = FOREIGN.iter().find(|(name, _)| *name == at.name) {
            self.spoil_by(mode);
            let why = format!("{} is a checkout of {system}, which cannot be judged", shown(at.path));
            self.report().unknown(Channel::Nested, &why);
        }
    }

    /// A directory that a tool makes again holds something that no tool makes.
    fn spoil(&mut self, remade: usize) {
        self.examiner.findings.rebuildable[remade].purely = Purely::No;
    }

    fn spoil_by(&mut self, mode: &Mode) {
        match mode {
            Mode::Rebuildable(remade) => self.spoil(*remade),
            Mode::Tracked(_) | Mode::Untracked(_) | Mode::Ignored(_) => {}
        }
    }

    fn finish(mut self) {
        for heap in std::mem::take(&mut self.heaps).into_iter().filter(|heap| heap.files > 0) {
            let word = if heap.channel == Channel::Ignored { "ignored" } else { "new" };
            let files = if heap.files == 1 { "1 file".to_owned() } else { format!("{} files", heap.files) };
            let path = heap.path[self.base..].to_vec();
            let content: [u8; 32] = heap.content.finalize().into();
            let what = format!("{word}: {}/ ({files})", shown(&path));
            self.tell(heap.channel, what, vec![path, content.to_vec()], heap.sought);
        }
        let missing: Vec<Vec<u8>> =
            self.index.iter().flat_map(|index| index.missing().map(|entry| index.path(entry).to_vec())).collect();
        for path in missing {
            let what = format!("deleted: {}", shown(&path));
            if self.examiner.around.ignored_changes().matches(&path) {
                self.allow((what, vec![path]));
            } else {
                self.report().loss(Channel::Tracked, || what, &[&path]);
            }
        }
        let met = [Channel::Tracked, Channel::Untracked, Channel::Ignored].into_iter().zip(self.prints);
        met.for_each(|(channel, print)| self.report().rests_on_met(channel, [print]));
        let [untracked, ignored] = self.looked;
        self.report().examined(Channel::Untracked, "untracked files", untracked);
        self.report().examined(Channel::Ignored, "ignored files", ignored);
    }
}

/// What changes when a file's content does; no later write leaves all of it as it was.
fn content_of(stat: &Stat) -> Vec<u8> {
    let times = [stat.mtime, stat.ctime]
        .map(|(seconds, nanos)| [seconds.to_le_bytes().as_slice(), &nanos.to_le_bytes()].concat());
    let numbers = [stat.ino, stat.size, u64::from(stat.mode)].map(u64::to_le_bytes);
    [times.concat(), numbers.concat()].concat()
}

impl Visit for WorkTree<'_, '_> {
    type Frame = Frame;

    fn meter(&mut self) -> &mut dyn Meter {
        self.examiner.meter
    }

    fn enter(&mut self, dir: BorrowedFd<'_>, path: &[u8], frame: &mut Frame) {
        frame.lists = [self.rules.depth(), self.attributes.depth()];
        match frame.mode {
            Mode::Tracked(_) | Mode::Untracked(_) => {}
            Mode::Ignored(_) | Mode::Rebuildable(_) => return,
        }
        let base = path.get(self.base..).unwrap_or(b"");
        if let Some(text) = self.list(dir, base, b".gitignore", IGNORE_BYTES) {
            self.rules.push(&text, base);
        }
        if matches!(frame.mode, Mode::Tracked(_))
            && let Some(text) = self.list(dir, base, b".gitattributes", ATTRIBUTES_BYTES)
        {
            self.attributes.push(&text, base);
        }
    }

    fn leaf(&mut self, at: &Entry<'_>, frame: &mut Frame) {
        // Our own marker is a use while it holds, and nothing afterwards.
        if at.path == self.git || (at.path == KEEP_MARKER && matches!(self.place, Place::Top) && is_only_a_marker(at)) {
            return;
        }
        let channel = match &frame.mode {
            Mode::Tracked(_) => 0,
            Mode::Untracked(_) => 1,
            Mode::Ignored(_) | Mode::Rebuildable(_) => 2,
        };
        self.prints[channel] = self.prints[channel].wrapping_add(print_of(&at.stat));
        match &frame.mode {
            Mode::Tracked(range) => self.tracked_leaf(at, &range.clone()),
            Mode::Untracked(heap) => self.untracked_leaf(at, *heap),
            Mode::Ignored(heap) => {
                self.looked[1] += 1;
                self.put(*heap, at);
            }
            Mode::Rebuildable(remade) => {
                if is_precious(at.dir, at.name) || is_stray(at) {
                    self.spoil(*remade);
                    let path = at.path[self.base..].to_vec();
                    let what = || format!("not what a build makes: {}", shown(&path));
                    self.report().loss(Channel::Ignored, what, &[&path, &content_of(&at.stat)]);
                }
            }
        }
    }

    fn directory(&mut self, at: &Entry<'_>, frame: &mut Frame) -> Option<Frame> {
        if at.path == self.git {
            return None;
        }
        self.foreign(at, &frame.mode);
        let found = match (&frame.mode, &mut self.index) {
            (Mode::Tracked(range), Some(index)) => index.find(&at.path[self.base..], range),
            (Mode::Tracked(_) | Mode::Untracked(_) | Mode::Ignored(_) | Mode::Rebuildable(_), _) => Found::Nothing,
        };
        let entry = match found {
            Found::Entry(entry) => Some(entry),
            Found::Directory(_) | Found::Nothing => None,
        };
        let submodule = entry.filter(|entry| self.index.as_ref().is_some_and(|index| index.is_submodule(*entry)));
        if has(at, b".git") {
            self.spoil_by(&frame.mode);
            self.nested(at, submodule);
            return None;
        }
        if entry.is_some() && submodule.is_none() {
            let path = at.path[self.base..].to_vec();
            self.report().loss(Channel::Tracked, || format!("changed: {} is a directory now", shown(&path)), &[&path]);
        }
        let mode = match (&frame.mode, found) {
            (Mode::Tracked(_), Found::Directory(range)) => Mode::Tracked(range),
            (Mode::Tracked(_), Found::Entry(_) | Found::Nothing) => self.untracked_directory(at, None),
            (Mode::Untracked(heap), _) => self.untracked_directory(at, *heap),
            (Mode::Ignored(heap), _) => Mode::Ignored(*heap),
            (Mode::Rebuildable(remade), _) => {
                if has(at, b"HEAD") && has(at, b"objects") {
                    let why = format!("{} is a bare repository inside build output", shown(at.path));
                    self.spoil(*remade);
                    self.report().unknown(Channel::Nested, &why);
                }
                Mode::Rebuildable(*remade)
            }
        };
        Some(Frame { mode, lists: [self.rules.depth(), self.attributes.depth()] })
    }

    fn leave(&mut self, frame: Frame, _: Option<&mut Frame>) {
        self.rules.truncate(frame.lists[0]);
        self.attributes.truncate(frame.lists[1]);
    }

    fn unreadable(&mut self, path: &[u8], error: io::Error) {
        self.examiner.meter.unreadable(path, &error);
        self.report().unknown(Channel::Untracked, &format!("cannot read {}: {error}", shown(path)));
    }
}

/// A marker that says more than a reason and a date holds somebody's notes.
fn is_only_a_marker(at: &Entry<'_>) -> bool {
    let Ok(file) = open_file_at(at.dir, at.name) else { return false };
    let mut text = Vec::new();
    let read = io::Read::read_to_end(&mut io::Read::take(file, IGNORE_BYTES), &mut text);
    let known = |line: &[u8]| line.trim().is_empty() || line.starts_with(b"reason:") || line.starts_with(b"until:");
    read.is_ok() && text.lines().all(known)
}

/// Python writes compiled files into `__pycache__`, and nothing else.
fn is_stray(at: &Entry<'_>) -> bool {
    let parent = at.path.rsplitn_str(3, "/").nth(1);
    parent == Some(b"__pycache__") && !is_rebuildable_file(at.name)
}

/// A cache that brings its own `.gitignore` with `*` in it is as good as ignored.
fn ignores_itself(at: &Entry<'_>) -> bool {
    let Ok(file) = open_file_at(at.dir, &join(at.name, b".gitignore")) else { return false };
    let mut text = Vec::new();
    let read = io::Read::read_to_end(&mut io::Read::take(file, IGNORE_BYTES), &mut text);
    read.is_ok() && text.lines().any(|line| line.trim() == b"*")
}

/// Whether a directory has an entry of this name. What cannot be asked may be there.
fn has(at: &Entry<'_>, name: &[u8]) -> bool {
    match stat_at(at.dir, &join(at.name, name)) {
        Ok(_) => true,
        Err(rustix::io::Errno::NOENT) => false,
        Err(_) => true,
    }
}
