//! Names and identities: what a directory is called, what makes it *that* directory, and the small
//! values everything else is built from. No rule lives here.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::path::Path;
use std::sync::Arc;

use sha2::Digest as _;

/// The name of a workspace directory: one path component of any bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkspaceName(Vec<u8>);

/// Why some bytes are not the name of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the name of one directory: empty, `.`, `..`, or with a slash or a NUL byte in it")]
pub struct NotAName;

impl WorkspaceName {
    /// Accepts exactly what the kernel accepts as one component.
    ///
    /// # Errors
    /// [`NotAName`] for an empty name, `.`, `..`, and anything with `/` or NUL in it.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Result<Self, NotAName> {
        let bytes = bytes.into();
        if bytes.is_empty() || bytes == b"." || bytes == b".." || bytes.iter().any(|b| matches!(b, b'/' | 0)) {
            return Err(NotAName);
        }
        Ok(Self(bytes))
    }

    /// The bytes as the kernel has them.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for WorkspaceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

/// What makes a directory *that* directory, whatever path leads to it.
///
/// An inode number alone is reused at once by ext4; together with the birth time, and with a
/// descriptor held open from the re-check to the last unlink, it is not mistaken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileIdentity {
    /// Device number as `stat` reports it (major and minor packed by the kernel's convention).
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// Birth time, where the file system records one.
    pub birth: Option<Timestamp>,
}

impl FileIdentity {
    /// Whether both name the same inode; used for ancestors, whose birth is not recorded.
    #[must_use]
    pub fn same_inode(&self, other: &Self) -> bool {
        self.dev == other.dev && self.ino == other.ino
    }
}

/// An instant: nanoseconds since the Unix epoch, negative before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i128);

impl Timestamp {
    /// From seconds and nanoseconds, as the kernel gives them.
    #[must_use]
    pub const fn new(seconds: i64, nanoseconds: u32) -> Self {
        Self(seconds as i128 * 1_000_000_000 + nanoseconds as i128)
    }

    /// Whole seconds since the epoch, rounded towards the past.
    #[must_use]
    pub const fn seconds(self) -> i64 {
        self.0.div_euclid(1_000_000_000) as i64
    }

    /// Nanoseconds within the second.
    #[must_use]
    pub const fn subsecond_nanoseconds(self) -> u32 {
        self.0.rem_euclid(1_000_000_000) as u32
    }

    /// The instant that lies `span` before this one.
    #[must_use]
    pub const fn before(self, span: std::time::Duration) -> Self {
        Self(self.0 - span.as_nanos() as i128)
    }

    /// The instant that lies `span` after this one.
    #[must_use]
    pub const fn after(self, span: std::time::Duration) -> Self {
        Self(self.0 + span.as_nanos() as i128)
    }
}

/// Which owner source said something, for example `devpod`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub Arc<str>);

impl fmt::Display for SourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The owner as its source names it: a devpod workspace id, the key of a row.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OwnerId(pub String);

impl fmt::Display for OwnerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The number of an intent in the journal; it is part of the trash name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IntentId(pub u64);

impl IntentId {
    /// The number of an intent that stands in no journal, because there was no room to write one: the
    /// trash name carries it. Journals count from one.
    pub const IN_NAME: Self = Self(0);
}

impl fmt::Display for IntentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A SHA-256 over the canonical form of a value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

/// Takes what a value feeds to a hasher.
struct Hashing(sha2::Sha256);

impl Hasher for Hashing {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Not used: the whole digest is taken.
    fn finish(&self) -> u64 {
        0
    }
}

impl Digest {
    /// Digest of bytes.
    #[must_use]
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(sha2::Sha256::digest(bytes).into())
    }

    /// Digest of everything that tells a value from another one: the same for equal values of one version
    /// of this program on one kind of machine. That is all a plan's consent and a record's evidence need.
    #[must_use]
    pub fn of(value: &(impl Hash + ?Sized)) -> Self {
        let mut hashing = Hashing(sha2::Sha256::new());
        value.hash(&mut hashing);
        Self(hashing.0.finalize().into())
    }

    /// The digest that these bytes are, as [`Digest::as_bytes`] gave them.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The digest that prints so; `None` for anything else than 64 lower-case hexadecimal digits.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        if text.len() != 2 * bytes.len() {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            let digit = |at: usize| char::from(pair[at]).to_digit(16).filter(|_| !pair[at].is_ascii_uppercase());
            *byte = u8::try_from(digit(0)? * 16 + digit(1)?).ok()?;
        }
        Some(Self(bytes))
    }

    /// The digest itself.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A list that has at least one element.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NonEmpty<T>(Vec<T>);

impl<T> NonEmpty<T> {
    /// A list of one.
    #[must_use]
    pub fn of(first: T) -> Self {
        Self(vec![first])
    }

    /// `None` for an empty vector.
    #[must_use]
    pub fn from_vec(items: Vec<T>) -> Option<Self> {
        (!items.is_empty()).then_some(Self(items))
    }

    /// The first element.
    #[must_use]
    pub fn first(&self) -> &T {
        self.0.first().expect("because a NonEmpty is never built empty")
    }

    /// All elements, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.0.iter()
    }

    /// How many; never zero.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// As a plain slice.
    #[must_use]
    pub fn as_slice(&self) -> &[T] {
        &self.0
    }
}

/// A path as printable text for messages that are not for a terminal: escaped bytes, never lossy.
#[must_use]
pub fn escaped(path: &Path) -> String {
    path.as_os_str().as_encoded_bytes().escape_ascii().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_exactly_one_component() {
        for bad in [&b""[..], b".", b"..", b"a/b", b"a\0b", b"/"] {
            assert_eq!(WorkspaceName::new(bad), Err(NotAName), "{bad:?}");
        }
        for good in [&b"..."[..], b"-rf", b"a\nb", b"\xff", b" "] {
            assert_eq!(WorkspaceName::new(good).map(|n| n.as_bytes().to_vec()), Ok(good.to_vec()));
        }
    }

    #[test]
    fn times_before_the_epoch_keep_their_order() {
        let before = Timestamp::new(-2, 999_999_999);
        assert_eq!((before.seconds(), before.subsecond_nanoseconds()), (-2, 999_999_999));
        assert!(before < Timestamp::new(-1, 0));
        let day = std::time::Duration::from_secs(86_400);
        assert_eq!(Timestamp::new(86_400, 7).before(day), Timestamp::new(0, 7));
        assert_eq!(Timestamp::new(0, 7).after(day), Timestamp::new(86_400, 7));
    }

    #[test]
    fn an_identity_of_another_birth_is_another_directory() {
        let old = FileIdentity { dev: 1, ino: 2, birth: Some(Timestamp::new(1, 0)) };
        let new = FileIdentity { birth: Some(Timestamp::new(2, 0)), ..old };
        assert_ne!(old, new);
        assert!(old.same_inode(&new));
        assert!(!old.same_inode(&FileIdentity { dev: 2, ..old }));
        assert!(!old.same_inode(&FileIdentity { ino: 3, ..old }));
    }

    #[test]
    fn a_digest_tells_values_apart_and_prints_as_hex() {
        assert_eq!(
            Digest::of_bytes(b"").to_string(),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
        );
        assert_ne!(Digest::of(&Some(1)), Digest::of(&Some(2)));
        let digest = Digest::of_bytes(b"x");
        assert_eq!(Digest::parse(&digest.to_string()), Some(digest));
        for bad in ["", "00", &"g".repeat(64), &"+1".repeat(32), &"A".repeat(64), &"é".repeat(32), &"0".repeat(66)] {
            assert_eq!(Digest::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_digest_comes_back_from_its_text_and_from_its_bytes_and_nothing_else_is_one() {
        let digest = Digest::of_bytes(b"x");
        let text = digest.to_string();
        assert_eq!(Digest::parse(&text), Some(digest));
        assert_eq!(Digest::from_bytes(*digest.as_bytes()), digest);
        let wrong = [String::new(), text.to_uppercase(), format!("{text}0"), text[1..].to_owned(), "+1".repeat(32)];
        assert_eq!(wrong.map(|text| Digest::parse(&text)), [None; 5]);
    }

    #[test]
    fn ids_print_as_they_are_and_paths_without_losing_a_byte() {
        use std::os::unix::ffi::OsStrExt;
        assert_eq!(SourceId("devpod".into()).to_string(), "devpod");
        assert_eq!(OwnerId("w-1".into()).to_string(), "w-1");
        assert_eq!(IntentId(7).to_string(), "7");
        let odd = std::ffi::OsStr::from_bytes(b"/a\n\xff");
        assert_eq!(escaped(Path::new(odd)), "/a\\n\\xff");
        assert_eq!(format!("{:?}", WorkspaceName::new(&b"a\n"[..])), "Ok(\"a\\n\")");
    }

    #[test]
    fn a_non_empty_list_cannot_be_empty() {
        assert_eq!(NonEmpty::<u8>::from_vec(Vec::new()), None);
        let two = NonEmpty::from_vec(vec![1, 2]).expect("because it has two");
        assert_eq!((two.count(), *two.first(), two.as_slice()), (2, 1, &[1, 2][..]));
        assert_eq!(two.iter().sum::<i32>(), 3);
    }
}
