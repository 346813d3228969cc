//! What a run with reading ahead says: whether it helped, and why if it did not.

use std::fmt::Write as _;

use crate::number::{NONE, bytes, count, duration, percent, plural, ratio};
use crate::schema::{RunAdvice, RunReason, RunResult};

/// What came of a run: the verdict first.
pub(crate) fn run(result: &RunResult) -> Vec<String> {
    let mut sentences = vec![verdict(result)];
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

/// The command line, cut short where it is long: what a shell has made of a pattern may be thousands of names.
pub(crate) fn title(result: &RunResult) -> String {
    command_line(&result.program, 100)
}

/// The words of a command, up to about so many characters.
pub(crate) fn command_line(words: &[String], longest: usize) -> String {
    let mut title = String::new();
    for (index, word) in words.iter().enumerate() {
        let length = title.chars().count() + word.chars().count() + 1;
        if index > 0 && length > longest {
            let _ = write!(title, " \u{2026} and {} more", count((words.len() - index) as u64));
            break;
        }
        let _ = write!(title, "{}{}", if index > 0 { " " } else { "" }, short(word, longest));
    }
    title
}

/// A word, cut short where it is long.
fn short(word: &str, longest: usize) -> String {
    let mut cut: String = word.chars().take(longest).collect();
    if cut.len() < word.len() {
        cut.push('\u{2026}');
    }
    cut
}

/// Share of waiting below which a program hardly waits.
const LITTLE: f64 = 0.02;

/// Share of waiting above which the report explains what the program waits for.
const MUCH: f64 = 0.05;

fn verdict(result: &RunResult) -> String {
    let waits = result.io_wait_share();
    if result.dry_run {
        return would_help(result, waits);
    }
    if result.prefetched_bytes == 0 {
        return nothing_done(result, waits);
    }
    let saved = result.saved().unwrap_or(0);
    match result.io_hidden_ns {
        // More than there was to hide it behind: accesses went on side by side.
        Some(hidden) if hidden > result.computing_ns => format!(
            "Reading ahead saved about {} of waiting for I/O (estimated); {} of the time the program still waited.",
            duration(saved),
            percent(waits)
        ),
        Some(hidden) if hidden > 0 => format!(
            "Reading ahead hid about {} of I/O behind computation (estimated); {} of the time the program still waited.",
            duration(saved),
            percent(waits)
        ),
        // Where nothing could be estimated, nothing is known.
        hidden => match why(result, waits).filter(|_| hidden.is_some()) {
            Some(why) => format!("Reading ahead gained nothing that can be seen: {why}."),
            None => format!(
                "{} were read ahead; the program waited for I/O {} of the time.",
                bytes(result.prefetched_bytes),
                percent(waits)
            ),
        },
    }
}

fn nothing_done(result: &RunResult, waits: f64) -> String {
    let why = why(result, waits).unwrap_or_else(|| match result.files {
        0 => "no file large enough was read".to_owned(),
        _ => "the program was done before it was known whether it would help".to_owned(),
    });
    if waits < MUCH {
        return format!("Nothing was read ahead: {why}.");
    }
    format!("The program waited for I/O {} of the time, and nothing was read ahead: {why}.", percent(waits))
}

/// Why nothing, or nothing more, was read ahead; none if that is not known. Cached data, or a lack of waiting, cannot
/// explain why a program waited.
fn why(result: &RunResult, waits: f64) -> Option<String> {
    let explains =
        |is: RunReason| waits < MUCH || !matches!(is, RunReason::Resident | RunReason::DoesNotWait);
    let idle = result.idle.iter().map(|idle| idle.reason).find(|&is| explains(is));
    match (&result.unseen, idle) {
        (Some(why), _) if waits >= MUCH => {
            Some(format!("it reads by pread or through mappings, which could not be followed ({why})"))
        }
        (_, Some(is)) => Some(reason(is).to_owned()),
        (_, None) if waits >= MUCH && result.files > 0 && !result.idle.is_empty() => Some(
            "it waited for other things than the files that were followed: names, directories, small files or writing"
                .to_owned(),
        ),
        (_, None) => None,
    }
}

/// The time that would have been saved. With enough read ahead, a program takes as long as the longer of computing and
/// I/O (equation 2 of the paper).
fn would_help(result: &RunResult, waits: f64) -> String {
    let saved = result.could_save_ns.unwrap_or(0);
    if waits < LITTLE {
        let why = why(result, waits).unwrap_or_else(|| "the program hardly waits for I/O".to_owned());
        return format!("Reading ahead would gain nothing: {why}.");
    }
    let waited = format!("The program waited for I/O {} of the time", percent(waits));
    if ratio(saved, result.elapsed_ns) < LITTLE {
        let but = |why: String| format!("{waited}, and nothing to speak of would be read ahead: {why}.");
        return why(result, waits)
            .map_or_else(|| format!("{waited}; reading ahead would gain next to nothing."), but);
    }
    let delivers = result.storage_bytes_per_second.map_or(String::new(), |rate| {
        format!(", as the storage delivers {}/s to reads side by side", bytes(rate))
    });
    format!(
        "{waited}; reading ahead could save about {} of {}{delivers}.",
        duration(saved),
        duration(result.elapsed_ns)
    )
}

/// `the files were in memory already`
pub(crate) fn reason(reason: RunReason) -> &'static str {
    match reason {
        RunReason::Resident => "the files were in memory already; there is nothing to gain",
        RunReason::DoesNotWait => "the program does not wait for I/O; what the kernel reads ahead suffices",
        RunReason::NotSequential => "the files are not read from their beginning to their end",
        RunReason::IoBound => {
            "the storage takes so much longer than the program that reading ahead makes it no faster"
        }
        RunReason::NoMemory => "there is not enough memory to read ahead into",
        RunReason::Refused => "the system does not allow these files to be read ahead",
    }
}

fn advice(advice: &RunAdvice) -> String {
    format!(
        "A read_ahead_kb of {} would do nearly as well, where all that is read from this file system may have it: echo \
         {} > /sys/class/bdi/{}/read_ahead_kb (now {}).",
        advice.wanted_bytes >> 10,
        advice.wanted_bytes >> 10,
        advice.bdi,
        advice.read_ahead_bytes >> 10
    )
}

/// What was measured, as names and values.
pub(crate) fn figures(result: &RunResult) -> Vec<(&'static str, String)> {
    let mut figures = vec![
        ("elapsed", duration(result.elapsed_ns)),
        ("computing", duration(result.computing_ns)),
        ("waiting for I/O", format!("{} ({})", duration(result.io_wait_ns), percent(result.io_wait_share()))),
        ("waiting for a core", duration(result.core_wait_ns)),
        rest(result),
    ];
    figures.extend([
        if result.dry_run {
            (
                "could be saved",
                result
                    .could_save_ns
                    .filter(|&saved| saved > 0)
                    .map_or(NONE.to_owned(), |saved| format!("about {}", duration(saved))),
            )
        } else {
            (
                "I/O hidden, estimated",
                result.io_hidden_ns.map_or(NONE.to_owned(), |hidden| format!("about {}", duration(hidden))),
            )
        },
        (
            "followed",
            format!(
                "{}, {} in {}",
                plural(result.files, "file"),
                bytes(result.read_bytes),
                plural(result.programs, "process")
            ),
        ),
        (
            "read ahead",
            format!("{}, of which {} wasted", bytes(result.prefetched_bytes), bytes(result.wasted_bytes)),
        ),
        ("cost", format!("{} of CPU time", duration(result.own_cpu_ns))),
    ]);
    figures
}

/// Reconciles the three times with the elapsed time: names the rest, or the number of threads that they sum.
fn rest(result: &RunResult) -> (&'static str, String) {
    const SEVERAL: f64 = 1.05;
    let threads = result.threads_at_a_time();
    if threads > SEVERAL {
        return ("threads at a time", format!("{threads:.1} on average, whose times these three sums are"));
    }
    let all = result.computing_ns + result.io_wait_ns + result.core_wait_ns;
    let rest = result.elapsed_ns.saturating_sub(all);
    ("other", format!("{} (pipes, timers, sleep)", duration(rest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_command_line_is_cut_short() {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let told = |program: Vec<String>| title(&RunResult { program, ..RunResult::default() });
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
        use crate::schema::RunIdle;
        let refused = RunIdle { reason: RunReason::Refused, read_bytes: 1 };
        let mut result = RunResult { prefetched_bytes: 1 << 20, idle: vec![refused], ..RunResult::default() };
        assert!(verdict(&result).contains("1.00 MiB were read ahead"), "{}", verdict(&result));
        result.io_hidden_ns = Some(0);
        assert!(verdict(&result).contains("gained nothing"), "{}", verdict(&result));
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
        use crate::schema::RunIdle;
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
            assert!(verdict(&result).contains("not read from their beginning"), "{}", verdict(&result));
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
        assert!(
            figures(&result)
                .iter()
                .any(|(name, value)| *name == "threads at a time" && value.starts_with("3.8"))
        );
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
        let figures = figures(&result);
        let told = |name: &str| figures.iter().find(|(is, _)| *is == name).map(|(_, value)| value.clone());
        assert_eq!(told("other").unwrap(), "500 ms (pipes, timers, sleep)");
        assert_eq!(told("waiting for I/O").unwrap(), "3.00 s (50.0 %)");
    }

    #[test]
    fn what_would_be_saved_is_said_of_the_elapsed_time_with_what_the_storage_delivers() {
        let result = RunResult {
            dry_run: true,
            elapsed_ns: 4 * SECOND,
            io_wait_ns: 3 * SECOND,
            could_save_ns: Some(5 * SECOND / 2),
            storage_bytes_per_second: Some(200 << 20),
            ..RunResult::default()
        };
        let said = verdict(&result);
        assert!(
            said.contains("could save about 2.50 s of 4.00 s, as the storage delivers 200 MiB/s"),
            "{said}"
        );
    }
}
