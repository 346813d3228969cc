//! Layout of files on the drive: the blocks of each file, and free blocks.
//!
//! The content stays in the backing directory. The layout records only *places*, which map an access to a file to the
//! sectors where a file system would have put it. As in current file systems, a block has 4 KiB, a hole has no blocks,
//! and a file grows contiguously: blocks after its end are reserved until it is closed (XFS: speculative
//! preallocation), so that two files written concurrently are not interleaved. Reserved blocks count as free, and are
//! released when space runs out.
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

/// A file, by the device and inode number of its backing file, which survive renaming and are shared by hard links.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId {
    /// Device number; 0 for that of the backing directory itself, which may change from boot to boot.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
}

/// Policy for allocating places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Each file in one piece, as far as free space allows.
    Contiguous,
    /// Pieces of up to `piece` blocks at random places, as on an aged drive.
    Scattered {
        /// Blocks per piece, at least 1.
        piece: u64,
    },
}

/// Too few blocks are free; the layout is unchanged.
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
    /// Files with reserved blocks.
    growing: BTreeSet<FileId>,
}

/// The places of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Placed {
    pieces: Pieces,
    /// Block number from which blocks are only reserved for it.
    wanted: u64,
}

impl Placed {
    fn held(&self) -> u64 {
        self.pieces.blocks_from(self.wanted)
    }
}

impl Layout {
    /// Makes the layout of an empty drive of `capacity`; `seed` determines the random places.
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

    /// Reserves the blocks of the file system's metadata; must be called before any file is placed.
    pub fn reserve_metadata(&mut self) {
        let Run { start, blocks } = metadata::reserved(self.blocks);
        self.free.take_at(start, blocks);
    }

    /// Returns the drive's size in blocks.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Returns the number of free blocks, including reserved ones.
    #[must_use]
    pub fn free_blocks(&self) -> u64 {
        self.free.blocks() + self.held()
    }

    fn held(&self) -> u64 {
        self.growing.iter().map(|file| self.files[file].held()).sum()
    }

    /// Returns whether the file has been placed, even if it was empty.
    #[must_use]
    pub fn knows(&self, file: FileId) -> bool {
        self.files.contains_key(&file)
    }

    /// Returns whether the whole range has been written before, so that writing it again allocates nothing.
    #[must_use]
    pub fn has(&self, file: FileId, offset: u64, length: u64) -> bool {
        let range = blocks_touched(offset, length);
        self.files
            .get(&file)
            .is_some_and(|placed| range.end <= placed.wanted && placed.pieces.gaps(range).is_empty())
    }

    /// Allocates a block for every block of the range that has none.
    ///
    /// # Errors
    /// [`NoSpace`].
    pub fn place(&mut self, file: FileId, offset: u64, length: u64) -> Result<(), NoSpace> {
        let range = blocks_touched(offset, length);
        if self.files.entry(file).or_default().wanted < range.start {
            // This leaves a hole, in which the reserved blocks would lie.
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

    /// Allocates blocks for a gap, for which there is space.
    fn fill(&mut self, file: FileId, gap: Range<u64>) {
        let mut at = gap.start;
        while at < gap.end {
            let goal = self.files[&file].pieces.after(at);
            let run = self.choose(at, gap.end - at, goal);
            at += run.blocks;
            self.files.entry(file).or_default().pieces.insert(at - run.blocks, run);
        }
    }

    /// Allocates up to `wanted` blocks for block number `at` of a file, at `goal` if possible.
    fn choose(&mut self, at: u64, wanted: u64, goal: Option<u64>) -> Run {
        let (wanted, goal) = match self.placement {
            Placement::Contiguous => (wanted, goal),
            // A file continues at its previous block only within a piece.
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

    /// Reserves free blocks after a growing file: as many as it has.
    fn hold(&mut self, file: FileId) {
        let placed = self.files.entry(file).or_default();
        // Checked before the pieces are counted: a scattered file has many.
        if self.placement != Placement::Contiguous || placed.held() > 0 {
            return;
        }
        let ahead = placed.pieces.blocks_up_to(PREALLOCATED_MAX_BLOCKS);
        let end = placed.pieces.end();
        if let Some(run) = placed.pieces.after(end).and_then(|goal| self.free.take_at(goal, ahead)) {
            placed.pieces.insert(end, run);
            self.growing.insert(file);
        }
    }

    /// Releases the blocks reserved for a file that is no longer written.
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

    /// Frees the blocks that lie entirely beyond `size` bytes.
    pub fn truncate(&mut self, file: FileId, size: u64) {
        self.settle(file);
        self.release(file, size.div_ceil(BLOCK_BYTES)..u64::MAX);
        if let Some(placed) = self.files.get_mut(&file) {
            placed.wanted = placed.wanted.min(size.div_ceil(BLOCK_BYTES));
        }
    }

    /// Frees the blocks that lie entirely in the range.
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

    /// Frees all blocks of a deleted file.
    pub fn remove(&mut self, file: FileId) {
        self.growing.remove(&file);
        if let Some(mut placed) = self.files.remove(&file) {
            placed.pieces.remove(0..u64::MAX, |run| self.free.give(run));
        }
    }

    /// Removes all files that are not in `there`.
    pub fn retain(&mut self, there: &BTreeSet<FileId>) {
        let gone: Vec<FileId> = self.files.keys().filter(|file| !there.contains(file)).copied().collect();
        gone.into_iter().for_each(|file| self.remove(file));
    }

    /// Returns the sectors, of `sector` bytes, that hold `length` bytes from `offset`, in the file's order; holes are
    /// skipped.
    ///
    /// # Panics
    /// If the sector size does not divide the block size.
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

    /// Returns the run that holds the byte at `offset`, if it has been allocated.
    pub(crate) fn run_at(&self, file: FileId, offset: u64) -> Option<FileRun> {
        let (block, run) = self.files.get(&file)?.pieces.run_with(offset / BLOCK_BYTES)?;
        Some(FileRun { block, run })
    }
}

/// Blocks that are contiguous both in a file and on the drive.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileRun {
    /// Number of the first block in the file.
    block: u64,
    run: Run,
}

impl FileRun {
    /// Returns the sectors that hold `length` bytes from `offset`, if all of them are in this run.
    pub(crate) fn extent(&self, offset: u64, length: u64, sector: Bytes) -> Option<Extent> {
        let end = offset.checked_add(length)?;
        let holds = self.block * BLOCK_BYTES <= offset && end <= (self.block + self.run.blocks) * BLOCK_BYTES;
        (holds && length > 0).then(|| self.sectors(offset, end, sector))
    }

    /// Returns the sectors of this run that hold bytes from `offset` to `end`.
    fn sectors(&self, offset: u64, end: u64, sector: Bytes) -> Extent {
        let FileRun { block, run } = *self;
        let skipped = offset.saturating_sub(block * BLOCK_BYTES);
        let beyond = ((block + run.blocks) * BLOCK_BYTES).saturating_sub(end);
        let first = (run.start * BLOCK_BYTES + skipped) / sector.0;
        let last = ((run.start + run.blocks) * BLOCK_BYTES - beyond).div_ceil(sector.0);
        Extent::new(Lba(first), Sectors(last - first))
    }
}

/// Returns the blocks that hold `length` bytes from `offset`.
fn blocks_touched(offset: u64, length: u64) -> Range<u64> {
    let first = offset / BLOCK_BYTES;
    let end = if length == 0 { first } else { offset.saturating_add(length).div_ceil(BLOCK_BYTES) };
    first..end
}
