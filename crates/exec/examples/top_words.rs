//! The most frequent words of files, which may be compressed if the feature `compression` is on.
//!
//!     cargo run --release -p sakiyomi-exec --example top_words -- FILE...
//!
//! Words are separated by white space, so a record is a word with the line feed behind it, or several words of a line.
//! While it reads, it shows its progress.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::error::Error;
use std::path::PathBuf;

use sakiyomi_exec::read::{self, blocked_reads};

type Counts = HashMap<Vec<u8>, u64>;

fn count(counts: &mut Counts, lines: &[u8]) {
    for word in lines.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()) {
        match counts.get_mut(word) {
            Some(count) => *count += 1,
            None => drop(counts.insert(word.to_vec(), 1)),
        }
    }
}

fn merged(mut counts: Counts, other: Counts) -> Counts {
    other.into_iter().for_each(|(word, count)| *counts.entry(word).or_default() += count);
    counts
}

/// Returns the `most` most frequent words of all files, and how often they occur.
///
/// # Errors
/// If a file cannot be read.
pub(crate) fn top_words(
    paths: &[PathBuf],
    most: usize,
    progress: impl Fn(read::Progress) + Send + Sync + 'static,
) -> Result<Vec<(Vec<u8>, u64)>, read::Error> {
    let read = blocked_reads(paths).progress(progress);
    #[cfg(feature = "compression")]
    let read = read.decompressed();
    let (counts, _) =
        read.records(b'\n').fold(Counts::default, |counts, lines| count(counts, &lines), merged)?;
    let mut words: Vec<(Vec<u8>, u64)> = counts.into_iter().collect();
    words.sort_by(|first, next| (Reverse(first.1), &first.0).cmp(&(Reverse(next.1), &next.0)));
    words.truncate(most);
    Ok(words)
}

#[allow(
    clippy::print_stdout,
    clippy::print_stderr,
    dead_code,
    reason = "the result; tests call the function"
)]
fn main() -> Result<(), Box<dyn Error>> {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let shown = |progress: read::Progress| {
        let total = progress.total_bytes.map_or(String::new(), |total| format!(" of {total}"));
        eprint!("\r{}{total} bytes", progress.done_bytes);
    };
    let words = top_words(&paths, 10, shown)?;
    eprintln!();
    for (word, count) in words {
        println!("{count:10} {}", String::from_utf8_lossy(&word));
    }
    Ok(())
}
