//! Sentences about where the time went: the largest term first, then what would help.

use super::{ExplainKind, ExplainPrediction, ExplainResult, ExplainTerm};
use crate::number::{duration, percent, ratio};

/// Share of the elapsed time below which storage is not worth a remedy.
const STORAGE_LOW_RATIO: f64 = 0.05;
/// Share of the elapsed time from which waiting for a core is mentioned.
const CORE_WAIT_RATIO: f64 = 0.15;

/// Part of a term by which all of its kind must exceed it to be mentioned: a tenth.
const MORE_PART: u64 = 10;

pub(super) fn sentences(result: &ExplainResult) -> Vec<String> {
    let mut sentences = vec![largest(result)];
    sentences.extend(core_wait(result));
    sentences.push(remedy(result));
    sentences.extend(tried(result));
    // Last, so that it can be copied.
    let command = proposed(result).and_then(|best| best.command.as_ref());
    sentences.extend(command.map(|command| format!("To apply it: {command}")));
    sentences
}

/// Names the largest term. Of several programs and files with the same kind, the kind first.
fn largest(result: &ExplainResult) -> String {
    let elapsed = duration(result.elapsed_ns);
    // By program and kind, and of these the first.
    let longest = |term: &&ExplainTerm| (of_kind(result, term), term.time_ns);
    let Some(term) = result.terms.iter().max_by_key(longest) else {
        return format!("Nothing was recorded in {elapsed}.");
    };
    let share = percent(ratio(term.time_ns, result.elapsed_ns));
    let time = duration(term.time_ns);
    let what = match term.kind {
        ExplainKind::Computing => {
            return format!("{share} of {elapsed} is computing by {} ({time}).", term.program);
        }
        ExplainKind::AwaitingCore => {
            return format!("{share} of {elapsed} {} is ready and waits for a core ({time}).", term.program);
        }
        ExplainKind::NotAttributed => return format!("{share} of {elapsed} is not attributed ({time})."),
        ExplainKind::SequentialRead => format!("for sequential reads{}", of_place(term)),
        ExplainKind::ScatteredRead => format!("for scattered reads{}", of_place(term)),
        ExplainKind::Mapping => format!("for pages{} that it maps", of_place(term)),
        ExplainKind::Metadata => "for opens, look-ups and listings of files".to_owned(),
        ExplainKind::Sync => format!("until written data{} is on storage (fsync)", of_place(term)),
        ExplainKind::Write => format!("in writes{}", of_place(term)),
        ExplainKind::WriteBack => "because it writes faster than the storage takes it".to_owned(),
        ExplainKind::AsynchronousIo => "for asynchronous I/O".to_owned(),
        ExplainKind::Timer => "for timers that it set itself".to_owned(),
        ExplainKind::OtherPrograms => "for other programs".to_owned(),
    };
    let all = of_kind(result, term);
    if all < term.time_ns + term.time_ns / MORE_PART {
        return format!("{share} of {elapsed} {} waits {what} ({time}).", term.program);
    }
    // Several files and directories: the sum says more than the first of them.
    let (share_of_all, kind) = (percent(ratio(all, result.elapsed_ns)), term.kind.describe());
    format!(
        "{share_of_all} of {elapsed} {} waits for {kind} ({}); {share} {what} ({time}).",
        term.program,
        duration(all)
    )
}

/// Returns the time of all terms of a program with the same kind.
fn of_kind(result: &ExplainResult, term: &ExplainTerm) -> u64 {
    let same = result.terms.iter().filter(|other| other.kind == term.kind && other.program == term.program);
    same.map(|other| other.time_ns).sum()
}

fn of_place(term: &ExplainTerm) -> String {
    match term.place() {
        place if place.is_empty() => String::new(),
        place => format!(" of {place}"),
    }
}

fn core_wait(result: &ExplainResult) -> Option<String> {
    let waits = result.terms.iter().filter(|term| term.kind == ExplainKind::AwaitingCore);
    let wait: u64 = waits.map(|term| term.time_ns).sum();
    let share = ratio(wait, result.elapsed_ns);
    let is_first = result.terms.first().is_some_and(|term| term.kind == ExplainKind::AwaitingCore);
    (share >= CORE_WAIT_RATIO && !is_first).then(|| {
        format!("For {} of the time it was ready and waited for a core: other programs, or its own threads, use them.", percent(share))
    })
}

fn remedy(result: &ExplainResult) -> String {
    let storage: u64 =
        result.terms.iter().filter(|term| term.kind.is_storage()).map(|term| term.time_ns).sum();
    let share = ratio(storage, result.elapsed_ns);
    if share < STORAGE_LOW_RATIO {
        return format!(
            "Storage is not what it waits for ({} of the time): faster storage or prefetching would gain little.",
            percent(share)
        );
    }
    if let Some(why) = &result.not_predicted {
        return format!("Nothing is predicted: {why}.");
    }
    match proposed(result) {
        Some(best) => format!(
            "With {} it would take about {} ({} to {}).",
            best.change,
            duration(best.predicted_ns),
            duration(best.low_ns),
            duration(best.high_ns)
        ),
        None => {
            let most = result
                .without_waiting_ns
                .map(|ns| format!(" With storage that takes no time it would take about {}.", duration(ns)));
            format!("None of the remedies is predicted to gain a twentieth.{}", most.unwrap_or_default())
        }
    }
}

/// Returns the best remedy that is proposed: if some were tried, the best of these that shortened the time.
fn proposed(result: &ExplainResult) -> Option<&ExplainPrediction> {
    let mut proposed = result.predictions.iter().filter(|prediction| prediction.is_proposed);
    match result.tried_plain_ns {
        None => proposed.next(),
        Some(plain) => {
            let helped = proposed.filter(|prediction| prediction.tried_ns.is_some_and(|tried| tried < plain));
            helped.min_by_key(|prediction| prediction.tried_ns)
        }
    }
}

/// Compares measured with predicted times.
fn tried(result: &ExplainResult) -> Option<String> {
    let plain = result.tried_plain_ns?;
    let best = result.predictions.iter().filter(|prediction| prediction.tried_ns.is_some());
    let best: &ExplainPrediction = best.min_by_key(|prediction| prediction.tried_ns)?;
    let time = best.tried_ns?;
    Some(format!(
        "Tried: {} took {} (predicted {}), and {} without a remedy.",
        best.change,
        duration(time),
        duration(best.predicted_ns),
        duration(plain)
    ))
}
