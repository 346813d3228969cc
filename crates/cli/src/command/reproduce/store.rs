//! Metrics of simulations that have ended, kept until the report is written, so that an interrupted run continues.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
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
    /// Metrics in the file that are of other papers or another effort.
    others: Results,
}

impl Store {
    /// Returns the file `name` in `directory`, and the metrics in it of the tasks with these keys, if it is of this version.
    /// A line that was cut off is left out. Without a directory, nothing is kept.
    pub(super) fn open<'a>(
        directory: Option<&Path>,
        name: &str,
        keys: impl IntoIterator<Item = &'a str>,
    ) -> Result<(Store, Results)> {
        let Some(directory) = directory else {
            return Ok((Store { file: None, others: Results::default() }, Results::default()));
        };
        let path = directory.join(name);
        let results = File::open(&path).ok().and_then(|file| read(file, &version())).unwrap_or_default();
        let is_new = results == Results::default();
        // Each line is appended whole, and readers skip others.
        let mut options = OpenOptions::new();
        options.create(true).append(true);
        if is_new {
            // Of another version, or of no run.
            remove(&path)?;
        }
        let mut file = options.open(&path).with_context(|| format!("cannot write {}", path.display()))?;
        // After a truncated line, the next one starts on a line of its own.
        let head = if is_new { version() } else { String::new() };
        writeln!(file, "{head}").with_context(|| format!("cannot write {}", path.display()))?;
        let (results, others) = results.divide(keys);
        Ok((Store { file: Some((path, Mutex::new(file))), others }, results))
    }

    /// Adds the metrics of a simulation.
    pub(super) fn keep(&self, key: &str, metrics: &Metrics) -> Result<()> {
        let Some((path, file)) = &self.file else { return Ok(()) };
        let line = serde_json::to_string(&(key, metrics))? + "\n";
        let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
        file.write_all(line.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Removes the metrics of this run from the file, and the file if it has no others.
    pub(super) fn finish(self) -> Result<()> {
        let Some((path, _)) = self.file else { return Ok(()) };
        let lines: Result<Vec<String>, _> =
            self.others.iter().map(|entry| serde_json::to_string(&entry)).collect();
        let lines = lines?;
        if lines.is_empty() {
            return remove(&path);
        }
        let text = format!("{}\n{}\n", version(), lines.join("\n"));
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}

/// First line of a file: results of another version are not used.
fn version() -> String {
    format!("sakiyomi {}", env!("SAKIYOMI_VERSION"))
}

/// Removes a file that may not exist.
fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.with_context(|| format!("cannot remove {}", path.display())),
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
