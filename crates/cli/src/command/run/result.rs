//! The result document of a follower's summary.

use std::time::Duration;

use sakiyomi_model::Nanos;
use sakiyomi_os::cpu;
use sakiyomi_os::process::command::End;
use sakiyomi_prefetch::Idle;
use sakiyomi_prefetch::follow::{Advice, Learned, Point, ReadingSummary, Summary};
use sakiyomi_report::RunResult;
use sakiyomi_report::result::{RunAdvice, RunIdle, RunLearned, RunPoint, RunReading, RunReason};

use crate::child::code_and_signal;

/// Maximum streams whose curves are included.
const CURVES_MAX: usize = 8;

/// Properties of the run that are known before it starts.
pub(crate) struct Asked {
    pub(crate) program: Vec<String>,
    pub(crate) limit: String,
    pub(crate) dry_run: bool,
}

/// Returns the result for a program that took `elapsed` and ended with `end`, if it is our child. `saved_as` is the name
/// of the profile that was saved for its next run.
pub(crate) fn result(
    asked: Asked,
    summary: &Summary,
    saved_as: Option<String>,
    elapsed: Duration,
    end: Option<End>,
) -> RunResult {
    let (exit_code, signal) = code_and_signal(end.map(|end| end.status));
    // The CPU time of children too short-lived to be observed is known from the system.
    let waited_for = end.map_or(Duration::ZERO, |end| end.user + end.system);
    let compute = waited_for.max(Duration::from_nanos(summary.computing.0));
    let mut idle: Vec<RunIdle> = summary
        .idle
        .iter()
        .map(|(&idle, &read_bytes)| RunIdle { reason: reason(idle), read_bytes })
        .collect();
    idle.sort_by_key(|idle| std::cmp::Reverse(idle.read_bytes));
    RunResult {
        program: asked.program,
        exit_code,
        signal,
        limit: asked.limit,
        dry_run: asked.dry_run,
        elapsed_ns: elapsed.as_nanos() as u64,
        computing_ns: compute.as_nanos() as u64,
        io_wait_ns: summary.io_wait.0,
        core_wait_ns: summary.core_wait.0,
        io_hidden_ns: summary.io_hidden.map(|hidden| hidden.0),
        saved_ns: summary.saved.map(|saved| saved.0),
        could_save_ns: summary.could_save.map(|saved| saved.0),
        storage_bytes_per_s: summary.storage_rate,
        unseen: unseen(summary),
        programs: summary.programs,
        files: summary.files,
        read_bytes: summary.read_bytes,
        prefetched_bytes: summary.prefetched_bytes,
        wasted_bytes: summary.wasted_bytes,
        own_cpu_ns: cpu::of_this_process().as_nanos() as u64,
        idle,
        learned: learned(summary, saved_as.as_deref()),
        notes: notes(summary, saved_as.as_deref()),
        readings: summary.readings.iter().enumerate().map(|(index, told)| reading(index, told)).collect(),
    }
}

/// Returns the reason why reads without a file offset were not followed, if there were any; as a clause.
fn unseen(summary: &Summary) -> Option<String> {
    (summary.still + summary.unseen > 0).then(|| summary.untraced.clone()).flatten()
}

fn learned(summary: &Summary, saved_as: Option<&str>) -> Option<RunLearned> {
    let Learned { profile, replayed_entries, replayed_bytes, .. } = &summary.learned;
    let profile = profile.as_ref().filter(|_| saved_as.is_some());
    (*replayed_entries > 0 || profile.is_some()).then(|| RunLearned {
        replayed_entries: *replayed_entries,
        replayed_bytes: *replayed_bytes,
        profile: saved_as.map(str::to_owned),
        profile_entries: profile.map_or(0, |profile| profile.entries.len() as u64),
        profile_bytes: profile.map_or(0, sakiyomi_prefetch::profile::Profile::bytes),
    })
}

fn notes(summary: &Summary, saved_as: Option<&str>) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some((profile, name)) = summary.learned.profile.as_ref().zip(saved_as) {
        notes.push(format!(
            "Learned for the next run of this command: {} (`sakiyomi profile show {name}`).",
            plural(profile.entries.len() as u64, "file or look-up", "files and look-ups")
        ));
    }
    if summary.refused > 0 {
        notes.push(format!(
            "The open files of {} could not be inspected: they belong to another user, or are protected from inspection.",
            plural(summary.refused, "process", "processes")
        ));
    }
    let why = summary.untraced.as_deref();
    if summary.still > 0 {
        notes.push(format!(
            "{} read without a file offset (by pread or through a mapping) and not prefetched: {}.",
            plural(summary.still, "file was", "files were"),
            why.unwrap_or("the program hardly waits for it")
        ));
    } else if summary.unseen > 0
        && let Some(why) = why
    {
        notes.push(format!(
            "{} without a file offset (by pread or through mappings), which could not be followed: {why}.",
            plural(summary.unseen, "process reads", "processes read"),
        ));
    }
    notes
}

fn plural(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

fn reading(index: usize, told: &ReadingSummary) -> RunReading {
    let points = if index < CURVES_MAX { &told.curve[..] } else { &[] };
    RunReading {
        name: told.name.clone(),
        files: told.files,
        size_bytes: told.size,
        read_bytes: told.read_bytes,
        prefetched_bytes: told.prefetched_bytes,
        wasted_bytes: told.wasted_bytes,
        io_hidden_ns: told.io_hidden.map(|hidden| hidden.0),
        idle: told.idle.map(reason),
        advice: told.advice.map(advice),
        points: points.iter().map(point).collect(),
    }
}

fn advice(advice: Advice) -> RunAdvice {
    let (major, minor) = advice.device;
    RunAdvice {
        bdi: format!("{major}:{minor}"),
        read_ahead_bytes: advice.read_ahead,
        wanted_bytes: advice.wanted,
    }
}

fn point(point: &Point) -> RunPoint {
    let Point { at: Nanos(at_ns), main, prefetch, io_wait } = *point;
    RunPoint { at_ns, main_bytes: main, prefetched_bytes: prefetch.max(main), io_wait_ns: io_wait.0 }
}

fn reason(idle: Idle) -> RunReason {
    match idle {
        Idle::Resident | Idle::Done => RunReason::Resident,
        Idle::DoesNotWait => RunReason::DoesNotWait,
        Idle::NotSequential => RunReason::NotSequential,
        Idle::IoBound => RunReason::IoBound,
        Idle::NoMemory => RunReason::NoMemory,
        Idle::Refused => RunReason::Refused,
    }
}
