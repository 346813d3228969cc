//! The files and look-ups of a command's earlier runs, in order, so that its next start can be prefetched. Pure but for
//! `store`.
//!
//! A start of a program that opens hundreds of files waits for each look-up and each first read in turn. A [`Profile`]
//! lists them in the order of first use; [`Replay`] chooses the next entry to fetch, ahead of the program by at most a budget of
//! bytes. Contents are never part of it. [`ProfileStore`] has them in the user's cache directory.

mod store;

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use store::{ProfileStore, Saved, load, name_of, write};

/// Identifies the format of a saved profile.
pub const PROFILE_SCHEMA: &str = "sakiyomi.profile/1";

/// Entries of a profile. Further ones are not recorded.
pub const ENTRIES_MAX: usize = 50_000;

/// Maximum entries fetched before the program is seen to use one; this bounds the cost of an outdated profile.
const UNCONFIRMED_ENTRIES_MAX: usize = 256;
/// Maximum bytes fetched before that.
const UNCONFIRMED_BYTES_MAX: u64 = 64 << 20;

/// The files and look-ups of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// [`PROFILE_SCHEMA`].
    pub schema: String,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// Its working directory.
    pub directory: PathBuf,
    /// Runs that the profile is made of.
    pub runs: u64,
    /// I/O wait of the last run without a replay, in nanoseconds, summed over threads; 0 if there was none.
    pub io_wait_ns: u64,
    /// In order of first use.
    pub entries: Vec<Entry>,
}

/// A look-up, and what was read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Absolute path, as the program named it.
    pub path: PathBuf,
    /// The kind of file there, or that there is none.
    #[serde(flatten)]
    pub found: Found,
}

/// A file, a directory, or nothing at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Found {
    /// A regular file.
    File {
        /// Inode number.
        inode: u64,
        /// Size in bytes.
        size_bytes: u64,
        /// Time of modification in nanoseconds since 1970.
        modified_ns: i64,
        /// Ranges that were read, in bytes; empty if only its attributes were.
        ranges: Vec<Range<u64>>,
    },
    /// A directory, whose entries were listed or whose attributes were read.
    Directory,
    /// No file; the kernel caches the failed look-up.
    Missing,
}

impl Found {
    /// Returns the bytes of the ranges.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Found::File { ranges, .. } => ranges.iter().map(|range| range.end - range.start).sum(),
            Found::Directory | Found::Missing => 0,
        }
    }
}

impl Profile {
    /// An empty profile of a command.
    #[must_use]
    pub fn new(command: Vec<String>, directory: PathBuf) -> Profile {
        Profile {
            schema: PROFILE_SCHEMA.to_owned(),
            command,
            directory,
            runs: 0,
            io_wait_ns: 0,
            entries: Vec::new(),
        }
    }

    /// Returns the bytes of all ranges.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.entries.iter().map(|entry| entry.found.bytes()).sum()
    }

    /// Merges the entries of another run. Ranges of an unchanged file are joined, a changed file has its new entry,
    /// and a new path follows the path that preceded it in that run.
    pub fn merge(&mut self, run: Vec<Entry>) {
        self.runs += 1;
        let mut next: Vec<Entry> = Vec::with_capacity(self.entries.len() + run.len());
        let known: HashMap<&Path, usize> =
            self.entries.iter().enumerate().map(|(index, entry)| (entry.path.as_path(), index)).collect();
        // New entries, grouped by the known entry that they follow; `None` for those at the beginning.
        let mut following: HashMap<Option<usize>, Vec<usize>> = HashMap::new();
        let mut updated: HashMap<usize, usize> = HashMap::new();
        let mut after = None;
        for (index, entry) in run.iter().enumerate() {
            match known.get(entry.path.as_path()) {
                Some(&place) => {
                    updated.insert(place, index);
                    after = Some(place);
                }
                None => following.entry(after).or_default().push(index),
            }
        }
        let mut add = |next: &mut Vec<Entry>, after: Option<usize>| {
            let new = following.remove(&after).unwrap_or_default();
            next.extend(new.into_iter().map(|index| run[index].clone()));
        };
        add(&mut next, None);
        for (place, entry) in self.entries.iter().enumerate() {
            next.push(match updated.get(&place) {
                Some(&index) => {
                    Entry { path: entry.path.clone(), found: merged(&entry.found, &run[index].found) }
                }
                None => entry.clone(),
            });
            add(&mut next, Some(place));
        }
        next.truncate(ENTRIES_MAX);
        self.entries = next;
    }

    /// Removes outdated entries, given by their indices in ascending order.
    pub fn remove(&mut self, outdated: &[usize]) {
        let mut index = 0;
        self.entries.retain(|_| {
            let stays = outdated.binary_search(&index).is_err();
            index += 1;
            stays
        });
    }
}

/// Ranges of an unchanged file are joined; of a changed one the later are kept.
fn merged(before: &Found, after: &Found) -> Found {
    match (before, after) {
        (
            Found::File { inode, size_bytes, modified_ns, ranges },
            Found::File {
                inode: other_inode,
                size_bytes: other_size,
                modified_ns: other_modified,
                ranges: other,
            },
        ) if (inode, size_bytes, modified_ns) == (other_inode, other_size, other_modified) => Found::File {
            inode: *inode,
            size_bytes: *size_bytes,
            modified_ns: *modified_ns,
            ranges: joined(ranges.iter().chain(other).cloned().collect()),
        },
        _ => after.clone(),
    }
}

/// Returns the union of ranges, in ascending order.
#[must_use]
pub fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort_by_key(|range| range.start);
    let mut union: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match union.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => union.push(range),
        }
    }
    union
}

/// Which entries of a profile to fetch, and when.
#[derive(Debug)]
pub struct Replay {
    entries: Vec<Entry>,
    by_path: HashMap<PathBuf, usize>,
    /// Next entry to fetch.
    next: usize,
    /// Entries up to here have been used by the program, as far as seen.
    reached: usize,
    /// Bytes of entries before `next`, and before `reached`.
    fetched_bytes: u64,
    reached_bytes: u64,
}

impl Replay {
    /// The replay of a profile from its beginning.
    #[must_use]
    pub fn new(profile: &Profile) -> Replay {
        let entries = profile.entries.clone();
        let by_path = entries.iter().enumerate().map(|(index, entry)| (entry.path.clone(), index)).collect();
        Replay { entries, by_path, next: 0, reached: 0, fetched_bytes: 0, reached_bytes: 0 }
    }

    /// Records that the program uses a path: entries before it in the profile count as used.
    pub fn reach(&mut self, path: &Path) {
        let Some(&index) = self.by_path.get(path) else { return };
        while self.reached <= index {
            self.reached_bytes += self.entries[self.reached].found.bytes();
            self.reached += 1;
        }
    }

    /// Returns the next entry to fetch with its index; `None` while `budget` bytes are ahead of the program, while no
    /// sign of it has been seen for long, and at the end. A single entry may exceed the budget if nothing is ahead.
    pub fn next_fetch(&mut self, budget: u64) -> Option<(usize, Entry)> {
        // The program has passed these entries.
        while self.next < self.reached {
            self.fetched_bytes += self.entries[self.next].found.bytes();
            self.next += 1;
        }
        let entry = self.entries.get(self.next)?;
        let ahead = self.fetched_bytes - self.reached_bytes;
        let is_confirmed = self.reached > 0;
        let bytes = entry.found.bytes();
        let limit = if is_confirmed { budget } else { budget.min(UNCONFIRMED_BYTES_MAX) };
        if ahead > 0 && ahead + bytes > limit || !is_confirmed && self.next >= UNCONFIRMED_ENTRIES_MAX {
            return None;
        }
        self.fetched_bytes += bytes;
        self.next += 1;
        Some((self.next - 1, entry.clone()))
    }

    /// Returns whether nothing is left to fetch.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.next >= self.entries.len()
    }
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "lists of ranges, some of which have one")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file(name: &str, ranges: Vec<Range<u64>>) -> Entry {
        let found = Found::File { inode: 1, size_bytes: 1 << 20, modified_ns: 7, ranges };
        Entry { path: PathBuf::from(name), found }
    }

    fn names(profile: &Profile) -> Vec<&str> {
        profile.entries.iter().map(|entry| entry.path.to_str().unwrap()).collect()
    }

    #[test]
    fn new_entries_come_after_those_that_preceded_them_and_ranges_of_the_same_file_are_joined() {
        let mut profile = Profile::new(vec!["x".to_owned()], PathBuf::from("/"));
        profile.merge(vec![file("/a", vec![0..10]), file("/b", vec![0..10]), file("/c", vec![])]);
        assert_eq!(names(&profile), ["/a", "/b", "/c"]);
        profile.merge(vec![
            file("/0", vec![]),
            file("/b", vec![5..20, 30..40]),
            file("/d", vec![]),
            file("/c", vec![]),
        ]);
        assert_eq!(names(&profile), ["/0", "/a", "/b", "/d", "/c"]);
        assert_eq!(profile.entries[2], file("/b", vec![0..20, 30..40]));
        assert_eq!((profile.runs, profile.bytes()), (2, 40));
        let Found::File { ranges, .. } = &profile.entries[2].found else { panic!() };
        let changed = Found::File { inode: 2, size_bytes: 50, modified_ns: 9, ranges: vec![0..50] };
        assert_eq!(ranges.len(), 2);
        profile.merge(vec![Entry { path: PathBuf::from("/b"), found: changed.clone() }]);
        assert_eq!(profile.entries[2].found, changed);
        profile.remove(&[0, 3]);
        assert_eq!(names(&profile), ["/a", "/b", "/c"]);
    }

    #[test]
    fn a_profile_is_saved_as_text_that_people_can_read() {
        let mut profile = Profile::new(vec!["python3".to_owned(), "-c".to_owned()], PathBuf::from("/home"));
        let missing = Entry { path: PathBuf::from("/no"), found: Found::Missing };
        profile.merge(vec![file("/a", vec![0..4096]), missing]);
        let text = serde_json::to_string(&profile).unwrap();
        assert!(text.contains(r#"{"path":"/no","kind":"missing"}"#), "{text}");
        assert_eq!(serde_json::from_str::<Profile>(&text).unwrap(), profile);
    }

    #[test]
    fn an_outdated_profile_costs_little() {
        let mut profile = Profile::new(Vec::new(), PathBuf::from("/"));
        profile.merge((0..10_000).map(|index| file(&format!("/{index}"), vec![0..1 << 20])).collect());
        let mut replay = Replay::new(&profile);
        let fetched = std::iter::from_fn(|| replay.next_fetch(1 << 40)).count();
        assert_eq!(fetched as u64, UNCONFIRMED_BYTES_MAX >> 20);
        replay.reach(Path::new("/7"));
        assert_eq!(std::iter::from_fn(|| replay.next_fetch(1 << 40)).count() + fetched, 10_000);
        assert!(replay.is_over());
    }

    proptest! {
        #[test]
        fn entries_are_fetched_in_order_within_the_budget(
            sizes in prop::collection::vec(0..100u64, 1..200),
            reached in prop::collection::vec(any::<prop::sample::Index>(), 0..50),
            budget in 1..500u64,
        ) {
            let mut profile = Profile::new(Vec::new(), PathBuf::from("/"));
            profile.merge(sizes.iter().enumerate().map(|(index, &size)| file(&format!("/{index}"), vec![0..size])).collect());
            let mut replay = Replay::new(&profile);
            let (mut last, mut furthest) = (None, 0);
            for place in reached {
                let place = place.index(sizes.len());
                while let Some((index, _)) = replay.next_fetch(budget) {
                    prop_assert!(last.is_none_or(|last| index > last));
                    let ahead: u64 = sizes[furthest.min(index)..=index].iter().sum();
                    prop_assert!(ahead <= budget.max(sizes[index]) || index < furthest);
                    last = Some(index);
                }
                replay.reach(Path::new(&format!("/{place}")));
                furthest = furthest.max(place + 1);
            }
        }
    }
}
