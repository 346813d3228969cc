//! The ledger for a reader: entries of many small files are one row.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sakiyomi_model::Nanos;

use crate::critical_path::critical_path;
use crate::ledger::{Ledger, Term};
use crate::recording::{AccessKind, Recording};

/// Share of the elapsed time from which on a file or a directory is shown by itself.
const OWN_ROW_RATIO: f64 = 0.05;
/// Intervals into which the elapsed time is divided for a chart.
const INTERVALS_MAX: u64 = 200;

/// A row of the ledger.
#[derive(Clone, Debug, PartialEq)]
pub struct SummaryRow {
    /// The program (`comm`); empty if no thread explains the time.
    pub program: String,
    /// The activity or wait; of a group, by its first file.
    pub term: Term,
    /// The file, or the directory of several, which may be in directories of it.
    pub place: Option<String>,
    /// Number of files; 0 if the term is not of a file.
    pub files: usize,
    /// The time.
    pub time: Nanos,
    /// Number of separate waits or bursts.
    pub count: u64,
}

/// Returns the rows of a ledger in descending order of time. Their times add up to the elapsed time.
///
/// Files that take little time each are one row with those of their directory, and these with those of the directory above,
/// until a row has a twentieth of the elapsed time. So many files are as visible as a large one.
#[must_use]
pub fn summary(recording: &Recording, ledger: &Ledger) -> Vec<SummaryRow> {
    let mut rows = Vec::new();
    let mut groups: BTreeMap<(&str, u8), Vec<SummaryRow>> = BTreeMap::new();
    let own_row_min = Nanos((ledger.elapsed.0 as f64 * OWN_ROW_RATIO) as u64);
    for entry in &ledger.entries {
        let name = entry.term.file().map(|file| recording.file_name(file));
        // A file whose name is not known has no directory.
        let directory = name.as_ref().and_then(|name| Path::new(name).parent());
        let is_grouped = directory.is_some_and(|directory| !directory.as_os_str().is_empty());
        let row = SummaryRow {
            program: entry.program.clone(),
            term: entry.term,
            files: usize::from(name.is_some()),
            place: name,
            time: entry.time,
            count: entry.count,
        };
        if is_grouped && entry.time < own_row_min {
            groups.entry((&entry.program, kind_of(entry.term))).or_default().push(row);
        } else {
            rows.push(row);
        }
    }
    for group in groups.into_values() {
        merge(group, own_row_min, &mut rows);
    }
    rows.sort_by_key(|row| std::cmp::Reverse(row.time));
    rows
}

/// Adds the rows of one kind that are shorter than `least` to `rows`, merged by directory from the deepest one up.
fn merge(group: Vec<SummaryRow>, least: Nanos, rows: &mut Vec<SummaryRow>) {
    let parent = |row: &SummaryRow| Path::new(row.place.as_ref()?).parent().map(Path::to_owned);
    let mut directories: BTreeMap<Option<PathBuf>, Vec<SummaryRow>> = BTreeMap::new();
    for row in group {
        directories.entry(parent(&row)).or_default().push(row);
    }
    let depth = |directory: &Option<PathBuf>| directory.as_ref().map_or(0, |path| path.components().count());
    while let Some(deepest) = directories.keys().max_by_key(|directory| depth(directory)).cloned() {
        let members = directories.remove(&deepest).unwrap_or_default();
        let above = deepest.as_ref().and_then(|path| path.parent()).map(Path::to_owned);
        let time = members.iter().fold(Nanos::ZERO, |sum, row| sum + row.time);
        let merged = match <[SummaryRow; 1]>::try_from(members) {
            // A file alone keeps its name.
            Ok([only]) => only,
            Err(members) => SummaryRow {
                place: deepest.as_ref().map(|path| path.display().to_string()),
                files: members.iter().map(|row| row.files).sum(),
                count: members.iter().map(|row| row.count).sum(),
                time,
                ..members.into_iter().next().expect("a directory has files")
            },
        };
        if time >= least || above.is_none() {
            rows.push(merged);
        } else {
            directories.entry(above).or_default().push(merged);
        }
    }
}

/// Returns a number by which terms of one kind are grouped.
fn kind_of(term: Term) -> u8 {
    match term {
        Term::Read(_, crate::recording::Pattern::Sequential) => 0,
        Term::Read(..) => 1,
        Term::Mapping(_) => 2,
        Term::Sync(_) => 3,
        _ => 4,
    }
}

/// An interval of the elapsed time, and how much of it the critical path spent on what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interval {
    /// Its end.
    pub until: Nanos,
    /// Computing.
    pub computing: Nanos,
    /// Waiting for a core.
    pub awaiting_core: Nanos,
    /// Waiting for storage.
    pub storage: Nanos,
    /// Bytes of files that all threads read or touched. Of a mapping, at least those that were loaded for it.
    pub read_bytes: u64,
    /// Bytes that were loaded from storage for it.
    pub loaded_bytes: u64,
}

/// Adds bytes to intervals in equal parts.
fn spread(intervals: &mut [Interval], bytes: u64, of: impl Fn(&mut Interval) -> &mut u64) {
    let count = intervals.len() as u64;
    for (index, interval) in (0..count).zip(intervals) {
        *of(interval) += bytes * (index + 1) / count - bytes * index / count;
    }
}

/// Divides the elapsed time into equal intervals.
#[must_use]
pub fn intervals(recording: &Recording) -> Vec<Interval> {
    let length = recording.elapsed_ns.0.div_ceil(INTERVALS_MAX).max(1);
    let count = recording.elapsed_ns.0.div_ceil(length);
    let until = |index: u64| Nanos(((index + 1) * length).min(recording.elapsed_ns.0));
    let mut intervals: Vec<Interval> =
        (0..count).map(|index| Interval { until: until(index), ..Interval::default() }).collect();
    for step in critical_path(recording) {
        let term = Term::of(&step);
        let mut from = step.begun;
        while from < step.ended {
            let interval = &mut intervals[(from.0 / length) as usize];
            let to = step.ended.min(interval.until);
            let time = to.saturating_sub(from);
            match term {
                Term::Computing => interval.computing += time,
                Term::AwaitingCore => interval.awaiting_core += time,
                term if term.is_storage() => interval.storage += time,
                _ => {}
            }
            from = to;
        }
    }
    for access in recording.threads.iter().flat_map(|thread| &thread.accesses) {
        let is_read = matches!(access.kind, AccessKind::Read | AccessKind::DirectRead | AccessKind::Mapping);
        if is_read {
            // Only the first page of a mapping that is loaded with others is recorded.
            let is_mapping = access.kind == AccessKind::Mapping;
            let read = if is_mapping { access.length.max(access.loaded_bytes) } else { access.length };
            let first = (access.begun_ns.0 / length) as usize;
            let last =
                ((access.ended_ns.0 / length) as usize).clamp(first, intervals.len().max(first + 1) - 1);
            let Some(during) = intervals.get_mut(first..=last) else { continue };
            spread(during, read, |interval| &mut interval.read_bytes);
            spread(during, access.loaded_bytes, |interval| &mut interval.loaded_bytes);
        }
    }
    intervals
}
