//! The part of files that is in the page cache.

use std::fs::{File, Metadata};
use std::path::PathBuf;

use sakiyomi_io::page_cache;

/// Fraction of the bytes of files in the page cache, 0 to 1; 0 for files that cannot be inspected.
#[must_use]
pub fn cached_ratio(files: &[PathBuf]) -> f64 {
    let bytes = |path: &PathBuf| {
        let file = File::open(path).ok()?;
        let length = file.metadata().ok().filter(Metadata::is_file)?.len();
        let cached = (length > 0).then(|| page_cache::residency(&file, 0..length).ok()).flatten();
        Some((cached.map_or(0, |residency| residency.cached_bytes().min(length)), length))
    };
    let all = files.iter().filter_map(bytes);
    let (cached, length) = all.fold((0, 0), |(a, b), (cached, length)| (a + cached, b + length));
    if length > 0 { cached as f64 / length as f64 } else { 0.0 }
}
