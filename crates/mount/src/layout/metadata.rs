//! Places of names and attributes, and the I/O that a file system would do for them.
//!
//! The simplest layout with a realistic cost: the first 64th of the drive is metadata (ext4: an inode of 256 bytes per
//! 16 KiB). A quarter of it, at most 32 MiB, is a journal. It is followed by the inode table, sixteen inodes per block,
//! allocated in the order in which files are found. The names of each directory take one block, allocated from the end.
//!
//! Blocks that were read stay cached, up to [`CACHED_MAX`]. Changed blocks accumulate and are written to the journal
//! together with one descriptor block: when one of their files is synced, or when [`GATHERED_MAX`] have accumulated.
//! Before the journal would overflow, all its blocks are written to their places.
//!
//! Pure, as the layout: the same calls give the same places.

use std::collections::{BTreeMap, BTreeSet};

use super::FileId;
use super::pieces::Run;

/// Cached blocks of metadata: 128 MiB, half a million inodes.
pub const CACHED_MAX: usize = 1 << 15;

/// Changed blocks that accumulate before they are written to the journal.
pub const GATHERED_MAX: usize = 256;

/// A 64th of the drive holds metadata: ext4's share.
const METADATA_DIVISOR: u64 = 64;

/// Blocks of the journal; on smaller drives it is a quarter of the metadata.
const JOURNAL_MAX_BLOCKS: u64 = 8192;

/// Inodes of 256 bytes in a block of 4 KiB, as in ext4.
const INODES_PER_BLOCK: u64 = 16;

/// A part of the metadata that an operation reads or changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Attributes of a file.
    Inode(FileId),
    /// Names in a directory.
    Names(FileId),
}

/// The drive's I/O for an operation: first the reads, then the writes, as runs of blocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Blocks that were not cached.
    pub reads: Vec<Run>,
    /// Blocks written to the journal, and from there to their places.
    pub writes: Vec<Run>,
}

impl Work {
    /// Returns whether no I/O is needed.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.reads.is_empty() && self.writes.is_empty()
    }
}

/// Metadata of a drive.
#[derive(Clone, Debug)]
pub struct Metadata {
    journal_blocks: u64,
    blocks: u64,
    places: BTreeMap<Part, u64>,
    inodes: Slots,
    names: Slots,
    cache: Cache,
    /// Blocks changed since the last write to the journal.
    gathered: BTreeSet<u64>,
    /// Blocks in the journal that have not been written to their places.
    logged: BTreeSet<u64>,
    journal_at: u64,
}

impl Metadata {
    /// Makes the metadata of a drive of `drive_blocks` blocks.
    #[must_use]
    pub fn new(drive_blocks: u64) -> Metadata {
        let blocks = blocks_of(drive_blocks);
        Metadata {
            journal_blocks: (blocks / 4).clamp(1, JOURNAL_MAX_BLOCKS),
            blocks,
            places: BTreeMap::new(),
            inodes: Slots::default(),
            names: Slots::default(),
            cache: Cache::default(),
            gathered: BTreeSet::new(),
            logged: BTreeSet::new(),
            journal_at: 0,
        }
    }

    /// Allocates the inode of a file or directory, after those allocated before.
    pub fn meet(&mut self, file: FileId) {
        self.block(Part::Inode(file));
    }

    /// Reads the parts.
    pub fn look_up(&mut self, parts: &[Part]) -> Work {
        Work { reads: self.read(parts), writes: Vec::new() }
    }

    /// Changes the parts.
    pub fn change(&mut self, parts: &[Part]) -> Work {
        let reads = self.read(parts);
        self.mark(parts);
        let full = self.gathered.len() >= GATHERED_MAX;
        Work { reads, writes: if full { self.commit() } else { Vec::new() } }
    }

    /// Changes the parts without I/O of their own; the next commit writes them to the journal.
    pub fn mark(&mut self, parts: &[Part]) {
        let blocks: Vec<u64> = parts.iter().map(|&part| self.block(part)).collect();
        self.gathered.extend(blocks);
    }

    /// Makes the parts durable.
    pub fn sync(&mut self, parts: &[Part]) -> Work {
        let changed = parts.iter().any(|&part| {
            let block = self.block(part);
            self.gathered.contains(&block)
        });
        Work { reads: Vec::new(), writes: if changed { self.commit() } else { Vec::new() } }
    }

    /// Removes a file and frees its places.
    pub fn remove(&mut self, file: FileId) {
        if let Some(place) = self.places.remove(&Part::Inode(file)) {
            self.inodes.give(place);
        }
        if let Some(place) = self.places.remove(&Part::Names(file)) {
            self.names.give(place);
        }
    }

    /// Drops the unchanged blocks of a file from the cache, after the kernel has done so.
    pub fn forget(&mut self, file: FileId) {
        for part in [Part::Inode(file), Part::Names(file)] {
            if self.places.contains_key(&part) {
                let block = self.block(part);
                if !self.gathered.contains(&block) {
                    self.cache.forget(block);
                }
            }
        }
    }

    fn read(&mut self, parts: &[Part]) -> Vec<Run> {
        let blocks: BTreeSet<u64> = parts.iter().map(|&part| self.block(part)).collect();
        let missing = blocks.into_iter().filter(|&block| !self.cache.use_or_add(block));
        runs(missing)
    }

    /// Writes all accumulated blocks to the journal.
    fn commit(&mut self) -> Vec<Run> {
        let wanted = self.gathered.len() as u64 + 1;
        let mut writes = Vec::new();
        // A transaction larger than the journal counts as a full journal.
        let fits = wanted.min(self.journal_blocks);
        if self.journal_at + fits > self.journal_blocks {
            writes = runs(std::mem::take(&mut self.logged));
            self.journal_at = 0;
        }
        writes.insert(0, Run { start: self.journal_at, blocks: fits });
        self.journal_at += fits;
        self.logged.append(&mut self.gathered);
        writes
    }

    /// Returns the block of a part; allocates it on first use.
    fn block(&mut self, part: Part) -> u64 {
        let place = match self.places.get(&part) {
            Some(&place) => place,
            None => {
                let place = match part {
                    Part::Inode(_) => self.inodes.take(),
                    Part::Names(_) => self.names.take(),
                };
                self.places.insert(part, place);
                place
            }
        };
        // Beyond the table's capacity, files share places: the backing directory may have any number of files.
        let table = self.blocks - self.journal_blocks;
        match part {
            Part::Inode(_) => self.journal_blocks + place / INODES_PER_BLOCK % table,
            Part::Names(_) => self.blocks - 1 - place % table,
        }
    }
}

/// Returns the number of blocks, from the beginning of the drive, that hold metadata.
pub(super) fn blocks_of(drive_blocks: u64) -> u64 {
    (drive_blocks / METADATA_DIVISOR).max(2)
}

/// Returns the part of a drive that is reserved for metadata.
pub(super) fn reserved(drive_blocks: u64) -> Run {
    Run { start: 0, blocks: blocks_of(drive_blocks) }
}

/// Slots allocated in ascending order, freed ones first.
#[derive(Clone, Debug, Default)]
struct Slots {
    free: BTreeSet<u64>,
    next: u64,
}

impl Slots {
    fn take(&mut self) -> u64 {
        self.free.pop_first().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        })
    }

    fn give(&mut self, slot: u64) {
        self.free.insert(slot);
    }
}

/// Converts blocks in ascending order to runs.
fn runs(blocks: impl IntoIterator<Item = u64>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for block in blocks {
        match runs.last_mut() {
            Some(last) if last.start + last.blocks == block => last.blocks += 1,
            _ => runs.push(Run { start: block, blocks: 1 }),
        }
    }
    runs
}

/// LRU cache of block numbers.
#[derive(Clone, Debug, Default)]
struct Cache {
    used: BTreeMap<u64, u64>,
    by_use: BTreeMap<u64, u64>,
    now: u64,
}

impl Cache {
    /// Marks the block as used and adds it if missing. Returns whether it was cached.
    fn use_or_add(&mut self, block: u64) -> bool {
        let before = self.used.insert(block, self.now);
        if let Some(before) = before {
            self.by_use.remove(&before);
        }
        self.by_use.insert(self.now, block);
        self.now += 1;
        if self.used.len() > CACHED_MAX
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.used.remove(&oldest);
        }
        before.is_some()
    }

    fn forget(&mut self, block: u64) {
        if let Some(used) = self.used.remove(&block) {
            self.by_use.remove(&used);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(inode: u64) -> FileId {
        FileId { device: 0, inode }
    }

    /// 1024 blocks of metadata: 256 of journal, 768 of table.
    fn metadata() -> Metadata {
        Metadata::new(1 << 16)
    }

    fn run(start: u64, blocks: u64) -> Run {
        Run { start, blocks }
    }

    #[test]
    fn what_was_looked_at_once_costs_nothing_until_it_is_forgotten() {
        let mut metadata = metadata();
        let parts = [Part::Names(id(1)), Part::Inode(id(2))];
        assert_eq!(metadata.look_up(&parts).reads, [run(256, 1), run(1023, 1)]);
        assert!(metadata.look_up(&parts).is_nothing());
        assert!(metadata.look_up(&[Part::Inode(id(3))]).is_nothing(), "it lies in the same block");
        metadata.forget(id(3));
        assert_eq!(metadata.look_up(&parts).reads, [run(256, 1)]);
    }

    #[test]
    fn files_met_one_after_the_other_are_neighbors() {
        let mut metadata = metadata();
        (0..64).for_each(|inode| metadata.meet(id(inode)));
        let parts: Vec<Part> = (0..64).map(|inode| Part::Inode(id(inode))).collect();
        assert_eq!(metadata.look_up(&parts).reads, [run(256, 4)]);
        metadata.remove(id(5));
        metadata.meet(id(99));
        assert!(
            metadata.look_up(&[Part::Inode(id(99))]).is_nothing(),
            "it has the place of the one that has gone"
        );
    }

    #[test]
    fn directories_that_come_and_go_take_no_more_room() {
        let mut metadata = metadata();
        metadata.change(&[Part::Names(id(1))]);
        for inode in 2..1000 {
            let reads = metadata.look_up(&[Part::Names(id(inode))]).reads;
            assert!(reads.is_empty() || reads == [run(1022, 1)], "{reads:?}");
            metadata.remove(id(inode));
        }
    }

    #[test]
    fn changes_go_to_the_journal_when_they_are_to_be_safe() {
        let mut metadata = metadata();
        let parts = [Part::Names(id(1)), Part::Inode(id(2))];
        assert!(metadata.change(&parts).writes.is_empty());
        assert!(metadata.sync(&[Part::Names(id(7))]).is_nothing(), "nothing of it has changed");
        assert_eq!(metadata.sync(&parts[1..]).writes, [run(0, 3)]);
        assert!(metadata.sync(&parts).is_nothing(), "it is durable already");
        metadata.mark(&parts[1..]);
        assert_eq!(metadata.sync(&parts).writes, [run(3, 2)], "after the previous writes");
    }

    #[test]
    fn a_full_journal_is_written_to_its_places() {
        let mut metadata = metadata();
        let part = [Part::Inode(id(2))];
        for commit in 0..128 {
            metadata.mark(&part);
            assert_eq!(metadata.sync(&part).writes, [run(commit * 2, 2)]);
        }
        metadata.mark(&part);
        assert_eq!(metadata.sync(&part).writes, [run(0, 2), run(256, 1)]);
    }

    #[test]
    fn many_changes_do_not_gather_for_ever() {
        let mut metadata = Metadata::new(1 << 20);
        let mut written = 0;
        for directory in 0..1000 {
            written += metadata.change(&[Part::Names(id(directory))]).writes.len();
            assert!(metadata.gathered.len() < GATHERED_MAX);
        }
        assert_eq!(written, 1000 / GATHERED_MAX);
    }

    #[test]
    fn nothing_lies_outside_however_many_files_there_are() {
        for drive in [1, 100, 1 << 12] {
            let mut metadata = Metadata::new(drive);
            let end = blocks_of(drive);
            for inode in 0..3000 {
                let work = metadata.change(&[Part::Names(id(inode)), Part::Inode(id(inode))]);
                let mut runs = work.reads.iter().chain(&work.writes);
                assert!(runs.all(|run| run.blocks > 0 && run.start + run.blocks <= end), "{work:?}");
            }
        }
    }

    #[test]
    fn memory_is_bounded() {
        let mut cache = Cache::default();
        for block in 0..CACHED_MAX as u64 + 10 {
            assert!(!cache.use_or_add(block));
            assert!(cache.use_or_add(0), "a used block stays cached");
        }
        assert_eq!((cache.used.len(), cache.by_use.len()), (CACHED_MAX, CACHED_MAX));
        assert!(!cache.use_or_add(1));
    }
}
