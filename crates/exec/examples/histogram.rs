//! How often each byte occurs in a file.
//!
//!     cargo run --release -p sakiyomi-exec --example histogram -- FILE
//!
//! Each thread counts in an array of its own. No block size is set, because the result does not depend on it.

use std::error::Error;
use std::path::Path;

use sakiyomi_exec::read::{self, blocked_read};

/// Counts each byte of a file.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn histogram(path: &Path) -> Result<[u64; 256], read::Error> {
    let count = |counts: &mut [u64; 256], block: read::Block<'_>| {
        block.iter().for_each(|&byte| counts[usize::from(byte)] += 1);
    };
    let add = |mut counts: [u64; 256], other: [u64; 256]| {
        counts.iter_mut().zip(other).for_each(|(count, other)| *count += other);
        counts
    };
    Ok(blocked_read(path).fold(|| [0; 256], count, add)?.0)
}

#[allow(clippy::print_stdout, dead_code, reason = "the result; tests call the function")]
fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args_os().nth(1).ok_or("give a file")?;
    let counts = histogram(path.as_ref())?;
    for (byte, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        println!("{byte:3} {count}");
    }
    Ok(())
}
