//! `wc` and `grep` as replacements: the same bytes on stdout and the same exit codes as GNU's, if the system has
//! those.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::gnu::{is_gnu, shell, told};
use crate::scratch::{Scratch, json};

/// Creates a directory with files of every kind.
fn with_files(test: &str) -> Scratch {
    let scratch = Scratch::new(test);
    let numbers = (0..120_000u32).fold(String::new(), |mut text, number| {
        writeln!(text, "{number}\t word{} \u{3000}é{}", number % 7, number.wrapping_mul(2_654_435_761) >> 12)
            .unwrap();
        text
    });
    let noise: Vec<u8> =
        (0..700_000u32).map(|index| (index.wrapping_mul(2_654_435_761) >> 13 ^ index >> 3) as u8).collect();
    scratch.file("numbers", numbers);
    scratch.file("noise", noise);
    scratch.file("small", "abc\nxyz abc\r\n\nlast word");
    scratch.file("empty", "");
    scratch.file("new\nline's", "x\n");
    scratch.file("list", "small\0noise\0");
    scratch.file("bad", "small\0\0-\0missing\0");
    fs::create_dir(scratch.0.join("directory")).unwrap();
    scratch
}

fn same(scratch: &Scratch, theirs: &str, ours: &str, operands: &str) {
    for locale in ["C", "C.UTF-8"] {
        crate::gnu::same(scratch, locale, theirs, ours, operands);
    }
}

/// Returns the output of our command on stdout, and its exit code.
fn ours(scratch: &Scratch, command: &str) -> (String, Option<i32>) {
    told(&shell(scratch, "C.UTF-8", &command.replace("OURS", env!("CARGO_BIN_EXE_sakiyomi"))))
}

#[test]
fn wc_prints_what_gnu_wc_prints() {
    if !is_gnu("wc") {
        return;
    }
    let scratch = with_files("stand_in_wc");
    // `stand_in_random.rs` covers all others.
    for options in ["", "-c", "-mL", "-lwmcL"] {
        for operands in [
            "numbers noise small empty",
            "missing small",
            "directory",
            "numbers small directory - missing noise /dev/null empty small < small",
            "$'new\\nline\\'s' small",
            "< noise",
            "- - small < small",
            "/proc/filesystems /dev/null",
            "''",
            "--files0-from=list",
            "--files0-from=- < list",
            "--files0-from=bad",
            "--files0-from=empty",
            "--files0-from=missing",
            "--no-such-option",
        ] {
            same(&scratch, "wc", "wc", &format!("{options} {operands}"));
        }
        same(&scratch, "cat numbers noise | wc", "wc < <(cat numbers noise)", options);
    }
}

#[test]
fn however_files_are_read_the_figures_are_the_same() {
    let scratch = with_files("stand_in_methods");
    let expected = scratch.ok("wc -lwmcL numbers noise");
    for how in [
        "--method read",
        "--method pread:3 --block 1000",
        "--method mmap:2 --block 7777",
        "--method populate:2",
        "--io-thread shared --block 4KiB",
        "--io-thread shared --method mmap",
        "--threads 5 --block 1MiB",
    ] {
        assert_eq!(scratch.ok(&format!("wc -lwmcL {how} numbers noise")), expected, "{how}");
    }
    let document = json(&scratch.ok("wc -lw --json numbers"));
    assert_eq!(document["schema"], "sakiyomi.wc/1");
    assert_eq!(document["result"]["files"][0]["figures"]["lines"], 120_000);
    assert_eq!(document["run"]["read_bytes"], fs::metadata(scratch.0.join("numbers")).unwrap().len());
}

#[test]
fn holes_count_as_the_nuls_that_they_read_as() {
    if !is_gnu("wc") {
        return;
    }
    let scratch = Scratch::new("stand_in_holes");
    let large = "text \u{e9}t\u{e9}\n".repeat(40_000);
    let data: [&[(u64, &[u8])]; 5] = [
        &[],
        &[(0, b"one tw"), (3 << 20, b"o\n"), (9 << 20, b"three")],
        &[(1 << 20, large.as_bytes()), (5 << 20, large.as_bytes())],
        // A hole between the bytes of a character, and one that is too short to be skipped.
        &[((2 << 20) - 1, b"\xc3"), (4 << 20, b"\xa9 \t"), ((4 << 20) + 100_000, b"a\x01b")],
        &[((11 << 20) + 4000, b" \n word")],
    ];
    for (number, data) in data.iter().enumerate() {
        let name = format!("sparse{number}");
        let file = File::create(scratch.0.join(&name)).unwrap();
        file.set_len(12 << 20).unwrap();
        data.iter().for_each(|(at, bytes)| file.write_all_at(bytes, *at).unwrap());
        for options in ["", "-lwmcL"] {
            same(&scratch, "wc", "wc", &format!("{options} {name}"));
        }
        same(&scratch, "head -c 5 > head; wc", "wc", &format!("< {name}"));
    }
    same(&scratch, "wc -lwm", "wc -lwm", "sparse1 sparse2 sparse0 sparse1");
}

/// Truncates a file while a command reads it, until that has noticed it in one of some attempts; returns the output on
/// stdout and stderr, and the exit code.
fn while_truncated(
    scratch: &Scratch,
    text: &str,
    arguments: &[&str],
) -> Option<(String, String, Option<i32>)> {
    let path = scratch.0.join("shrinks");
    for _ in 0..20 {
        fs::write(&path, text.repeat((32 << 20) / text.len())).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_sakiyomi"));
        command.args(arguments).args(["--threads", "1", "--method", "pread:1", "--block", "4KiB", "shrinks"]);
        command.current_dir(&scratch.0).stdout(Stdio::piped()).stderr(Stdio::piped());
        let running = command.spawn().unwrap();
        std::thread::sleep(Duration::from_millis(20));
        File::options().write(true).open(&path).unwrap().set_len(10 * text.len() as u64).unwrap();
        let output = running.wait_with_output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if !output.stderr.is_empty() {
            return Some((text(&output.stdout), text(&output.stderr), output.status.code()));
        }
    }
    sakiyomi_testing::skipped("while_truncated", "the file was never truncated while it was read");
    None
}

#[test]
fn a_file_that_is_truncated_while_it_is_read_has_a_message_and_the_counts_of_the_rest() {
    let scratch = Scratch::new("stand_in_truncated");
    let message =
        |tool: &str| format!("sakiyomi: {tool}: shrinks: the file was truncated while it was read\n");
    if let Some((counts, told, code)) = while_truncated(&scratch, "a line of text\n", &["wc", "-lw"]) {
        assert_eq!(counts.split_whitespace().collect::<Vec<_>>(), ["10", "40", "shrinks"]);
        assert_eq!((told, code), (message("wc"), Some(1)));
    }
    if let Some(told) = while_truncated(&scratch, "a line of text\nx\n", &["grep", "-c", "line"]) {
        assert_eq!(told, ("10\n".to_owned(), message("grep"), Some(2)));
    }
    if let Some((lines, told, code)) = while_truncated(&scratch, "a line of text\nx\n", &["grep", "line"]) {
        // The last one may be cut off, as the file was.
        let expected = "a line of text\n".repeat(lines.lines().count().max(10));
        let whole = expected.starts_with(lines.strip_suffix('\n').unwrap());
        assert!(whole && lines.lines().count() >= 10, "{:?}", lines.lines().last());
        assert_eq!((told, code), (message("grep"), Some(2)));
    }
}

#[test]
fn lines_are_searched_up_to_a_limit() {
    let scratch = Scratch::new("stand_in_long_lines");
    let long = "x".repeat(40 << 20);
    scratch.file("long", format!("short\n{long}y\n{long}"));
    assert_eq!(scratch.ok("grep -c y long"), "1\n");
    assert_eq!(scratch.ok("grep -c -v y long"), "2\n");
    assert_eq!(scratch.ok("grep -o xy long"), "xy\n");
    let refused = scratch.run("grep -c y --max-line 39MiB long");
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(
        String::from_utf8_lossy(&refused.stderr),
        "sakiyomi: grep: long: a line is longer than 39MiB; allow more by --max-line\n"
    );
}

#[test]
fn totals_are_printed_when_they_are_asked_for() {
    let scratch = with_files("stand_in_total");
    assert_eq!(scratch.ok("wc -l --total=always small"), "3 small\n3 total\n");
    assert_eq!(scratch.ok("wc -l --total=only small numbers"), "120003\n");
    assert!(!scratch.ok("wc -l --total=never small numbers").contains("total"));
}

#[test]
fn grep_prints_what_gnu_grep_prints() {
    if !is_gnu("grep") {
        return;
    }
    let scratch = with_files("stand_in_grep");
    for options in ["", "-c", "-v -c", "-n", "-i -n", "-l", "-q", "-x", "-w -c", "-H -n"] {
        for operands in [
            "abc small",
            "abc small directory missing",
            "'^$' small empty",
            "word3 numbers small",
            "LAST small missing",
            "a small numbers missing empty - numbers small < small",
            "-e xyz -e last < small",
        ] {
            let theirs = format!("LC_ALL=C.UTF-8 grep -a -E {options}");
            same(&scratch, &theirs, &format!("grep {options}"), operands);
        }
    }
    same(&scratch, "grep -F", "grep -F", "'c\nx' small");
}

#[test]
fn what_is_no_pattern_is_told_in_a_sentence() {
    let scratch = with_files("stand_in_no_pattern");
    let told = |words: &str| scratch.refused(words).lines().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(
        told("grep -e a -e b( small"),
        ["sakiyomi: grep: pattern `b(`, from character 2 on: unclosed group"]
    );
    assert_eq!(told("grep -c [b-a] small").len(), 1);
    assert_eq!(told("grep (a{9999}){9999} small").len(), 1);
    assert_eq!(
        told(r"grep a\nb small"),
        [
            r"sakiyomi: grep: a pattern has a newline (`\n`), which no line contains; give the parts as two patterns"
        ]
    );
    assert_eq!(told("grep --block 0 a small"), ["sakiyomi: grep: --block 0B: give 1 byte to 1 GiB"]);
}

#[test]
fn grep_prints_what_was_asked_for_last() {
    let scratch = with_files("stand_in_last");
    assert_eq!(scratch.ok("grep -H -h abc small empty"), "abc\nxyz abc\r\n");
    assert_eq!(scratch.ok("grep -l -L abc small empty"), "empty\n");
    assert_eq!(scratch.ok("grep -n -n -m1 -m2 b small"), "1:abc\n2:xyz abc\r\n");
    assert_eq!(scratch.ok("grep -on [a-c]+ small"), "1:abc\n2:abc\n4:a\n");
}

#[test]
fn grep_leaves_stdin_behind_the_last_line_wanted() {
    let scratch = with_files("stand_in_rest");
    let rest = |command: &str| {
        ours(&scratch, &format!("(OURS {command} > out; head -n 1; tail -n 1 out) < lines")).0
    };
    scratch.file("lines", (1..=120_000).map(|number| format!("{number}\n")).collect::<String>());
    // The last of these counts needs more than a block.
    for count in [1, 3, 100_000] {
        let next = count + 1;
        assert_eq!(rest(&format!("grep -m{count} ^")), format!("{next}\n{count}\n"));
        assert_eq!(rest(&format!("grep -c -m{count} ^")), format!("{next}\n{count}\n"));
        assert_eq!(rest(&format!("grep -v -m{count} x -")), format!("{next}\n{count}\n"));
    }
    assert_eq!(rest("grep -c -m3 ^ - - -"), "10\n(standard input):3\n");
    // All of it is read if fewer lines are found.
    assert_eq!(rest("grep -l -m1 ^"), "2\n(standard input)\n");
    assert_eq!(rest("grep -c -m2 ^120000$"), "1\n");
}

#[test]
fn patterns_are_read_from_a_file() {
    let scratch = with_files("stand_in_patterns");
    scratch.file("patterns", "xyz\nlast\n");
    scratch.file("none", "");
    assert_eq!(scratch.ok("grep -f patterns small"), "xyz abc\r\nlast word\n");
    assert_eq!(scratch.ok("grep -c -f patterns -e ^abc -f none small"), "3\n");
    assert_eq!(scratch.ok("grep -c -v -f none small"), "4\n");
    assert_eq!(scratch.run("grep -f none small").status.code(), Some(1));
    assert_eq!(ours(&scratch, "OURS grep -f - small < patterns").0, "xyz abc\r\nlast word\n");
    assert!(scratch.refused("grep -f missing small").contains("missing: No such file"));
    assert!(scratch.refused("grep -f noise small").contains("noise: not UTF-8"));
    assert_eq!(ours(&scratch, "OURS grep $'\\xff' small"), (String::new(), Some(2)));
}

#[test]
fn what_is_read_is_not_written_again() {
    if !is_gnu("grep") {
        return;
    }
    let scratch = with_files("stand_in_output");
    for words in ["abc small", "abc small empty - < small", "-c abc small", "-m1 abc small", "-l abc small"] {
        let told_of = |grep: &str| {
            let command =
                format!("cp small before; {grep} {words} >> small; echo $?; cat small; mv before small");
            ours(&scratch, &command)
        };
        assert_eq!(told_of("OURS grep"), told_of("grep"), "{words}");
    }
}

#[test]
fn what_waits_for_somebody_is_opened_when_it_is_its_turn_and_ctrl_c_ends_it() {
    let scratch = with_files("stand_in_fifo");
    let code = |command: &str| ours(&scratch, command).1;
    assert_eq!(code("mkfifo fifo"), Some(0));
    // The earlier match ends it: no writer will open the FIFO.
    assert_eq!(code("timeout -s KILL 20 OURS grep -q abc small fifo"), Some(0));
    let to_head = "set -o pipefail; timeout -s KILL 20 OURS grep word numbers fifo | head -c 1 > head";
    assert_eq!(code(to_head), Some(0));
    for waiting in ["wc fifo", "wc numbers fifo", "grep abc fifo small"] {
        assert_eq!(code(&format!("timeout -s INT -k 20 0.3 OURS {waiting} > out")), Some(124), "{waiting}");
    }
    let (text, _) = ours(&scratch, "cat small > fifo & OURS wc -l small fifo numbers missing");
    assert_eq!(text, "      3 small\n      3 fifo\n 120000 numbers\n 120006 total\n");
}

#[test]
fn few_descriptors_are_enough_for_many_files() {
    if !is_gnu("wc") || !is_gnu("grep") {
        return;
    }
    let scratch = with_files("stand_in_descriptors");
    for number in 0..150 {
        scratch.file(&format!("many{number}"), format!("{number}\n"));
        let large = fs::read(scratch.0.join("numbers")).unwrap();
        if number % 30 == 0 {
            scratch.file(&format!("many{number}large"), &large[..600_000 + number]);
        }
    }
    for limit in [12, 32] {
        for (theirs, ours) in [("wc", "wc"), ("wc", "wc --method pread:2"), ("grep -ac 1", "grep -c 1")] {
            let expected = told(&shell(&scratch, "C.UTF-8", &format!("{theirs} many* missing")));
            let few = format!("ulimit -n {limit}; OURS {ours} many* missing");
            assert_eq!(self::ours(&scratch, &few), expected, "{limit}: {ours}");
        }
    }
}
