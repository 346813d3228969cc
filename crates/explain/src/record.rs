//! Recording of a running program.
//!
//! As root the kernel's tracepoints report every event (`traced`); without root, or where they are not available,
//! `/proc` is sampled (`sampled`). Either is a thread of this process that only observes: if it is killed, the program
//! continues.

mod descriptors;
mod names;
mod sampled;
mod storage;
mod traced;

use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::recording::{MeasuredStorage, RecordedFile, RecordedMachine, Recording};

pub use sampled::SampledRecording;
pub use storage::{MeasuredPlace, measure_place};
pub use traced::{TracedRecorder, TracedRecording};

/// The program that is recorded.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The command and its arguments, for the reader of the recording.
    pub program: Vec<String>,
    /// Directories and files near which it may use files: its working directory and arguments.
    pub places: Vec<PathBuf>,
    /// The machine on which it runs.
    pub machine: RecordedMachine,
    /// Whether the storage is measured after the recording.
    pub measures_storage: bool,
}

/// Directories of known files in which unknown ones are looked for.
const KNOWN_PLACES_MAX: usize = 64;

/// Sets the names and sizes of files. Returns a sentence about those that have no name.
fn name_files(
    files: &mut [RecordedFile],
    known: &HashMap<(u64, u64), PathBuf>,
    subject: &Subject,
) -> Option<String> {
    let key = |file: &RecordedFile| (file.device, file.inode);
    let mut wanted: HashSet<(u64, u64)> =
        files.iter().map(key).filter(|key| !known.contains_key(key)).collect();
    let mut places = subject.places.clone();
    places.extend(known.values().filter_map(|path| path.parent()).map(Path::to_owned).take(KNOWN_PLACES_MAX));
    let found = names::find(&mut wanted, &places);
    for file in files.iter_mut() {
        let path = known.get(&key(file)).or_else(|| found.get(&key(file)));
        file.name = path.map(|path| path.display().to_string());
        file.size_bytes = path.and_then(|path| fs::metadata(path).ok()).map(|metadata| metadata.len());
    }
    match files.iter().filter(|file| file.name.is_none()).count() {
        0 => None,
        1 => Some("The name of 1 file is not known: it was closed too soon.".to_owned()),
        many => Some(format!("The names of {many} files are not known: they were closed too soon.")),
    }
}

/// Measures the storage on which the recorded program waited longest, by the largest of its files there.
fn measure_storage(recording: &Recording) -> Option<MeasuredStorage> {
    let device = recording.slowest_device()?;
    let of_device = recording.files.iter().filter(|file| file.device == device && file.name.is_some());
    let file = of_device.max_by_key(|file| file.size_bytes)?;
    storage::measure_waited(Path::new(file.name.as_ref()?), device)
}
