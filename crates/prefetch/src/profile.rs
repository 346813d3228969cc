//! The files and look-ups of a command's earlier runs, in order, so that its next start can be prefetched. Pure but for
//! `store`.
//!
//! A start of a program that opens hundreds of files waits for each look-up and each first read in turn. A [`Profile`]
//! lists them in the order of first use; [`Replay`] chooses the next entry to fetch, ahead of the program by at most a budget of
//! bytes. Contents are never part of it. [`ProfileStore`] has them in the user's cache directory.

mod store;

use std::collections::{HashMap, HashSet, VecDeque};
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
/// Maximum entries fetched ahead of the program: an outdated part of the profile costs at most this.
const AHEAD_ENTRIES_MAX: usize = 1024;

/// Number of fetched files below a directory from which a run that opens them is seen to open at least one: a single use of a
/// cached file is mostly too short to be seen.
const SEEN_ENTRIES_MIN: usize = 64;
/// Successive runs without a use after which an entry is removed.
const UNUSED_RUNS_MAX: u32 = 3;

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
    /// Successive runs in which it was read from storage, and nothing near it was seen in use.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unused_runs: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl Entry {
    /// A path that was used in the current run.
    #[must_use]
    pub fn new(path: PathBuf, found: Found) -> Entry {
        Entry { path, found, unused_runs: 0 }
    }
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
                Some(&index) => Entry::new(entry.path.clone(), merged(&entry.found, &run[index].found)),
                None => entry.clone(),
            });
            add(&mut next, Some(place));
        }
        next.truncate(ENTRIES_MAX);
        self.entries = next;
    }

    /// Records which paths a run was seen to use, and removes entries that several runs have not used. Returns whether
    /// anything has changed. `fetched` are the paths that had to be read from storage ahead of the program, all others are
    /// not judged: they cost little.
    ///
    /// Not every use is seen, since uses of cached files are short. An entry counts as unused if no path was seen below the
    /// closest of its directories with many fetched files; a profile with few of them keeps its entries.
    pub fn note_use<'a>(
        &mut self,
        fetched: &HashSet<&Path>,
        seen: impl IntoIterator<Item = &'a Path>,
    ) -> bool {
        let mut below: HashMap<&Path, (usize, bool)> = HashMap::new();
        for path in fetched {
            path.ancestors().skip(1).for_each(|directory| below.entry(directory).or_default().0 += 1);
        }
        for path in seen {
            for directory in path.ancestors().skip(1) {
                if let Some((_, is_seen)) = below.get_mut(directory) {
                    *is_seen = true;
                }
            }
        }
        let is_used = |entry: &Entry| {
            let mut counts = entry.path.ancestors().skip(1).filter_map(|directory| below.get(directory));
            let is_judged = fetched.contains(entry.path.as_path());
            !is_judged
                || counts.find(|(count, _)| *count >= SEEN_ENTRIES_MIN).is_none_or(|&(_, is_seen)| is_seen)
        };
        let used: Vec<bool> = self.entries.iter().map(is_used).collect();
        let mut has_changed = false;
        for (entry, is_used) in self.entries.iter_mut().zip(used) {
            let before = entry.unused_runs;
            entry.unused_runs = match (is_used, fetched.contains(entry.path.as_path())) {
                (false, _) => before + 1,
                (true, true) => 0,
                (true, false) => before,
            };
            has_changed |= entry.unused_runs != before;
        }
        self.entries.retain(|entry| entry.unused_runs < UNUSED_RUNS_MAX);
        has_changed
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
///
/// A program uses its files nearly, but not exactly in the recorded order: threads and cached files change it. So all entries
/// are fetched but those that were seen in use, and the place of the program, from which the distance is counted, is the median
/// of the entries that it has used last. To fetch one that it has passed unseen costs little, since that is cached.
#[derive(Debug)]
pub struct Replay {
    entries: Vec<Entry>,
    by_path: HashMap<PathBuf, usize>,
    used: Vec<bool>,
    /// Entries used last for the first time, the latest at the end.
    recent: VecDeque<usize>,
    /// Next entry to fetch.
    next: usize,
    /// The place of the program: the entries before it count as used. At most `next`.
    passed: usize,
    /// Bytes of entries before `next`, and before `passed`.
    fetched_bytes: u64,
    passed_bytes: u64,
}

/// Entries used last that determine the place of the program.
const RECENT_ENTRIES: usize = 7;

impl Replay {
    /// The replay of a profile from its beginning.
    #[must_use]
    pub fn new(profile: &Profile) -> Replay {
        let entries = profile.entries.clone();
        let by_path = entries.iter().enumerate().map(|(index, entry)| (entry.path.clone(), index)).collect();
        let (used, recent) = (vec![false; entries.len()], VecDeque::with_capacity(RECENT_ENTRIES));
        Replay { entries, by_path, used, recent, next: 0, passed: 0, fetched_bytes: 0, passed_bytes: 0 }
    }

    /// Records that the program uses a path.
    pub fn reach(&mut self, path: &Path) {
        let Some(&index) = self.by_path.get(path) else { return };
        if std::mem::replace(&mut self.used[index], true) {
            return;
        }
        if self.recent.len() == RECENT_ENTRIES {
            self.recent.pop_front();
        }
        self.recent.push_back(index);
        self.pass();
    }

    /// Moves the place of the program to where it was seen last.
    fn pass(&mut self) {
        let mut recent: Vec<usize> = self.recent.iter().copied().collect();
        recent.resize(RECENT_ENTRIES, 0);
        recent.sort_unstable();
        while self.passed < recent[RECENT_ENTRIES / 2].min(self.next) {
            self.passed_bytes += self.entries[self.passed].found.bytes();
            self.passed += 1;
        }
    }

    /// Returns the next entry to fetch with its index; `None` while `budget` bytes or too many entries are ahead of the
    /// program, and at the end. A single entry may exceed the budget if nothing is ahead.
    pub fn next_fetch(&mut self, budget: u64) -> Option<(usize, Entry)> {
        while self.used.get(self.next) == Some(&true) {
            self.skip();
        }
        self.pass();
        let entry = self.entries.get(self.next)?.clone();
        let ahead = self.fetched_bytes.saturating_sub(self.passed_bytes);
        let (most_bytes, most_entries) = if self.recent.is_empty() {
            (budget.min(UNCONFIRMED_BYTES_MAX), UNCONFIRMED_ENTRIES_MAX)
        } else {
            (budget, AHEAD_ENTRIES_MAX)
        };
        let is_far = self.next - self.passed >= most_entries;
        if is_far || ahead > 0 && ahead + entry.found.bytes() > most_bytes {
            return None;
        }
        self.skip();
        Some((self.next - 1, entry))
    }

    fn skip(&mut self) {
        self.fetched_bytes += self.entries[self.next].found.bytes();
        self.next += 1;
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
        Entry::new(PathBuf::from(name), found)
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
        profile.merge(vec![Entry::new(PathBuf::from("/b"), changed.clone())]);
        assert_eq!(profile.entries[2].found, changed);
        profile.remove(&[0, 3]);
        assert_eq!(names(&profile), ["/a", "/b", "/c"]);
    }

    #[test]
    fn a_profile_is_saved_as_text_that_people_can_read() {
        let mut profile = Profile::new(vec!["python3".to_owned(), "-c".to_owned()], PathBuf::from("/home"));
        let missing = Entry::new(PathBuf::from("/no"), Found::Missing);
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
        let more = std::iter::from_fn(|| replay.next_fetch(1 << 40)).count();
        assert_eq!(more + fetched, AHEAD_ENTRIES_MAX);
        // The program uses other files from now on.
        replay.reach(Path::new("/12"));
        assert_eq!(replay.next_fetch(1 << 40), None);
        (13..2000).for_each(|index| replay.reach(Path::new(&format!("/{index}"))));
        let rest = std::iter::from_fn(|| replay.next_fetch(1 << 40)).count();
        assert!(rest > 0 && rest <= AHEAD_ENTRIES_MAX, "{rest}");
    }

    #[test]
    fn a_path_that_is_used_early_does_not_end_the_replay() {
        let mut profile = Profile::new(Vec::new(), PathBuf::from("/"));
        profile.merge((0..500).map(|index| file(&format!("/{index}"), vec![0..4096])).collect());
        let mut replay = Replay::new(&profile);
        // Libraries, for example, which another run has mapped later.
        (490..500).chain(0..2).for_each(|index| replay.reach(Path::new(&format!("/{index}"))));
        let fetched = std::iter::from_fn(|| replay.next_fetch(1 << 40)).count();
        assert_eq!(fetched, 488, "all but those that were seen in use");
    }

    #[test]
    fn entries_that_several_runs_have_not_used_are_removed_and_the_others_stay() {
        let of = |tree: &str| -> Vec<Entry> {
            (0..200).map(|index| file(&format!("/mnt/{tree}/{}/{index}", index % 9), vec![])).collect()
        };
        let mut profile = Profile::new(Vec::new(), PathBuf::from("/"));
        profile.merge(of("old"));
        profile.merge(of("new"));
        let seen: Vec<PathBuf> =
            ["/mnt/new/3/12", "/usr/lib/libc.so.6"].into_iter().map(PathBuf::from).collect();
        let seen = || seen.iter().map(PathBuf::as_path);
        let paths: Vec<PathBuf> = profile.entries.iter().map(|entry| entry.path.clone()).collect();
        let all: HashSet<&Path> = paths.iter().map(PathBuf::as_path).collect();
        // Everything was cached: nothing is known, and nothing was wasted.
        assert!(!profile.note_use(&HashSet::new(), seen()));
        for run in 1..=UNUSED_RUNS_MAX {
            assert_eq!(profile.entries.len(), 400, "run {run}");
            assert!(profile.note_use(&all, seen()));
        }
        assert!(names(&profile).iter().all(|name| name.starts_with("/mnt/new")), "{:?}", names(&profile));
        assert_eq!(profile.entries.len(), 200);
        assert!(!profile.note_use(&all, seen()));
        // A small profile is never judged.
        let mut small = Profile::new(Vec::new(), PathBuf::from("/"));
        small.merge(vec![file("/a/b", vec![])]);
        assert!(!small.note_use(&[Path::new("/a/b")].into(), []));
    }

    proptest! {
        #[test]
        fn entries_are_fetched_once_in_order_within_the_budget(
            sizes in prop::collection::vec(0..100u64, 1..200),
            reached in prop::collection::vec(any::<prop::sample::Index>(), 0..50),
            budget in 1..500u64,
        ) {
            let mut profile = Profile::new(Vec::new(), PathBuf::from("/"));
            profile.merge(sizes.iter().enumerate().map(|(index, &size)| file(&format!("/{index}"), vec![0..size])).collect());
            let mut replay = Replay::new(&profile);
            let mut last = None;
            for place in reached {
                while let Some((index, _)) = replay.next_fetch(budget) {
                    prop_assert!(last.is_none_or(|last| index > last));
                    let ahead: u64 = sizes[replay.passed.min(index)..=index].iter().sum();
                    prop_assert!(ahead <= budget.max(sizes[index]));
                    last = Some(index);
                }
                replay.reach(Path::new(&format!("/{}", place.index(sizes.len()))));
            }
            // However the program continues, each entry is fetched or seen in use.
            for index in 0..sizes.len() {
                while replay.next_fetch(budget).is_some() {}
                replay.reach(Path::new(&format!("/{index}")));
            }
            while replay.next_fetch(u64::MAX).is_some() {}
            prop_assert!(replay.is_over());
        }
    }
}
