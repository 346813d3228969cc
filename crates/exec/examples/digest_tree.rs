//! A tree of digests over a file: its root tells whether two files are the same, and its leaves where they differ.
//!
//!     cargo run --release -p sakiyomi-exec --example digest_tree -- FILE [OTHER]
//!
//! Blocks are exactly those that are asked for, so the tree is the same whatever is cached. The hash of the standard
//! library keeps the example small; take SHA-256 or BLAKE3 where somebody could choose the files.

use std::error::Error;
use std::hash::{DefaultHasher, Hasher};
use std::path::Path;

use sakiyomi_exec::read::{self, blocked_read};

/// Bytes of a leaf.
pub(crate) const LEAF_BYTES: usize = 64 << 10;

fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// Returns the digest of each block.
///
/// # Errors
/// If the file cannot be read.
pub(crate) fn leaves(path: &Path) -> Result<Vec<u64>, read::Error> {
    let mut leaves = Vec::new();
    blocked_read(path).block(LEAF_BYTES).map(digest).in_order(|leaf| {
        leaves.push(leaf);
        Ok(())
    })?;
    Ok(leaves)
}

/// Returns the root over leaves, each level of which has half as many digests.
pub(crate) fn root(mut level: Vec<u64>) -> u64 {
    while level.len() > 1 {
        let bytes = |pair: &[u64]| pair.iter().flat_map(|half| half.to_le_bytes()).collect::<Vec<u8>>();
        level = level.chunks(2).map(|pair| digest(&bytes(pair))).collect();
    }
    level.pop().unwrap_or_else(|| digest(b""))
}

/// Returns the offset of the first block in which two files differ.
///
/// # Errors
/// If one of them cannot be read.
pub(crate) fn first_difference(one: &Path, other: &Path) -> Result<Option<u64>, read::Error> {
    let (one, other) = (leaves(one)?, leaves(other)?);
    let differs = (0..one.len().max(other.len())).find(|&leaf| one.get(leaf) != other.get(leaf));
    Ok(differs.map(|leaf| leaf as u64 * LEAF_BYTES as u64))
}

#[allow(clippy::print_stdout, dead_code, reason = "the result; tests call the functions")]
fn main() -> Result<(), Box<dyn Error>> {
    let mut paths = std::env::args_os().skip(1);
    let path = paths.next().ok_or("give a file, and another one to compare it with")?;
    println!("{:016x}", root(leaves(path.as_ref())?));
    if let Some(other) = paths.next() {
        match first_difference(path.as_ref(), other.as_ref())? {
            None => println!("the same"),
            Some(offset) => println!("they differ in the block at offset {offset}"),
        }
    }
    Ok(())
}
