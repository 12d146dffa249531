//! Differences between two versions of a text, line by line, and whether one change is part of another.
//! Bytes are compared as they are: a change of white space is a change.

use std::ops::Range;

/// Texts larger than this are not compared by lines; only as wholes.
pub(crate) const MOST_BYTES: u64 = 4 * 1024 * 1024;

/// Lines that may differ before a comparison is given up; the work grows with the square of it.
const MOST_DIFFERENCES: usize = 1_500;

/// Lines around a change that must be the same for it to be the same change, as many as git shows.
const CONTEXT: usize = 3;

/// Lines of the text before that were replaced by lines of the text after.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Hunk {
    before: Range<usize>,
    after: Range<usize>,
}

/// Whether merging `theirs` into `ours` would change nothing: every change that leads from `base` to
/// `theirs` is among those that lead from `base` to `ours`, at the same place.
pub(crate) fn carries(base: &[u8], ours: &[u8], theirs: &[u8]) -> bool {
    let (base, ours, theirs) = (lines(base), lines(ours), lines(theirs));
    let (Some(wanted), Some(made)) = (hunks(&base, &theirs), hunks(&base, &ours)) else { return false };
    let made: Vec<_> = made.into_iter().map(|hunk| (hunk.before, &ours[hunk.after])).collect();
    !wanted.is_empty() && wanted.into_iter().all(|hunk| made.contains(&(hunk.before, &theirs[hunk.after])))
}

/// Whether two changes of texts are the same change: the same lines taken out and put in, in the same
/// order, each between the same lines. Where in the text that was does not matter.
pub(crate) fn same_change(one: (&[u8], &[u8]), other: (&[u8], &[u8])) -> bool {
    let change = |before: &'_ [u8], after: &'_ [u8]| -> Option<Vec<Vec<Vec<u8>>>> {
        let (before, after) = (lines(before), lines(after));
        let owned = |lines: &[&[u8]]| lines.concat();
        let parts = |hunk: Hunk| {
            let above = hunk.before.start.saturating_sub(CONTEXT)..hunk.before.start;
            let below = hunk.before.end..before.len().min(hunk.before.end + CONTEXT);
            vec![owned(&before[above]), owned(&before[hunk.before]), owned(&after[hunk.after]), owned(&before[below])]
        };
        Some(hunks(&before, &after)?.into_iter().map(parts).collect())
    };
    let (one, other) = (change(one.0, one.1), change(other.0, other.1));
    one.is_some_and(|one| !one.is_empty() && other.is_some_and(|other| one == other))
}

/// Lines with their ends, so that a last line without one is another line.
fn lines(text: &[u8]) -> Vec<&[u8]> {
    text.split_inclusive(|byte| *byte == b'\n').collect()
}

/// The changes, in order, by Myers' greedy search; `None` when there are too many.
fn hunks(before: &[&[u8]], after: &[&[u8]]) -> Option<Vec<Hunk>> {
    let same = |(one, other): &(&&[u8], &&[u8])| one == other;
    let head = before.iter().zip(after).take_while(same).count();
    let rest = before.len().min(after.len()) - head;
    let tail = before.iter().rev().zip(after.iter().rev()).take(rest).take_while(same).count();
    let (old, new) = (&before[head..before.len() - tail], &after[head..after.len() - tail]);
    let matches = matches(old, new)?;
    let mut hunks = Vec::new();
    let (mut x, mut y) = (0, 0);
    for (i, j) in matches.into_iter().chain([(old.len(), new.len())]) {
        if x < i || y < j {
            hunks.push(Hunk { before: head + x..head + i, after: head + y..head + j });
        }
        (x, y) = (i + 1, j + 1);
    }
    hunks.iter_mut().for_each(|hunk| slide(hunk, before, after));
    Some(hunks)
}

/// Lines that were only put in or only taken out may stand at several places when the lines around are
/// the same; the last such place stands for all.
fn slide(hunk: &mut Hunk, before: &[&[u8]], after: &[&[u8]]) {
    let (range, lines) = match (hunk.before.is_empty(), hunk.after.is_empty()) {
        (true, false) => (hunk.after.clone(), after),
        (false, true) => (hunk.before.clone(), before),
        (true, true) | (false, false) => return,
    };
    let by = (range.end..lines.len()).take_while(|at| lines[*at] == lines[*at - range.len()]).count();
    let within = (before.len() - hunk.before.end).min(after.len() - hunk.after.end);
    let by = by.min(within);
    // Only over lines that both texts have there.
    let both = (0..by).take_while(|step| before[hunk.before.end + step] == after[hunk.after.end + step]).count();
    hunk.before = hunk.before.start + both..hunk.before.end + both;
    hunk.after = hunk.after.start + both..hunk.after.end + both;
}

/// Pairs of positions of lines that stay, in order.
fn matches(old: &[&[u8]], new: &[&[u8]]) -> Option<Vec<(usize, usize)>> {
    let (rows, columns) = (old.len(), new.len());
    // `reached[d]` holds, for each diagonal from -d to d, how far `d` differences lead.
    let mut reached: Vec<Vec<usize>> = Vec::new();
    for d in 0..=(rows + columns).min(MOST_DIFFERENCES) {
        let mut ends = vec![0; 2 * d + 1];
        for at in (0..=2 * d).step_by(2) {
            // The diagonal is `at - d`: x - y. Beyond the ends nothing matches, and no way leads back.
            let mut x = start(&reached, at);
            let mut y = x + d - at;
            while x < rows && y < columns && old[x] == new[y] {
                (x, y) = (x + 1, y + 1);
            }
            ends[at] = x;
            if x == rows && y == columns {
                reached.push(ends);
                return Some(trace(&reached, rows, columns));
            }
        }
        reached.push(ends);
    }
    None
}

/// How far one gets on a diagonal with one difference more than was spent before: from the diagonal
/// above or the one below, whichever leads further.
fn start(reached: &[Vec<usize>], at: usize) -> usize {
    let [right, down] = neighbours(reached, at);
    right.max(down).unwrap_or(0)
}

fn neighbours(reached: &[Vec<usize>], at: usize) -> [Option<usize>; 2] {
    let Some(last) = reached.last() else { return [None; 2] };
    [at.checked_sub(2).map(|at| last[at] + 1), last.get(at).copied()]
}

/// Goes back from the end, difference by difference.
fn trace(reached: &[Vec<usize>], rows: usize, columns: usize) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let (mut x, mut y) = (rows, columns);
    for d in (0..reached.len()).rev() {
        let at = x + d - y;
        let from = start(&reached[..d], at);
        while x > from && y > 0 && x > 0 {
            (x, y) = (x - 1, y - 1);
            found.push((x, y));
        }
        if d == 0 {
            break;
        }
        if neighbours(&reached[..d], at)[0] == Some(from) {
            x -= 1;
        } else {
            y -= 1;
        }
    }
    found.reverse();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Puts the change into effect again.
    fn applied(before: &[&[u8]], after: &[&[u8]], hunks: &[Hunk]) -> Vec<u8> {
        let (mut text, mut at) = (Vec::new(), 0);
        for hunk in hunks {
            text.extend(before[at..hunk.before.start].concat());
            text.extend(after[hunk.after.clone()].concat());
            at = hunk.before.end;
        }
        text.extend(before[at..].concat());
        text
    }

    fn text() -> impl Strategy<Value = String> {
        "([abc]\n){0,12}[abc]?"
    }

    proptest! {
        #[test]
        fn the_changes_lead_from_one_text_to_the_other(before in text(), after in text()) {
            let (old, new) = (lines(before.as_bytes()), lines(after.as_bytes()));
            let hunks = hunks(&old, &new).expect("because the texts are short");
            prop_assert_eq!(applied(&old, &new, &hunks), after.as_bytes());
        }

        #[test]
        fn what_a_text_carries_is_in_it_line_by_line(base in text(), ours in text(), theirs in text()) {
            if carries(base.as_bytes(), ours.as_bytes(), theirs.as_bytes()) {
                let known: Vec<&[u8]> = lines(base.as_bytes()).into_iter().chain(lines(ours.as_bytes())).collect();
                prop_assert!(lines(theirs.as_bytes()).iter().all(|line| known.contains(line)));
            }
        }
    }

    #[test]
    fn a_change_beside_others_is_carried_and_half_of_it_is_not() {
        let base = b"1\n2\n3\n4\n5\n6\n";
        let theirs = b"1\ntwo\n3\n4\n5\nsix\n";
        assert!(carries(base, theirs, theirs));
        assert!(carries(base, b"0\n1\ntwo\n3\n4\nnew\n5\nsix\n", theirs));
        assert!(!carries(base, b"1\ntwo\n3\n4\n5\nsix\n7\n", theirs), "git would see a conflict");
        assert!(!carries(base, b"1\ntwo\n3\n4\n5\n6\n", theirs));
        assert!(!carries(base, b"1\ntwo \n3\n4\n5\nsix\n", theirs));
        assert!(!carries(base, b"1\n2\n3\ntwo\n4\n5\nsix\n", theirs));
        assert!(!carries(base, base, base), "no change at all is no proof");
    }

    #[test]
    fn the_same_change_further_down_is_the_same_and_one_of_white_space_is_not() {
        let (before, after) = (&b"a\nb\nc\nd\n"[..], &b"a\nb\nnew\nc\nd\n"[..]);
        let (moved, made) = (&b"x\ny\nz\na\nb\nc\nd\n"[..], &b"x\ny\nz\na\nb\nnew\nc\nd\n"[..]);
        assert!(!same_change((before, after), (moved, made)), "the lines around it are others");
        let (moved, made) = (&b"x\ny\nz\n0\n1\na\nb\nc\nd\n"[..], &b"x\ny\nz\n0\n1\na\nb\nnew\nc\nd\n"[..]);
        let (before, after) = (&b"0\n1\na\nb\nc\nd\n"[..], &b"0\n1\na\nb\nnew\nc\nd\n"[..]);
        assert!(same_change((before, after), (moved, made)));
        let indented = &b"x\ny\nz\n0\n1\na\nb\n new\nc\nd\n"[..];
        assert!(!same_change((before, after), (moved, indented)));
    }
}
