//! Inner loop of a merge join: pairs the rows of two sorted slices of keys (pure).

use std::cmp::Ordering;

use super::cursor::{Window, first_not};
use super::keys::KeySlice;
use super::kind::JoinKind;
use super::pairs::Pairs;

/// Reason for the end of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// A window is empty.
    Window,
    /// The pairs have no room for the next rows.
    Full,
    /// The next rows are equal, and their group may continue in the next batch or has more pairs than a result batch.
    Group,
}

/// Merges the rows of two windows up to the first group that is not complete within both.
pub(super) fn scan<K: KeySlice + ?Sized>(
    kind: JoinKind,
    (left, ours): (&K, &mut Window),
    (right, theirs): (&K, &mut Window),
    pairs: &mut Pairs,
) -> Stop {
    let (keeps_left, keeps_right) = (kind.keeps_left(), kind.keeps_right());
    while ours.row < ours.end && theirs.row < theirs.end {
        let room = pairs.room();
        if room == 0 {
            return Stop::Full;
        }
        let (our_key, their_key) = (left.key(ours.row), right.key(theirs.row));
        match our_key.cmp(&their_key) {
            Ordering::Less => {
                let end = if keeps_left { ours.end.min(ours.row + room) } else { ours.end };
                let end = first_not(ours.row + 1, end, |row| left.key(row) < their_key);
                if keeps_left {
                    pairs.left_only(ours.row..end);
                }
                ours.row = end;
            }
            Ordering::Greater => {
                let end = if keeps_right { theirs.end.min(theirs.row + room) } else { theirs.end };
                let end = first_not(theirs.row + 1, end, |row| right.key(row) < our_key);
                if keeps_right {
                    pairs.right_only(theirs.row..end);
                }
                theirs.row = end;
            }
            Ordering::Equal => {
                if ours.row >= ours.complete || theirs.row >= theirs.complete {
                    return Stop::Group;
                }
                let our_end = first_not(ours.row + 1, ours.complete, |row| left.key(row) == our_key);
                let their_end = first_not(theirs.row + 1, theirs.complete, |row| right.key(row) == our_key);
                let (our_rows, their_rows) = (ours.row..our_end, theirs.row..their_end);
                let rows = match kind {
                    JoinKind::Anti => 0,
                    JoinKind::Semi => our_rows.len(),
                    _ => our_rows.len() * their_rows.len(),
                };
                if rows > room {
                    return if pairs.is_empty() { Stop::Group } else { Stop::Full };
                }
                match kind {
                    JoinKind::Anti => {}
                    JoinKind::Semi => pairs.left_only(our_rows),
                    _ => pairs.cross(our_rows, their_rows),
                }
                (ours.row, theirs.row) = (our_end, their_end);
            }
        }
    }
    Stop::Window
}
