//! `wc` and `grep` on FIFOs, which are read in the order of the operands, each opened once, after the previous ones
//! have ended, as GNU's tools do: no order of writers leads to a deadlock. `grep` ends when it has found enough, even
//! if more input may follow.

#![allow(clippy::print_stderr)] // what is skipped is said

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, Mode, OFlags, mkfifoat};

use crate::scratch::Scratch;

/// Seconds after which a command counts as hanging.
const WATCHDOG_S: &str = "60";
/// Number of runs of each pair of command and writers; `SAKIYOMI_FIFO_ROUNDS` overrides it.
const ROUNDS: usize = 2;
const PAUSE: Duration = Duration::from_millis(3);

/// How two FIFOs are written.
#[derive(Clone, Copy, Debug)]
enum Writers {
    /// One process writes the first to its end, then the second.
    InTurn,
    /// Like `InTurn`, a few bytes at a time.
    Slowly,
    /// Both are opened at once.
    Both,
    /// The writer of the second waits for a reader before that of the first exists.
    SecondFirst,
    /// Both start when the reader has waited for a while.
    Late,
    /// They open and close, and write nothing.
    Empty,
}

const WRITERS: [Writers; 6] =
    [Writers::InTurn, Writers::Slowly, Writers::Both, Writers::SecondFirst, Writers::Late, Writers::Empty];

/// Expected output of a command for numbers of lines in two FIFOs: the figures of each and the total.
type Expected = fn(&[u64; 2]) -> String;
const COMMANDS: [(&str, Expected); 6] = [
    ("wc -c", |lines| figures(&[lines.map(bytes)])),
    // Single-byte characters, as the locale is C: only sizes are requested.
    ("wc -m", |lines| figures(&[lines.map(bytes)])),
    ("wc -l", |lines| figures(&[*lines])),
    ("wc", |lines| figures(&[*lines, lines.map(|lines| 2 * lines), lines.map(bytes)])),
    ("grep -c word", |lines| format!("first:{}\nsecond:{}\n", lines[0], lines[1])),
    ("grep -n nothing", |_| String::new()),
];

const LINE: &str = "a word\n";

fn bytes(lines: u64) -> u64 {
    lines * LINE.len() as u64
}

/// Formats columns of figures as `wc` does: seven wide, since a FIFO has no size.
fn figures(columns: &[[u64; 2]]) -> String {
    let row = |name: &str, of: &dyn Fn(&[u64; 2]) -> u64| {
        let figures: Vec<String> = columns.iter().map(|column| format!("{:7}", of(column))).collect();
        format!("{} {name}\n", figures.join(" "))
    };
    [row("first", &|of| of[0]), row("second", &|of| of[1]), row("total", &|of| of[0] + of[1])].concat()
}

fn rounds() -> usize {
    let rounds = std::env::var("SAKIYOMI_FIFO_ROUNDS").ok().and_then(|text| text.parse().ok());
    rounds.unwrap_or(ROUNDS)
}

fn with_fifos(test: &str) -> Option<(Scratch, [PathBuf; 2])> {
    let scratch = Scratch::new(test);
    let paths = ["first", "second"].map(|name| scratch.0.join(name));
    for path in &paths {
        if let Err(error) = mkfifoat(CWD, path, Mode::from_raw_mode(0o600)) {
            eprintln!("SKIPPED {test}: {} cannot be made a FIFO: {error}", path.display());
            return None;
        }
    }
    Some((scratch, paths))
}

fn start(scratch: &Scratch, command: &str, operands: &str) -> Child {
    let line = format!("-s KILL {WATCHDOG_S} {} {command} {operands}", env!("CARGO_BIN_EXE_sakiyomi"));
    let mut command = Command::new("timeout");
    command.args(line.split_whitespace()).current_dir(&scratch.0).env("LC_ALL", "C").stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Opens a FIFO for writing when it has a reader; `None` if no reader comes.
fn open(path: &Path) -> Option<File> {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(70) {
        match open_now(path) {
            Ok(file) => return Some(file),
            Err(_) => thread::sleep(Duration::from_micros(200)),
        }
    }
    None
}

/// Fails if a FIFO has no reader; later writes block as usual.
fn open_now(path: &Path) -> io::Result<File> {
    let nonblocking = OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().write(true).custom_flags(nonblocking).open(path)?;
    rustix::fs::fcntl_setfl(&file, OFlags::empty())?;
    Ok(file)
}

fn write(path: &Path, lines: u64, piece: usize, pause: Duration) {
    let Some(mut file) = open(path) else { return };
    for part in LINE.repeat(lines as usize).into_bytes().chunks(piece) {
        // The reader may have been killed.
        if file.write_all(part).is_err() {
            return;
        }
        thread::sleep(pause);
    }
}

impl Writers {
    fn write(self, paths: &[PathBuf; 2], lines: &[u64; 2]) {
        let all = |path: usize| write(&paths[path], lines[path], usize::MAX, Duration::ZERO);
        match self {
            Writers::InTurn => [0, 1].into_iter().for_each(all),
            Writers::Slowly => (0..2).for_each(|path| {
                let piece = (bytes(lines[path]) as usize / 5).max(1);
                write(&paths[path], lines[path], piece, PAUSE);
            }),
            Writers::Empty => (0..2).for_each(|path| write(&paths[path], 0, 1, Duration::ZERO)),
            Writers::Both | Writers::SecondFirst | Writers::Late => thread::scope(|scope| {
                if matches!(self, Writers::Late) {
                    thread::sleep(5 * PAUSE);
                }
                scope.spawn(|| all(1));
                if matches!(self, Writers::SecondFirst) {
                    thread::sleep(5 * PAUSE);
                }
                scope.spawn(|| all(0));
            }),
        }
    }
}

#[test]
fn what_writers_put_into_two_fifos_is_read_to_its_end_whatever_their_order() {
    let Some((scratch, paths)) = with_fifos("fifo_stress") else { return };
    for round in 0..rounds() {
        for (command, expected) in COMMANDS {
            for writers in WRITERS {
                // Less than the capacity of a pipe, more than a block, and nothing at all.
                let mut lines = [[3, 40_000], [40_000, 1], [0, 1000], [1000, 0]][round % 4];
                if matches!(writers, Writers::Empty) {
                    lines = [0; 2];
                }
                let reader = start(&scratch, command, "first second");
                writers.write(&paths, &lines);
                let output = reader.wait_with_output().unwrap();
                assert_eq!(text(&output), expected(&lines), "{command}, {writers:?}: {output:?}");
            }
        }
    }
}

#[test]
fn a_fifo_has_no_reader_before_the_one_that_is_named_before_it_has_ended() {
    let Some((scratch, paths)) = with_fifos("fifo_order") else { return };
    for (command, expected) in COMMANDS {
        let reader = start(&scratch, command, "first second");
        let mut first = open(&paths[0]).expect("a reader");
        for _ in 0..20 {
            first.write_all(LINE.as_bytes()).unwrap();
            thread::sleep(Duration::from_millis(1));
            assert!(open_now(&paths[1]).is_err(), "{command} has opened the second FIFO before its turn");
        }
        drop(first);
        write(&paths[1], 2, usize::MAX, Duration::ZERO);
        assert_eq!(text(&reader.wait_with_output().unwrap()), expected(&[20, 2]), "{command}");
    }
}

/// Output of `grep` when it stops early in a file to which more may be written later.
const ENDS_EARLY: [(&str, &str); 4] = [
    ("grep -m1 word", "first:a word\nsecond:a word\n"),
    ("grep -m1 -c word", "first:1\nsecond:1\n"),
    ("grep -l word", "first\nsecond\n"),
    ("grep -q word", ""),
];

#[test]
fn grep_goes_on_when_it_has_found_enough_though_the_writer_has_not_closed_its_end() {
    let Some((scratch, paths)) = with_fifos("fifo_early") else { return };
    for (command, expected) in ENDS_EARLY.repeat(rounds()) {
        let reader = start(&scratch, command, "first second");
        let mut first = open(&paths[0]).expect("a reader");
        // Not yet enough: it waits for the rest of the line.
        first.write_all(b"nothing\na wo").unwrap();
        thread::sleep(PAUSE);
        first.write_all(b"rd\n").unwrap();
        let second = (command != "grep -q word").then(|| {
            let mut second = open(&paths[1]).expect("a reader");
            second.write_all(LINE.as_bytes()).unwrap();
            second
        });
        let output = reader.wait_with_output().unwrap();
        assert_eq!((text(&output), output.status.code()), (expected.to_owned(), Some(0)), "{command}");
        drop((first, second));
    }
}

#[test]
fn grep_ends_when_it_has_found_enough_in_stdin_though_that_goes_on() {
    let scratch = Scratch::new("stdin_early");
    for command in ["grep -m1 word", "grep -q word", "grep -l word"].repeat(rounds()) {
        // Sizes below and above what is read before threads are started.
        for before in [0, 1000, 100_000] {
            let line = format!("-s KILL {WATCHDOG_S} {} {command}", env!("CARGO_BIN_EXE_sakiyomi"));
            let mut timeout = Command::new("timeout");
            timeout.args(line.split_whitespace()).current_dir(&scratch.0);
            let mut reader = timeout.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            let mut stdin = reader.stdin.take().unwrap();
            stdin.write_all("nothing\n".repeat(before).as_bytes()).unwrap();
            stdin.write_all(LINE.as_bytes()).unwrap();
            let output = reader.wait_with_output().unwrap();
            assert_eq!(output.status.code(), Some(0), "{command} after {before} lines");
            drop(stdin);
        }
    }
}

#[test]
fn figures_are_lined_up_as_wc_does() {
    let expected = "      3      30 first\n      4      40 second\n      7      70 total\n";
    assert_eq!(figures(&[[3, 4], [30, 40]]), expected);
}
