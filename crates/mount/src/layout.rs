//! Layout of files on the drive: the blocks of each file, and the free ones.
//!
//! The content stays in the backing directory; only *places* are kept here, so that an access to a file becomes an
//! access to the sectors where a file system would have put it. As in the file systems of today, a block is 4 KiB, a
//! hole takes no place, and a file that grows goes on where it ended: blocks behind its end are reserved until it is
//! closed (XFS: speculative preallocation), so that two files written side by side do not end up interleaved.
//! Reserved blocks count as free, and are given up when space runs out.
//!
//! Pure: no file, no clock; the same calls give the same places.

mod free;
mod metadata;
mod pieces;
mod store;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use sakiyomi_model::{Bytes, Extent, Lba, Sectors};

use free::Free;
pub use metadata::{CACHED_MAX, GATHERED_MAX, Metadata, Part, Work};
use pieces::Pieces;
pub use pieces::Run;
pub use store::LayoutError;

/// The unit of allocation.
pub const BLOCK_BYTES: u64 = 4096;

/// Blocks that are reserved for a growing file: 8 MiB.
const PREALLOCATED_MAX_BLOCKS: u64 = 2048;

/// A file, by the device and inode number of what backs it: these outlive renaming, and hard links share them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    /// The device; 0 for the one that the backing directory itself lies on, whose number may change from boot to
    /// boot.
    pub device: u64,
    /// The inode.
    pub inode: u64,
}

/// The choice of places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Each file in one piece, as far as there is room.
    Contiguous,
    /// Pieces of up to `piece` blocks, each at a random place: a drive that has aged.
    Scattered {
        /// Blocks in a piece, at least 1.
        piece: u64,
    },
}

/// There are not as many free blocks as are needed; nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSpace;

/// The places of all files on a drive.
#[derive(Clone, Debug)]
pub struct Layout {
    blocks: u64,
    placement: Placement,
    random: Pcg64,
    free: Free,
    files: BTreeMap<FileId, Placed>,
    /// Files for which blocks are held that they may want next.
    growing: BTreeSet<FileId>,
}

/// The places of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Placed {
    pieces: Pieces,
    /// Blocks from here on are only held for it.
    wanted: u64,
}

impl Placed {
    fn held(&self) -> u64 {
        self.pieces.blocks_from(self.wanted)
    }
}

impl Layout {
    /// An empty drive of `capacity`; `seed` decides the random places.
    #[must_use]
    pub fn new(capacity: Bytes, placement: Placement, seed: u64) -> Layout {
        let blocks = capacity.0 / BLOCK_BYTES;
        Layout {
            blocks,
            placement,
            random: Pcg64::seed_from_u64(seed),
            free: Free::all(blocks),
            files: BTreeMap::new(),
            growing: BTreeSet::new(),
        }
    }

    /// Keeps files off the blocks of the file system's metadata; must be called before any file is placed.
    pub fn reserve_metadata(&mut self) {
        let Run { start, blocks } = metadata::reserved(self.blocks);
        self.free.take_at(start, blocks);
    }

    /// The drive's size in blocks.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Blocks that are free, reserved ones included.
    #[must_use]
    pub fn free_blocks(&self) -> u64 {
        self.free.blocks() + self.held()
    }

    fn held(&self) -> u64 {
        self.growing.iter().map(|file| self.files[file].held()).sum()
    }

    /// Whether the file has a place, or had one when it was not empty.
    #[must_use]
    pub fn knows(&self, file: FileId) -> bool {
        self.files.contains_key(&file)
    }

    /// Whether all of it has been written before, so that writing it again changes no places.
    #[must_use]
    pub fn has(&self, file: FileId, offset: u64, length: u64) -> bool {
        let range = blocks_touched(offset, length);
        self.files
            .get(&file)
            .is_some_and(|placed| range.end <= placed.wanted && placed.pieces.gaps(range).is_empty())
    }

    /// Gives a place to every block of `length` bytes from `offset` that has none.
    ///
    /// # Errors
    /// [`NoSpace`].
    pub fn place(&mut self, file: FileId, offset: u64, length: u64) -> Result<(), NoSpace> {
        let range = blocks_touched(offset, length);
        if self.files.entry(file).or_default().wanted < range.start {
            // A hole is made: the reserved blocks would lie in it.
            self.settle(file);
        }
        if range.is_empty() {
            return Ok(());
        }
        let placed = self.files.entry(file).or_default();
        let grows = range.end > placed.wanted;
        let gaps = placed.pieces.gaps(range.clone());
        let missing: u64 = gaps.iter().map(|gap| gap.end - gap.start).sum();
        let before = placed.wanted;
        placed.wanted = before.max(range.end);
        if missing > self.free.blocks() {
            if missing > self.free_blocks() {
                self.files.entry(file).or_default().wanted = before;
                return Err(NoSpace);
            }
            self.settle_all();
        }
        for gap in &gaps {
            self.fill(file, gap.clone());
        }
        if grows && !gaps.is_empty() {
            self.hold(file);
        }
        Ok(())
    }

    /// Places a gap for which there is room.
    fn fill(&mut self, file: FileId, gap: Range<u64>) {
        let mut at = gap.start;
        while at < gap.end {
            let goal = self.files[&file].pieces.after(at);
            let run = self.choose(at, gap.end - at, goal);
            at += run.blocks;
            self.files.entry(file).or_default().pieces.insert(at - run.blocks, run);
        }
    }

    /// Takes up to `wanted` blocks for a file's block number `at`, at `goal` if it can be.
    fn choose(&mut self, at: u64, wanted: u64, goal: Option<u64>) -> Run {
        let (wanted, goal) = match self.placement {
            Placement::Contiguous => (wanted, goal),
            // Only within a piece does a file go on where it ended.
            Placement::Scattered { piece } => {
                (wanted.min(piece - at % piece), goal.filter(|_| !at.is_multiple_of(piece)))
            }
        };
        if let Some(run) = goal.and_then(|goal| self.free.take_at(goal, wanted)) {
            return run;
        }
        match self.placement {
            Placement::Contiguous => self.free.take_best(wanted),
            Placement::Scattered { .. } => {
                let position = self.random.next_u64() % self.blocks.max(1);
                self.free.take_near(position, wanted)
            }
        }
    }

    /// Reserves blocks behind a growing file: as many as it has, if they are free.
    fn hold(&mut self, file: FileId) {
        let placed = self.files.entry(file).or_default();
        // Before the pieces are counted: a scattered file has many.
        if self.placement != Placement::Contiguous || placed.held() > 0 {
            return;
        }
        let ahead = placed.pieces.blocks_from(0).min(PREALLOCATED_MAX_BLOCKS);
        let end = placed.pieces.end();
        if let Some(run) = placed.pieces.after(end).and_then(|goal| self.free.take_at(goal, ahead)) {
            placed.pieces.insert(end, run);
            self.growing.insert(file);
        }
    }

    /// Releases the blocks reserved for a file, which is not being written any more.
    pub fn settle(&mut self, file: FileId) {
        if self.growing.remove(&file)
            && let Some(placed) = self.files.get_mut(&file)
        {
            let wanted = placed.wanted;
            placed.pieces.remove(wanted..u64::MAX, |run| self.free.give(run));
        }
    }

    fn settle_all(&mut self) {
        while let Some(&file) = self.growing.first() {
            self.settle(file);
        }
    }

    /// Frees the blocks that lie wholly beyond `size` bytes.
    pub fn truncate(&mut self, file: FileId, size: u64) {
        self.settle(file);
        self.release(file, size.div_ceil(BLOCK_BYTES)..u64::MAX);
        if let Some(placed) = self.files.get_mut(&file) {
            placed.wanted = placed.wanted.min(size.div_ceil(BLOCK_BYTES));
        }
    }

    /// Frees the blocks that lie wholly in the range.
    pub fn punch(&mut self, file: FileId, offset: u64, length: u64) {
        self.settle(file);
        let end = offset.saturating_add(length) / BLOCK_BYTES;
        self.release(file, offset.div_ceil(BLOCK_BYTES)..end);
    }

    fn release(&mut self, file: FileId, range: Range<u64>) {
        if let Some(placed) = self.files.get_mut(&file) {
            placed.pieces.remove(range, |run| self.free.give(run));
        }
    }

    /// Frees all of a file that is no more.
    pub fn remove(&mut self, file: FileId) {
        self.growing.remove(&file);
        if let Some(mut placed) = self.files.remove(&file) {
            placed.pieces.remove(0..u64::MAX, |run| self.free.give(run));
        }
    }

    /// Keeps only the files of `there`.
    pub fn retain(&mut self, there: &BTreeSet<FileId>) {
        let gone: Vec<FileId> = self.files.keys().filter(|file| !there.contains(file)).copied().collect();
        gone.into_iter().for_each(|file| self.remove(file));
    }

    /// The sectors, of `sector` bytes, that hold `length` bytes from `offset`, in the file's order; holes are left
    /// out.
    ///
    /// # Panics
    /// If a block does not hold a whole number of sectors.
    pub fn extents(
        &self,
        file: FileId,
        offset: u64,
        length: u64,
        sector: Bytes,
    ) -> impl Iterator<Item = Extent> + '_ {
        assert!(BLOCK_BYTES.is_multiple_of(sector.0), "blocks are made of whole sectors");
        let placed = self.files.get(&file).filter(|_| length > 0);
        let end = offset.saturating_add(length);
        let runs =
            placed.into_iter().flat_map(move |placed| placed.pieces.runs_in(blocks_touched(offset, length)));
        runs.map(move |(block, run)| FileRun { block, run }.sectors(offset, end, sector))
    }

    /// The run that holds the byte at `offset`, if it has a place.
    pub(crate) fn run_at(&self, file: FileId, offset: u64) -> Option<FileRun> {
        let (block, run) = self.files.get(&file)?.pieces.run_with(offset / BLOCK_BYTES)?;
        Some(FileRun { block, run })
    }
}

/// Neighbouring blocks of a file that are neighbours on the drive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileRun {
    /// The first of them, in the file.
    block: u64,
    run: Run,
}

impl FileRun {
    /// The sectors that hold `length` bytes from `offset`, if all of them are in this run.
    pub(crate) fn extent(&self, offset: u64, length: u64, sector: Bytes) -> Option<Extent> {
        let end = offset.checked_add(length)?;
        let holds = self.block * BLOCK_BYTES <= offset && end <= (self.block + self.run.blocks) * BLOCK_BYTES;
        (holds && length > 0).then(|| self.sectors(offset, end, sector))
    }

    /// The sectors that hold what this run has of the bytes from `offset` to `end`.
    fn sectors(&self, offset: u64, end: u64, sector: Bytes) -> Extent {
        let FileRun { block, run } = *self;
        let skipped = offset.saturating_sub(block * BLOCK_BYTES);
        let beyond = ((block + run.blocks) * BLOCK_BYTES).saturating_sub(end);
        let first = (run.start * BLOCK_BYTES + skipped) / sector.0;
        let last = ((run.start + run.blocks) * BLOCK_BYTES - beyond).div_ceil(sector.0);
        Extent::new(Lba(first), Sectors(last - first))
    }
}

/// The blocks that hold `length` bytes from `offset`.
fn blocks_touched(offset: u64, length: u64) -> Range<u64> {
    let first = offset / BLOCK_BYTES;
    let end = if length == 0 { first } else { offset.saturating_add(length).div_ceil(BLOCK_BYTES) };
    first..end
}
