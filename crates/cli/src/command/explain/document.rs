//! The result document of a recording.

use sakiyomi_explain::ledger::Term;
use sakiyomi_explain::recording::{Method, Pattern};
use sakiyomi_explain::remedies::{PredictedRemedy, Remedy, remedies};
use sakiyomi_explain::summary::{SummaryRow, intervals, summary};
use sakiyomi_explain::{Ledger, PredictError, Prefetching, Present, Recording};
use sakiyomi_io::page_cache::device_numbers;
use sakiyomi_model::Bytes;
use sakiyomi_os::process::command::End;
use sakiyomi_report::result::{
    ExplainInterval, ExplainKind, ExplainPrediction, ExplainResult, ExplainStorage, ExplainTerm,
};

use super::READ_AHEAD_DEFAULT;
use crate::child::code_and_signal;

/// Returns the result of a recording, whose program ended with `end` if it is known.
/// With it the remedies of its predictions, in the same order.
pub(crate) fn explain(recording: &Recording, end: Option<End>) -> (ExplainResult, Vec<Remedy>) {
    let ledger = Ledger::of(recording);
    let (exit_code, signal) = code_and_signal(end.map(|end| end.status));
    let mut result = ExplainResult {
        program: recording.program.clone(),
        exit_code,
        signal,
        method: match recording.method {
            Method::Traced => "traced".to_owned(),
            Method::Sampled => "sampled".to_owned(),
        },
        elapsed_ns: recording.elapsed_ns.0,
        threads: recording.threads.len() as u64,
        files: recording.files.len() as u64,
        terms: summary(recording, &ledger).into_iter().map(term).collect(),
        intervals: spans(recording),
        notes: recording.notes.clone(),
        ..ExplainResult::default()
    };
    let predicted = Present::fit(recording).and_then(|present| predict(&present, recording, &mut result));
    let remedies = predicted.unwrap_or_else(|why| {
        result.not_predicted = Some(why.to_string());
        Vec::new()
    });
    (result, remedies)
}

fn term(row: SummaryRow) -> ExplainTerm {
    ExplainTerm {
        program: row.program,
        kind: kind(row.term),
        place: row.place,
        files: row.files as u64,
        time_ns: row.time.0,
        count: row.count,
    }
}

fn kind(term: Term) -> ExplainKind {
    match term {
        Term::Computing => ExplainKind::Computing,
        Term::AwaitingCore => ExplainKind::AwaitingCore,
        Term::Read(_, Pattern::Sequential) => ExplainKind::SequentialRead,
        Term::Read(_, Pattern::Scattered) => ExplainKind::ScatteredRead,
        Term::Mapping(_) => ExplainKind::Mapping,
        Term::Metadata => ExplainKind::Metadata,
        Term::Sync(_) => ExplainKind::Sync,
        Term::Write(_) => ExplainKind::Write,
        Term::WriteBack => ExplainKind::WriteBack,
        Term::AsynchronousIo => ExplainKind::AsynchronousIo,
        Term::Timer => ExplainKind::Timer,
        Term::OtherPrograms => ExplainKind::OtherPrograms,
        Term::NotAttributed => ExplainKind::NotAttributed,
    }
}

fn spans(recording: &Recording) -> Vec<ExplainInterval> {
    let mut begun = 0;
    let span = |interval: sakiyomi_explain::summary::Interval| {
        let length = interval.until.0 - begun;
        begun = interval.until.0;
        let known = interval.computing + interval.awaiting_core + interval.storage;
        ExplainInterval {
            until_ns: interval.until.0,
            computing_ns: interval.computing.0,
            core_wait_ns: interval.awaiting_core.0,
            io_wait_ns: interval.storage.0,
            other_ns: length.saturating_sub(known.0),
            read_bytes: interval.read_bytes,
            loaded_bytes: interval.loaded_bytes,
        }
    };
    intervals(recording).into_iter().map(span).collect()
}

/// Returns the model of the present storage.
pub(crate) fn storage(present: &Present<'_>) -> ExplainStorage {
    ExplainStorage {
        latency_ns: present.storage.latency.0,
        parallel: u64::from(present.storage.parallel),
        bytes_per_s: present.storage.bandwidth.map(|bandwidth| bandwidth.0),
        error_ratio: present.error_ratio,
    }
}

/// Adds predictions to a result; returns their remedies.
fn predict(
    present: &Present<'_>,
    recording: &Recording,
    result: &mut ExplainResult,
) -> Result<Vec<Remedy>, PredictError> {
    let read_ahead = recording.storage.and_then(|storage| storage.read_ahead_bytes).map(Bytes);
    let mut all = Vec::new();
    for predicted in remedies(present, read_ahead.unwrap_or(READ_AHEAD_DEFAULT))? {
        match predicted.remedy {
            Remedy::NoWaiting => result.without_waiting_ns = Some(predicted.prediction.elapsed.0),
            remedy => {
                all.push(remedy);
                result.predictions.push(prediction(&predicted, present, recording));
            }
        }
    }
    result.storage = Some(storage(present));
    Ok(all)
}

/// Returns the name of prefetching; `None` without it.
pub(crate) fn prefetching_name(prefetching: Prefetching) -> Option<&'static str> {
    match prefetching {
        Prefetching::Off => None,
        Prefetching::Followed => Some("prefetching"),
        Prefetching::Learned => Some("prefetching learned from a run before that read the same"),
    }
}

fn prediction(
    predicted: &PredictedRemedy,
    present: &Present<'_>,
    recording: &Recording,
) -> ExplainPrediction {
    let name = prefetching_name(predicted.remedy.change().prefetching).unwrap_or_default().to_owned();
    let (change, command) = match predicted.remedy {
        Remedy::Run => (name, run_command("run", &recording.program)),
        // The first run learns, and the next ones use what was learned.
        Remedy::LearnedRun => (name, run_command("run --learn", &recording.program)),
        Remedy::ReadAhead(bytes) => {
            let command = format!("echo {} | sudo tee {}", bytes.0 >> 10, read_ahead_file(present.device()));
            (format!("a read-ahead of {bytes}"), Some(command))
        }
        Remedy::NoWaiting => ("storage that takes no time".to_owned(), None),
    };
    ExplainPrediction {
        change,
        command,
        predicted_ns: predicted.prediction.elapsed.0,
        low_ns: predicted.prediction.low.0,
        high_ns: predicted.prediction.high.0,
        is_proposed: predicted.is_worthwhile(recording.elapsed_ns),
        tried_ns: None,
    }
}

/// Returns the command that prefetches for a program, quoted for a shell.
fn run_command(run: &str, program: &[String]) -> Option<String> {
    let words: Vec<String> = program.iter().map(|word| quoted(word)).collect();
    match &*words {
        [] => None,
        [only] => only.strip_prefix("'process ").and_then(|rest| rest.strip_suffix('\'')).map_or_else(
            || Some(format!("sakiyomi {run} -- {only}")),
            |number| Some(format!("sakiyomi run --pid {number}")),
        ),
        all => Some(format!("sakiyomi {run} -- {}", all.join(" "))),
    }
}

/// Quotes a word for a shell if it needs it.
fn quoted(word: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_./=:,+@%^".contains(character);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    if !word.contains(char::is_control) {
        return format!("'{}'", word.replace('\'', r"'\''"));
    }
    // A report shows no control characters.
    let escaped = |character: char| match character {
        '\'' | '\\' => format!("\\{character}"),
        '\n' => r"\n".to_owned(),
        '\t' => r"\t".to_owned(),
        character if character.is_control() => format!(r"\u{:04x}", u32::from(character)),
        character => character.to_string(),
    };
    format!("$'{}'", word.chars().map(escaped).collect::<String>())
}

/// Returns the file in which the kernel's read-ahead on a device is set, in KiB.
pub(super) fn read_ahead_file(device: u64) -> String {
    let (major, minor) = device_numbers(device);
    format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_be_copied_into_a_shell() {
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        let said = |all: &[&str]| run_command("run", &words(all)).unwrap();
        assert_eq!(said(&["md5sum", "a file"]), "sakiyomi run -- md5sum 'a file'");
        assert_eq!(said(&["sh", "-c", "echo 'x' | cat"]), r"sakiyomi run -- sh -c 'echo '\''x'\'' | cat'");
        assert_eq!(said(&["sh", "-c", "a\n'b'\\"]), r"sakiyomi run -- sh -c $'a\n\'b\'\\'");
        assert_eq!(said(&["process 12"]), "sakiyomi run --pid 12");
        assert_eq!(run_command("run --learn", &words(&["ls"])).unwrap(), "sakiyomi run --learn -- ls");
        assert_eq!(run_command("run", &[]), None);
    }
}
