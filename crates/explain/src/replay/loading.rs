//! The loading of all data that a program loaded, as `sakiyomi run` does it from what it has learned.

use std::cmp::Reverse;

use sakiyomi_scenario::workload::{Action, Setup, ThreadSetup};

use super::program::Files;
use super::{Operation, Program, ProgramOptions};
use crate::recording::{AccessKind, FileAccess, Recording};

/// Threads that load at a time, as in `sakiyomi run`.
const LOADING_THREADS: usize = 12;
/// The largest read of one of them, in bytes.
const PIECE_MAX_BYTES: u64 = 1 << 20;

impl Program {
    /// Makes a workload that loads what a recorded program loaded, in the same order and several files at a time.
    #[must_use]
    pub fn loading(recording: &Recording, options: &ProgramOptions) -> Program {
        let files = Files::of(recording, options);
        let is_loaded =
            |access: &&FileAccess| access.loaded_bytes > 0 && !matches!(access.kind, AccessKind::Write);
        let mut loaded: Vec<&FileAccess> =
            recording.threads.iter().flat_map(|thread| &thread.accesses).filter(is_loaded).collect();
        loaded.sort_by_key(|access| access.begun_ns);
        let mut threads: Vec<(u64, Vec<Operation>)> = vec![(0, Vec::new()); LOADING_THREADS];
        for access in loaded {
            let Some(&file) = access.file.and_then(|file| files.index.get(&file.0)) else { continue };
            let size = files.size(file);
            let end = access.offset.saturating_add(access.loaded_bytes).min(size);
            let mut at = access.offset.min(size);
            while at < end {
                let length = (end - at).min(PIECE_MAX_BYTES);
                // The thread that has least to load.
                let Some(least) = threads.iter_mut().max_by_key(|(bytes, _)| Reverse(*bytes)) else { break };
                least.0 += length;
                least.1.push(Operation::Act(Action::Read { file, at, length, is_partial: false }));
                at += length;
            }
        }
        let setup = Setup {
            name: "load".to_owned(),
            files: files.setups,
            threads: vec![ThreadSetup::default(); threads.len()],
            rate: None,
            is_background: false,
        };
        Program { setup, threads: threads.into_iter().map(|(_, operations)| operations).collect() }
    }
}
