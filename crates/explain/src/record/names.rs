//! Names of files that were closed before `/proc` was read, found by listing the directories near which the program
//! works.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Directory entries that are examined.
const ENTRIES_MAX: usize = 300_000;
/// Time that this may take.
const SEARCH_TIME_MAX: Duration = Duration::from_secs(2);

/// Finds the names of `wanted` files, by device and inode, in and below the `places`, nearest first. The listings name
/// inodes, so that no file is looked up.
pub(super) fn find(wanted: &mut HashSet<(u64, u64)>, places: &[PathBuf]) -> HashMap<(u64, u64), PathBuf> {
    let begun = Instant::now();
    let mut found = HashMap::new();
    let mut queue: VecDeque<PathBuf> = places.iter().filter_map(|place| directory_of(place)).collect();
    let mut seen = HashSet::new();
    let mut entries = 0;
    while let Some(directory) = queue.pop_front() {
        if wanted.is_empty() || entries > ENTRIES_MAX || begun.elapsed() > SEARCH_TIME_MAX {
            break;
        }
        let Ok(metadata) = fs::metadata(&directory) else { continue };
        if !seen.insert((metadata.dev(), metadata.ino())) {
            continue;
        }
        for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
            entries += 1;
            let key = (metadata.dev(), entry.ino());
            if wanted.remove(&key) {
                found.insert(key, entry.path());
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                queue.push_back(entry.path());
            }
        }
    }
    found
}

/// Returns a directory itself, or that of a file.
fn directory_of(place: &Path) -> Option<PathBuf> {
    let metadata = fs::metadata(place).ok()?;
    if metadata.is_dir() { Some(place.to_owned()) } else { place.parent().map(Path::to_owned) }
}
