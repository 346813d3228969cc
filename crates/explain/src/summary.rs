//! The ledger for a reader: entries of many small files of one directory are one row.

use std::collections::BTreeMap;
use std::path::Path;

use sakiyomi_model::Nanos;

use crate::critical_path::critical_path;
use crate::ledger::{Ledger, Term};
use crate::recording::Recording;

/// Files of a directory from which on they are shown together.
const GROUPED_FILES_MIN: usize = 4;
/// Share of the elapsed time from which on a file is shown by itself.
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
    /// The file, or the directory of several.
    pub place: Option<String>,
    /// Number of files; 0 if the term is not of a file.
    pub files: usize,
    /// The time.
    pub time: Nanos,
    /// Number of separate waits or bursts.
    pub count: u64,
}

/// Returns the rows of a ledger in descending order of time. Their times add up to the elapsed time.
#[must_use]
pub fn summary(recording: &Recording, ledger: &Ledger) -> Vec<SummaryRow> {
    let mut rows = Vec::new();
    let mut groups: BTreeMap<(&str, u8, String), Vec<SummaryRow>> = BTreeMap::new();
    for entry in &ledger.entries {
        let name = entry.term.file().map(|file| recording.file_name(file));
        let row = SummaryRow {
            program: entry.program.clone(),
            term: entry.term,
            files: usize::from(name.is_some()),
            place: name.clone(),
            time: entry.time,
            count: entry.count,
        };
        let is_large = entry.time.0 as f64 >= ledger.elapsed.0 as f64 * OWN_ROW_RATIO;
        let directory =
            name.as_deref().and_then(|name| Path::new(name).parent()).map(|path| path.display().to_string());
        match directory.filter(|_| !is_large) {
            Some(directory) => {
                groups.entry((&entry.program, kind_of(entry.term), directory)).or_default().push(row);
            }
            None => rows.push(row),
        }
    }
    for ((_, _, directory), group) in groups {
        if group.len() < GROUPED_FILES_MIN {
            rows.extend(group);
            continue;
        }
        let time = group.iter().fold(Nanos::ZERO, |sum, row| sum + row.time);
        let count = group.iter().map(|row| row.count).sum();
        let (files, first) = (group.len(), group.into_iter().next());
        rows.extend(first.map(|first| SummaryRow { place: Some(directory), files, time, count, ..first }));
    }
    rows.sort_by_key(|row| std::cmp::Reverse(row.time));
    rows
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
    intervals
}
