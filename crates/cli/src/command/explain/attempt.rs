//! `explain --try`: the command without and with remedies, interleaved.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use sakiyomi_explain::Recording;
use sakiyomi_explain::remedies::Remedy;
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

/// Sets the times of the remedies that are tried in the result, whose predictions have these remedies.
pub(super) fn attempt(
    command: &[OsString],
    recording: &Recording,
    (result, remedies): (&mut ExplainResult, &[Remedy]),
    signals: &Signals,
    common: &Common,
) -> Result<()> {
    let tried = &remedies[..remedies.len().min(REMEDIES_MAX)];
    if tried.is_empty() {
        return Ok(());
    }
    let mut profiles = None;
    if tried.contains(&Remedy::LearnedRun) {
        common.note("running once to learn what is prefetched");
        make_cold(recording);
        let learned = Profiles::create()?;
        timed(command, &Prefetcher::Learning(&learned.0), signals)?;
        profiles = Some(learned);
    }
    let repetitions = if result.elapsed_ns > LONG_RUN.as_nanos() as u64 { LONG_TRIES_MAX } else { TRIES_MAX };
    let mut times = vec![Vec::new(); tried.len() + 1];
    for repetition in 0..repetitions {
        let turns = std::iter::once(None).chain(tried.iter().copied().map(Some));
        for (turn, (remedy, times)) in turns.zip(&mut times).enumerate() {
            let change =
                turn.checked_sub(1).map_or("without a remedy", |index| &result.predictions[index].change);
            common.note(&format!("trying {} of {repetitions}: {change}", repetition + 1));
            make_cold(recording);
            let prefetcher = match (remedy, &profiles) {
                (Some(Remedy::Run), _) => Prefetcher::New,
                (Some(Remedy::LearnedRun), Some(profiles)) => Prefetcher::Learning(&profiles.0),
                _ => Prefetcher::None,
            };
            let setting = match (remedy, recording.main_device()) {
                (Some(Remedy::ReadAhead(bytes)), Some(device)) => {
                    let kib = (bytes.0 >> 10).to_string();
                    match Setting::change(read_ahead_file(device), &kib) {
                        Ok(setting) => Some(setting),
                        // Without the right to change it, it is not tried.
                        Err(_) => continue,
                    }
                }
                _ => None,
            };
            times.push(timed(command, &prefetcher, signals)?);
            drop(setting);
        }
    }
    let mut medians = times.into_iter().map(|mut times| {
        times.sort_unstable();
        times.get(times.len() / 2).map(|time| time.as_nanos() as u64)
    });
    result.tried_plain_ns = medians.next().flatten();
    for (prediction, median) in result.predictions.iter_mut().zip(medians) {
        prediction.tried_ns = median;
    }
    Ok(())
}

/// The prefetching with which a command is tried.
enum Prefetcher<'a> {
    None,
    /// By `sakiyomi run` that knows nothing of it.
    New,
    /// By `sakiyomi run` with the profiles of this directory.
    Learning(&'a Path),
}

/// A directory for profiles of learned accesses, removed when this is dropped.
struct Profiles(PathBuf);

impl Profiles {
    fn create() -> Result<Profiles> {
        let path = std::env::temp_dir().join(format!("sakiyomi-explain-{}", std::process::id()));
        fs::create_dir(&path)
            .with_context(|| format!("cannot create {} for what is learned", path.display()))?;
        Ok(Profiles(path))
    }
}

impl Drop for Profiles {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
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
fn timed(command: &[OsString], prefetcher: &Prefetcher<'_>, signals: &Signals) -> Result<Duration> {
    let mut words: Vec<OsString> = ["sh", "-c", SILENT, "sh"].map(OsString::from).to_vec();
    if let Prefetcher::Learning(profiles) = prefetcher {
        let mut cache = OsString::from("XDG_CACHE_HOME=");
        cache.push(profiles);
        words.extend([OsString::from("env"), cache]);
    }
    if !matches!(prefetcher, Prefetcher::None) {
        let own = std::env::current_exe().context("the program file of this command is not known")?;
        words.push(own.into_os_string());
        words.push("run".into());
        // By itself, `run` learns only what waits for many files.
        let learns = matches!(prefetcher, Prefetcher::Learning(_));
        words.push(if learns { "--learn" } else { "--no-learn" }.into());
        words.push("--".into());
    }
    if let Prefetcher::Learning(_) = prefetcher {
        // The command itself has its own cache.
        words.push("env".into());
        match std::env::var_os("XDG_CACHE_HOME") {
            Some(own) => {
                let mut cache = OsString::from("XDG_CACHE_HOME=");
                cache.push(own);
                words.push(cache);
            }
            None => words.extend(["-u", "XDG_CACHE_HOME"].map(OsString::from)),
        }
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
