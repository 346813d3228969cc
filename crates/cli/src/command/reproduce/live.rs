//! The papers' experiments live: with real files, threads and clocks, on emulated drives where this machine can mount.

mod count;
mod direct_read;
mod mounted;
mod prefetch;
mod readers;
mod replay;
mod scratch;
mod tables;

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use sakiyomi_os::cpu;
use sakiyomi_reproduce::{LiveExperiment, LiveTask, Metrics, Paper, Results};

use super::store::Store;
use crate::console::Common;
use crate::progress::{Interrupted, Progress};
use scratch::Scratch;

/// Descriptions of the measurements, and the reasons why others were left out, by paper; each sentence once.
pub(super) type LiveNotes = BTreeMap<Paper, Vec<String>>;

/// Runs the tasks one after the other, so that none disturbs another, except those that `kept` has. A task that is not
/// possible here is left out, with the reason.
///
/// # Errors
/// If it is interrupted, or nothing can be kept.
pub(super) fn run(
    tasks: &[(Paper, LiveTask)],
    (store, kept): (&Store, &mut Results),
    common: &Common,
) -> Result<LiveNotes> {
    let mut notes = LiveNotes::new();
    let mut progress = Progress::new(Some(tasks.len() as u64), common.quiet);
    let scratch = Scratch::find();
    for (done, (paper, task)) in tasks.iter().enumerate() {
        progress.set(done as u64, || format!("live: {}", task.what))?;
        let measured = match &scratch {
            _ if kept.contains(task.key()) => None,
            Ok(scratch) => Some(measure(&task.experiment, scratch)),
            Err(reason) => Some(Err(anyhow::anyhow!("{reason}"))),
        };
        let sentence = match measured {
            None => measured_here(task),
            Some(Ok(metrics)) => {
                store.keep(task.key(), &metrics)?;
                kept.insert(task.key().to_owned(), metrics);
                measured_here(task)
            }
            Some(Err(error)) if error.is::<Interrupted>() => return Err(error),
            Some(Err(error)) => format!("Left out: {}: {error:#}.", task.what),
        };
        let of_paper = notes.entry(*paper).or_default();
        if !of_paper.contains(&sentence) {
            of_paper.push(sentence);
        }
    }
    Ok(notes)
}

fn measured_here(task: &LiveTask) -> String {
    format!("Measured here: {}.", task.what)
}

fn measure(experiment: &LiveExperiment, scratch: &Scratch) -> Result<Metrics> {
    match experiment {
        LiveExperiment::Prefetch(program) => prefetch::measure(program, scratch),
        LiveExperiment::Count(count) => count::measure(count, scratch),
        LiveExperiment::Readers(readers) => readers::measure(readers, scratch),
        LiveExperiment::Replay(replay) => replay::measure(replay, scratch),
        LiveExperiment::Query1(tables) => tables::query1(*tables, scratch),
        LiveExperiment::Join(tables) => tables::join(*tables, scratch),
        LiveExperiment::DirectRead(read) => direct_read::measure(*read, scratch),
    }
}

/// Metrics by their names.
fn metrics<const N: usize>(named: [(&str, f64); N]) -> Metrics {
    named.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Computes until this thread has used this CPU time.
fn compute_until(end: Duration) {
    while cpu::of_this_thread() < end {
        std::hint::spin_loop();
    }
}
