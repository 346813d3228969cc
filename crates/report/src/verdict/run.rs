//! What a run with reading ahead says: whether it helped, and why if it did not.

use std::fmt::Write as _;

use crate::number::{NONE, bytes, count, duration, percent, plural, ratio};
use crate::schema::{RunAdvice, RunReason, RunResult};

/// What came of a run: the verdict first.
pub(crate) fn run(result: &RunResult) -> Vec<String> {
    let mut sentences = vec![verdict(result)];
    sentences
        .extend(result.readings.iter().filter_map(|reading| reading.advice.as_ref()).take(1).map(advice));
    sentences.extend(result.notes.iter().cloned());
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

fn verdict(result: &RunResult) -> String {
    let waits = ratio(result.io_wait_ns, result.elapsed_ns);
    if result.dry_run {
        return would_help(result, waits);
    }
    if result.prefetched_bytes == 0 {
        return nothing_done(result);
    }
    match result.io_hidden_ns {
        // More than there was to hide it behind: accesses went on side by side.
        Some(hidden) if hidden > result.computing_ns => format!(
            "Reading ahead saved about {} of waiting for I/O (estimated); {} of the time the program still waited.",
            duration(hidden),
            percent(waits)
        ),
        Some(hidden) if hidden > 0 => format!(
            "Reading ahead hid about {} of I/O behind computation (estimated); {} of the time the program still waited.",
            duration(hidden),
            percent(waits)
        ),
        // Where nothing could be estimated, nothing is known.
        hidden => match result.idle.first().filter(|_| hidden.is_some()) {
            Some(idle) => format!("Reading ahead gained nothing that can be seen: {}.", reason(idle.reason)),
            None => format!(
                "{} were read ahead; the program waited for I/O {} of the time.",
                bytes(result.prefetched_bytes),
                percent(waits)
            ),
        },
    }
}

fn nothing_done(result: &RunResult) -> String {
    match result.idle.first() {
        Some(idle) => format!("Nothing was read ahead: {}.", reason(idle.reason)),
        None if result.files == 0 => "Nothing was read ahead: no file large enough was read.".to_owned(),
        None => "Nothing was read ahead: the program was done before it was known whether it would help."
            .to_owned(),
    }
}

/// With enough read ahead, a program takes as long as the longer of computing and I/O (equation 2 of the paper).
fn would_help(result: &RunResult, waits: f64) -> String {
    const LITTLE: f64 = 0.02;
    if waits < LITTLE {
        let why = result.idle.first().map_or("the program hardly waits for I/O", |idle| reason(idle.reason));
        return format!("Reading ahead would gain nothing: {why}.");
    }
    format!(
        "The program waited for I/O {} of the time; reading ahead could hide up to {} of {}.",
        percent(waits),
        duration(result.io_wait_ns.min(result.computing_ns)),
        duration(result.io_wait_ns)
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
    vec![
        ("elapsed", duration(result.elapsed_ns)),
        ("computing", duration(result.computing_ns)),
        ("waiting for I/O", duration(result.io_wait_ns)),
        (
            "I/O hidden, estimated",
            result.io_hidden_ns.map_or(NONE.to_owned(), |hidden| format!("about {}", duration(hidden))),
        ),
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
    ]
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
            verdict(&RunResult { prefetched_bytes: 1, computing_ns, io_hidden_ns, ..RunResult::default() })
        };
        assert!(hidden(5_000_000, 4_000_000).contains("hid about 4.00 ms of I/O behind computation"));
        assert!(hidden(5_000_000, 6_000_000).contains("saved about 6.00 ms of waiting"));
    }
}
