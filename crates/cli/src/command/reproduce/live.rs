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
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use sakiyomi_os::cpu;
use sakiyomi_reproduce::{LiveExperiment, LiveTask, Metrics, Paper, Results, Task};

use super::store::Store;
use crate::console::Common;
use crate::progress::{Progress, go_on};
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
    if tasks.is_empty() {
        return Ok(notes);
    }
    let expected_ms = |task: &LiveTask| match kept.contains(task.key()) {
        true => 0,
        false => task.experiment.expected().0 / 1_000_000,
    };
    let expected_ms: Vec<u64> = tasks.iter().map(|(_, task)| expected_ms(task)).collect();
    let mut progress = Progress::new(Some(expected_ms.iter().sum()), common.quiet);
    let mut done_ms = 0;
    // Jobs of single experiments show no bar of their own.
    let silent = Common { quiet: true, ..common.clone() };
    let scratch = Scratch::find();
    for (number, (paper, task)) in tasks.iter().enumerate() {
        let end_ms = done_ms + expected_ms[number];
        let message = || format!("live: {}, {} of {}", paper.id(), number + 1, tasks.len());
        progress.set_growing(done_ms, end_ms, message)?;
        done_ms = end_ms;
        let measured = match (kept.get(task.key()), &scratch) {
            (Some(metrics), _) => Ok(measured_before(&task.experiment, metrics)),
            (None, Ok(scratch)) => measure(&task.experiment, scratch, &silent),
            (None, Err(reason)) => Err(anyhow::anyhow!("{reason}")),
        };
        // Whatever an interrupted experiment says, or has measured, is due to the interruption.
        go_on()?;
        let sentences = match measured {
            Ok(Measured { metrics, notes }) => {
                if !kept.contains(task.key()) {
                    store.keep(task.key(), &metrics)?;
                    kept.insert(task.key().to_owned(), metrics);
                }
                [vec![format!("Measured here: {}.", task.what)], notes].concat()
            }
            Err(error) => vec![format!("Left out: {}: {error:#}.", task.what)],
        };
        let of_paper = notes.entry(*paper).or_default();
        for sentence in sentences {
            if !of_paper.contains(&sentence) {
                of_paper.push(sentence);
            }
        }
    }
    // Ends the bar, so that a note on the directory has a line of its own.
    drop(progress);
    drop(scratch);
    Ok(notes)
}

/// Removes what killed runs have left, and ends those that wait for their own mounts.
pub(super) fn remove_leftovers() {
    Scratch::remove_leftovers();
}

/// An experiment's metrics, and notes on parts of it that were left out.
#[derive(Default)]
struct Measured {
    metrics: Metrics,
    notes: Vec<String>,
}

impl From<Metrics> for Measured {
    fn from(metrics: Metrics) -> Measured {
        Measured { metrics, notes: Vec::new() }
    }
}

fn measure(experiment: &LiveExperiment, scratch: &Scratch, common: &Common) -> Result<Measured> {
    let metrics = match experiment {
        LiveExperiment::Prefetch(program) => prefetch::measure(program, scratch)?,
        LiveExperiment::Count(count) => count::measure(count, scratch)?,
        LiveExperiment::Readers(readers) => readers::measure(readers, scratch)?,
        LiveExperiment::Replay(replay) => replay::measure(replay, scratch)?,
        LiveExperiment::Speed(simulation) => speed(simulation)?,
        LiveExperiment::Query1(tables) => return tables::query1(*tables, scratch, common),
        LiveExperiment::Join(tables) => tables::join(*tables, scratch, common)?,
        LiveExperiment::DirectRead(read) => direct_read::measure(*read, scratch)?,
    };
    Ok(metrics.into())
}

/// Measures how much faster than real time a simulation is (Hosogi et al. 2013, section 4).
fn speed(simulation: &Task) -> Result<Metrics> {
    let begun = Instant::now();
    let simulated = simulation.run()?;
    let elapsed_s = begun.elapsed().as_secs_f64();
    let simulated_s = simulated.get("simulated_s").context("the simulation does not say how long it was")?;
    Ok(metrics([("simulated_per_wall_ratio", simulated_s / elapsed_s)]))
}

/// The metrics that a run before this one has kept, which did not keep its notes.
fn measured_before(experiment: &LiveExperiment, metrics: &Metrics) -> Measured {
    let notes = match experiment {
        LiveExperiment::Query1(_) => tables::query1_left_out(metrics),
        _ => Vec::new(),
    };
    Measured { metrics: metrics.clone(), notes }
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
