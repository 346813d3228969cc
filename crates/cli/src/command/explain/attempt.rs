//! `explain --try`: the command without and with remedies, interleaved.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use sakiyomi_explain::Recording;
use sakiyomi_io::page_cache;
use sakiyomi_os::process::command::{Running, Signals};
use sakiyomi_report::result::ExplainResult;

use super::document::read_ahead_file;
use crate::console::Common;

/// Remedies that are tried at most, the best predictions first.
const REMEDIES_MAX: usize = 3;
/// Repetitions of each.
const TRIES_MAX: usize = 3;
/// Repetitions of each if the program takes longer than `LONG_RUN`.
const LONG_TRIES_MAX: usize = 2;
/// Elapsed time from which on a program is repeated less often.
const LONG_RUN: Duration = Duration::from_secs(30);
/// The shell's script for a command whose output and input are nobody's: it was printed once already.
const SILENT: &str = "exec \"$@\" >/dev/null 2>&1 </dev/null";

/// Sets the times of the remedies that are tried in the result.
pub(super) fn attempt(
    command: &[OsString],
    recording: &Recording,
    result: &mut ExplainResult,
    signals: &Signals,
    common: &Common,
) -> Result<()> {
    let device = recording.main_device();
    let tried: Vec<usize> = (0..result.predictions.len()).take(REMEDIES_MAX).collect();
    if tried.is_empty() {
        return Ok(());
    }
    let repetitions = if result.elapsed_ns > LONG_RUN.as_nanos() as u64 { LONG_TRIES_MAX } else { TRIES_MAX };
    let mut times = vec![Vec::new(); tried.len() + 1];
    for repetition in 0..repetitions {
        for (turn, times) in times.iter_mut().enumerate() {
            let change = match turn {
                0 => "without a remedy",
                turn => &result.predictions[tried[turn - 1]].change,
            };
            common.note(&format!("trying {} of {repetitions}: {change}", repetition + 1));
            make_cold(recording);
            let of_remedy = (turn > 0).then(|| &result.predictions[tried[turn - 1]]);
            let read_ahead = of_remedy.and_then(|prediction| read_ahead_of(prediction.command.as_deref()?));
            let prefetches = of_remedy.is_some() && read_ahead.is_none();
            let setting = match (read_ahead, device) {
                (Some(kib), Some(device)) => match Setting::change(read_ahead_file(device), &kib) {
                    Ok(setting) => Some(setting),
                    // Without the right to change it, it is not tried.
                    Err(_) => continue,
                },
                _ => None,
            };
            times.push(timed(command, prefetches, signals)?);
            drop(setting);
        }
    }
    let mut medians = times.into_iter().map(|mut times| {
        times.sort_unstable();
        times.get(times.len() / 2).map(|time| time.as_nanos() as u64)
    });
    result.tried_plain_ns = medians.next().flatten();
    for (index, median) in tried.into_iter().zip(medians) {
        result.predictions[index].tried_ns = median;
    }
    Ok(())
}

/// Returns the read-ahead in KiB that a command sets.
fn read_ahead_of(command: &str) -> Option<String> {
    Some(command.strip_prefix("echo ")?.split_once(' ')?.0.to_owned())
}

/// Drops the files that were loaded in the recording from the page cache, and as root also names and attributes.
fn make_cold(recording: &Recording) {
    let mut cold: Vec<bool> = vec![false; recording.files.len()];
    for access in recording.threads.iter().flat_map(|thread| &thread.accesses) {
        if let Some(file) = access.file.filter(|_| access.loaded_bytes > 0) {
            cold[file.0] = true;
        }
    }
    if !cold.contains(&true) {
        return;
    }
    // Unused names and inodes only; the kernel refuses it to others than root.
    let _ = fs::write("/proc/sys/vm/drop_caches", "2");
    for (file, _) in recording.files.iter().zip(&cold).filter(|(_, is_cold)| **is_cold) {
        if let Some(file) = file.name.as_ref().and_then(|name| File::open(name).ok())
            && let Ok(size) = file.metadata().map(|metadata| metadata.len())
        {
            let _ = page_cache::drop_pages(&file, 0..size);
        }
    }
}

/// Runs the command once; returns its elapsed time.
fn timed(command: &[OsString], prefetches: bool, signals: &Signals) -> Result<Duration> {
    let mut words: Vec<OsString> = ["sh", "-c", SILENT, "sh"].map(OsString::from).to_vec();
    if prefetches {
        let own = std::env::current_exe().context("the program file of this command is not known")?;
        words.push(own.into_os_string());
        words.extend(["run", "--no-learn", "--"].map(OsString::from));
    }
    words.extend_from_slice(command);
    let begun = Instant::now();
    let running = Running::start(&words, signals)?;
    running.wait(signals).context("cannot wait for the program, which continues on its own")?;
    let elapsed = begun.elapsed();
    running.end().context("the program has ended, but its exit status is unknown")?;
    Ok(elapsed)
}

/// A changed setting of the kernel, restored when this is dropped.
struct Setting {
    path: String,
    before: String,
}

impl Setting {
    fn change(path: String, value: &str) -> std::io::Result<Setting> {
        let before = fs::read_to_string(&path)?;
        fs::write(&path, value)?;
        Ok(Setting { path, before })
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        let _ = fs::write(&self.path, OsStr::new(self.before.trim()).as_encoded_bytes());
    }
}
