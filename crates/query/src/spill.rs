//! Spilling: data that does not fit into memory, in unnamed files of the spill directories.
//!
//! - `files`: the files of an operator, one in each directory, used in turn while they have room;
//! - `chunks`: chunks of rows, read by location (sort);
//! - `frames`: runs of bytes, read in order (aggregation, joins, generator);
//! - `codec`: compression and checksums, which every read verifies;
//! - `compressor`: the same compression for programs with spill files of their own;
//! - `controller`: the choice of the compression level while spilling.

mod chunks;
mod codec;
mod compressor;
mod controller;
mod files;
mod frames;
mod level;
mod level_chooser;
mod places;

pub use codec::CHUNK_MAX_BYTES;
pub use compressor::{ChunkCompressor, Compressed, StoredChunk};
pub use level::{Level, LevelBytes, SpillCompression};

pub(crate) use chunks::{ChunkReader, SpillWriter, SpilledChunks};
pub(crate) use codec::ScratchPool;
pub(crate) use files::SpillFiles;
pub(crate) use frames::{FRAME_BYTES, FrameReader, FrameRun, FrameWriter};
pub(crate) use level_chooser::LevelChooser;
pub(crate) use places::{Spilled, add_place, check_spilled_chunks, places_bytes};
