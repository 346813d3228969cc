//! Sentences about a run with prefetching: whether it helped, and the reason if not.

use super::{RunAdvice, RunReason, RunResult};
use crate::number::{bytes, count, duration, percent, rate, ratio};

/// Returns the sentences, the verdict first.
pub(super) fn sentences(result: &RunResult) -> Vec<String> {
    let mut sentences = vec![verdict(result)];
    if result.prefetched_bytes > 0 {
        sentences.extend(
            replayed(result)
                .map(|what| format!("Its start was prefetched, as learned from earlier runs: {what}.")),
        );
    }
    sentences
        .extend(result.readings.iter().filter_map(|reading| reading.advice.as_ref()).take(1).map(advice));
    // Notes do not repeat a reason that the verdict gives.
    let is_said = |note: &&String| {
        result.unseen.as_ref().is_some_and(|why| sentences[0].contains(why) && note.contains(why))
    };
    let notes: Vec<String> = result.notes.iter().filter(|note| !is_said(note)).cloned().collect();
    sentences.extend(notes);
    sentences
}

/// Share of its time below which a program hardly waits.
const WAIT_LOW_RATIO: f64 = 0.02;

/// Share of a program's time above which the report explains its waiting.
const WAIT_HIGH_RATIO: f64 = 0.05;

fn verdict(result: &RunResult) -> String {
    let waits = result.io_wait_share();
    if result.dry_run {
        return would_help(result, waits);
    }
    if result.prefetched_bytes == 0 {
        return replayed(result).map_or_else(
            || nothing_done(result, waits),
            |what| {
                format!(
                    "The start was prefetched, as learned from earlier runs: {what}; the program waited for I/O {} of the time.",
                    percent(waits)
                )
            },
        );
    }
    let saved = result.saved().unwrap_or(0);
    match result.io_hidden_ns {
        // More than there was to hide it behind: accesses were concurrent.
        Some(hidden) if hidden > result.computing_ns => format!(
            "Prefetching saved about {} of waiting for I/O (estimated); the program still waited {} of the time.",
            duration(saved),
            percent(waits)
        ),
        Some(hidden) if hidden > 0 => format!(
            "Prefetching hid about {} of I/O behind computation (estimated); the program still waited {} of the time.",
            duration(saved),
            percent(waits)
        ),
        // Without an estimate nothing is known.
        hidden => match why(result, waits).filter(|_| hidden.is_some()) {
            Some(why) => format!("Prefetching had no measurable gain: {why}."),
            None => format!(
                "{} were prefetched; the program waited for I/O {} of the time.",
                bytes(result.prefetched_bytes),
                percent(waits)
            ),
        },
    }
}

/// Returns what was prefetched as learned from earlier runs.
fn replayed(result: &RunResult) -> Option<String> {
    let learned = result.learned.as_ref().filter(|learned| learned.replayed_entries > 0)?;
    let what = if learned.replayed_entries == 1 { "file or look-up" } else { "files and look-ups" };
    Some(format!("{} {what}, {}", count(learned.replayed_entries), bytes(learned.replayed_bytes)))
}

fn nothing_done(result: &RunResult, waits: f64) -> String {
    let why = why(result, waits).unwrap_or_else(|| match result.files {
        0 => "the program read no file that is large enough".to_owned(),
        _ => "the program ended before it was known whether prefetching would help".to_owned(),
    });
    if waits < WAIT_HIGH_RATIO {
        return format!("Nothing was prefetched: {why}.");
    }
    format!("The program waited for I/O {} of the time, and nothing was prefetched: {why}.", percent(waits))
}

/// Returns the reason why nothing, or nothing more, was prefetched; `None` if it is unknown. Cached data, or a lack
/// of waiting, cannot explain why a program waited.
fn why(result: &RunResult, waits: f64) -> Option<String> {
    let explains = |is: RunReason| {
        waits < WAIT_HIGH_RATIO || !matches!(is, RunReason::Resident | RunReason::DoesNotWait)
    };
    let idle = result.idle.iter().map(|idle| idle.reason).find(|&is| explains(is));
    match (&result.unseen, idle) {
        (Some(why), _) if waits >= WAIT_HIGH_RATIO => {
            Some(format!("it reads by pread or through mappings, which could not be followed ({why})"))
        }
        (_, Some(is)) => Some(is.describe().to_owned()),
        (_, None) if waits >= WAIT_HIGH_RATIO && result.files > 0 && !result.idle.is_empty() => Some(
            "it waited for something other than the files that were followed: metadata, directories, small files or writes"
                .to_owned(),
        ),
        (_, None) => None,
    }
}

/// Describes the time that would have been saved. With enough prefetching, a program takes as long as the longer of
/// computing and I/O (equation 2 of the paper).
fn would_help(result: &RunResult, waits: f64) -> String {
    let saved = result.could_save_ns.unwrap_or(0);
    if waits < WAIT_LOW_RATIO {
        let why = why(result, waits).unwrap_or_else(|| "the program hardly waits for I/O".to_owned());
        return format!("Prefetching would gain nothing: {why}.");
    }
    let waited = format!("The program waited for I/O {} of the time", percent(waits));
    if ratio(saved, result.elapsed_ns) < WAIT_LOW_RATIO {
        let but = |why: String| format!("{waited}, and hardly anything would be prefetched: {why}.");
        return why(result, waits)
            .map_or_else(|| format!("{waited}; prefetching would gain hardly anything."), but);
    }
    let delivers = result.storage_bytes_per_s.map_or(String::new(), |bytes_per_s| {
        format!(", because the storage delivers {} to parallel reads", rate(bytes_per_s as f64))
    });
    format!(
        "{waited}; prefetching could save about {} of {}{delivers}.",
        duration(saved),
        duration(result.elapsed_ns)
    )
}

fn advice(advice: &RunAdvice) -> String {
    format!(
        "A read_ahead_kb of {} would do nearly as well, if it suits all other readers of this file system: echo \
         {} > /sys/class/bdi/{}/read_ahead_kb (now {}).",
        advice.wanted_bytes >> 10,
        advice.wanted_bytes >> 10,
        advice.bdi,
        advice.read_ahead_bytes >> 10
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::section::Present;

    fn figure(result: &RunResult, label: &str) -> String {
        let facts = result.settings();
        facts.iter().find(|fact| fact.label == label).unwrap().values[0].value.text()
    }

    #[test]
    fn a_long_command_line_is_cut_short() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let told = |program: Vec<String>| RunResult { program, ..RunResult::default() }.title();
        assert_eq!(told(words(&["gzip", "-3", "big.tar"])), "gzip -3 big.tar");
        let many =
            std::iter::once("md5sum".to_owned()).chain((0..3000).map(|index| format!("slow/f{index}")));
        let title = told(many.collect());
        assert!(title.starts_with("md5sum slow/f0 ") && title.ends_with("more"), "{title}");
        assert!(title.chars().count() < 130, "{title}");
        assert!(told(words(&["sh", "-c", &"\u{fc}".repeat(5000)])).chars().count() < 130);
    }

    #[test]
    fn what_is_not_known_is_not_said_to_be_nothing() {
        use crate::result::RunIdle;
        let refused = RunIdle { reason: RunReason::Refused, read_bytes: 1 };
        let mut result = RunResult { prefetched_bytes: 1 << 20, idle: vec![refused], ..RunResult::default() };
        assert!(verdict(&result).contains("1.00 MiB were prefetched"), "{}", verdict(&result));
        result.io_hidden_ns = Some(0);
        assert!(verdict(&result).contains("no measurable gain"), "{}", verdict(&result));
    }

    #[test]
    fn no_more_is_said_to_be_hidden_behind_computation_than_there_was_of_it() {
        let hidden = |computing_ns, hidden| {
            let io_hidden_ns = Some(hidden);
            let elapsed_ns = 2 * computing_ns;
            verdict(&RunResult {
                prefetched_bytes: 1,
                elapsed_ns,
                computing_ns,
                io_hidden_ns,
                ..RunResult::default()
            })
        };
        assert!(hidden(5_000_000, 4_000_000).contains("hid about 4.00 ms of I/O behind computation"));
        assert!(hidden(5_000_000, 6_000_000).contains("saved about 6.00 ms of waiting"));
    }

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_program_that_waited_while_nothing_was_read_ahead_is_told_so_and_why() {
        use crate::result::RunIdle;
        let idle =
            [RunReason::Resident, RunReason::DoesNotWait].map(|reason| RunIdle { reason, read_bytes: 1 });
        let mut result = RunResult {
            elapsed_ns: 5 * SECOND,
            io_wait_ns: 4 * SECOND,
            computing_ns: SECOND / 4,
            files: 2,
            idle: idle.to_vec(),
            ..RunResult::default()
        };
        for dry_run in [false, true] {
            result.dry_run = dry_run;
            for unseen in [None, Some("tracing needs root".to_owned())] {
                result.unseen = unseen;
                let said = verdict(&result);
                assert!(said.starts_with("The program waited for I/O 80.0 % of the time"), "{said}");
                assert!(!said.contains("in memory") && !said.contains("does not wait"), "{said}");
                assert_eq!(said.contains("needs root"), result.unseen.is_some(), "{said}");
            }
            result.idle.insert(0, RunIdle { reason: RunReason::NotSequential, read_bytes: 1 });
            result.unseen = None;
            assert!(verdict(&result).contains("not read sequentially"), "{}", verdict(&result));
            result.idle.remove(0);
        }
        result.io_wait_ns = SECOND / 100;
        assert!(verdict(&result).contains("in memory already"), "{}", verdict(&result));
    }

    #[test]
    fn threads_that_wait_side_by_side_wait_for_a_part_of_their_time() {
        let result = RunResult {
            elapsed_ns: SECOND,
            computing_ns: SECOND / 5,
            io_wait_ns: 34 * SECOND / 10,
            core_wait_ns: SECOND / 5,
            prefetched_bytes: 1,
            io_hidden_ns: Some(4 * SECOND),
            saved_ns: Some(SECOND),
            ..RunResult::default()
        };
        assert!((result.threads_at_a_time() - 3.8).abs() < 1e-9 && result.io_wait_share() < 0.9);
        let said = verdict(&result);
        assert!(said.contains("saved about 1.05 s") && said.contains("89.5 % of the time"), "{said}");
        assert!(figure(&result, "threads at a time").starts_with("3.8"));
    }

    #[test]
    fn of_a_single_thread_the_times_add_up_to_the_elapsed_time() {
        let result = RunResult {
            elapsed_ns: 6 * SECOND,
            computing_ns: 2 * SECOND,
            io_wait_ns: 3 * SECOND,
            core_wait_ns: SECOND / 2,
            ..RunResult::default()
        };
        assert_eq!(figure(&result, "other"), "500 ms (pipes, timers, sleep)");
        assert_eq!(figure(&result, "waiting for I/O"), "3.00 s (50.0 %)");
    }

    #[test]
    fn what_would_be_saved_is_said_of_the_elapsed_time_with_what_the_storage_delivers() {
        let result = RunResult {
            dry_run: true,
            elapsed_ns: 4 * SECOND,
            io_wait_ns: 3 * SECOND,
            could_save_ns: Some(5 * SECOND / 2),
            storage_bytes_per_s: Some(200_000_000),
            ..RunResult::default()
        };
        let said = verdict(&result);
        assert!(
            said.contains("could save about 2.50 s of 4.00 s, because the storage delivers 200 MB/s"),
            "{said}"
        );
    }
}
