//! Metrics of simulations that have ended, kept until the report is written, so that an interrupted run continues.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use sakiyomi_reproduce::{Effort, Metrics, Results};

/// File of simulations in the directory of `--out`: a line with the version, then one for each simulation.
pub(super) const SIMULATIONS: &str = "simulations.partial";

/// Returns the name of the file of live experiments, whose settings depend on the effort.
pub(super) fn live_name(effort: Effort) -> &'static str {
    match effort {
        Effort::Quick => "live-quick.partial",
        Effort::Full => "live-full.partial",
    }
}

/// A file of metrics, or none.
pub(super) struct Store {
    file: Option<(PathBuf, Mutex<File>)>,
}

impl Store {
    /// Returns the file `name` in `directory`, and the metrics in it if it is of this version. A line that was cut off
    /// is left out. Without a directory, nothing is kept.
    pub(super) fn open(directory: Option<&Path>, name: &str) -> Result<(Store, Results)> {
        let Some(directory) = directory else { return Ok((Store { file: None }, Results::default())) };
        let path = directory.join(name);
        let version = format!("sakiyomi {}", env!("SAKIYOMI_VERSION"));
        let results = File::open(&path).ok().and_then(|file| read(file, &version)).unwrap_or_default();
        let is_new = results == Results::default();
        let mut file = OpenOptions::new()
            .create(true)
            .write(true)
            .truncate(is_new)
            .append(!is_new)
            .open(&path)
            .with_context(|| format!("cannot write {}", path.display()))?;
        // After a truncated line, the next one starts on a line of its own.
        let head = if is_new { version } else { String::new() };
        writeln!(file, "{head}").with_context(|| format!("cannot write {}", path.display()))?;
        Ok((Store { file: Some((path, Mutex::new(file))) }, results))
    }

    /// Adds the metrics of a simulation.
    pub(super) fn keep(&self, key: &str, metrics: &Metrics) -> Result<()> {
        let Some((path, file)) = &self.file else { return Ok(()) };
        let line = serde_json::to_string(&(key, metrics))? + "\n";
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(line.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Removes the file.
    pub(super) fn remove(self) -> Result<()> {
        let Some((path, _)) = self.file else { return Ok(()) };
        fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))
    }
}

/// `None` from a file of another version.
fn read(file: File, version: &str) -> Option<Results> {
    let mut lines = BufReader::new(file).lines().map_while(Result::ok);
    if lines.next()? != version {
        return None;
    }
    let mut results = Results::default();
    for (key, metrics) in lines.filter_map(|line| serde_json::from_str::<(String, Metrics)>(&line).ok()) {
        results.insert(key, metrics);
    }
    Some(results)
}
