//! Engines and streams on real files and on files in memory.

mod blocks;
mod engines;
mod examples;
mod on_disk;
mod shared;
mod spill;
mod stats;
mod surroundings;
mod write;
