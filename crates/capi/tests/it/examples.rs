//! The examples in C and C++.

use std::process::{Command, Output};

use sakiyomi_testing::{Scratch, ScratchFile, skipped};

use crate::compile::{Linked, Program};

/// Checks that a program has succeeded and printed exactly this.
fn prints(output: &Output, text: &str) {
    assert_eq!(String::from_utf8_lossy(&output.stdout), text);
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Checks that a program ends with a usage or operating error and this beginning of a sentence.
fn refuses(output: &Output, sentence: &str) {
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.starts_with(sentence), "{said}");
}

#[test]
fn the_example_counts_words() {
    let file = ScratchFile::new("one two\n three\t\tfour  ".repeat(100_000));
    Program::each_way("words", "examples/words.c", [file.path()], |output| prints(&output, "400000\n"));
    if let Some(program) = Program::new("words", "examples/words.c", Linked::Static) {
        refuses(&program.run(["/nowhere/at/all"]), "cannot open /nowhere/at/all: ");
    }
}

#[test]
fn the_example_counts_lines() {
    let file = ScratchFile::new("one\ntwo three\n\n".repeat(300_000));
    Program::each_way("lines", "examples/lines.c", [file.path()], |output| prints(&output, "900000\n"));
}

#[test]
fn the_example_adds_up_a_file_in_a_shuffled_order() {
    let bytes: Vec<u8> = (0..5_000_000_u32).map(|at| (at % 251) as u8).collect();
    let sum: u64 = bytes.iter().map(|&byte| u64::from(byte)).sum();
    let (file, empty) = (ScratchFile::new(bytes), ScratchFile::new(""));
    Program::each_way("shuffled", "examples/shuffled.c", [file.path()], |output| {
        prints(&output, &format!("{sum}\n"));
    });
    if let Some(program) = Program::new("shuffled", "examples/shuffled.c", Linked::Static) {
        prints(&program.run([empty.path()]), "0\n");
    }
}

#[test]
fn the_example_finds_the_most_frequent_bytes_in_cpp() {
    let file = ScratchFile::new("cabbage".repeat(100_000));
    Program::each_way("frequencies", "examples/frequencies.cpp", [file.path()], |output| {
        prints(&output, "a 200000\nb 200000\nc 100000\ne 100000\ng 100000\n");
    });
    if let Some(program) = Program::new("frequencies", "examples/frequencies.cpp", Linked::Static) {
        refuses(&program.run(["/nowhere/at/all"]), "cannot open /nowhere/at/all: ");
    }
}

#[test]
fn the_examples_of_tasks_compare_files_in_c_and_count_words_in_cpp() {
    let directory = Scratch::new("capi-tasks");
    let one = directory.file("one", "so happy\n");
    let (same, other) = (directory.file("same", "so happy\n"), directory.file("other", "so sappy\n"));
    Program::each_way("equal", "examples/equal.c", [&one, &same], |output| prints(&output, "equal\n"));
    Program::each_way("words", "examples/words.cpp", [&one, &same, &other], |output| prints(&output, "6\n"));
    if let Some(program) = Program::new("equal", "examples/equal.c", Linked::Static) {
        prints(&program.run([&one, &other]), "different\n");
        refuses(
            &program.run([&one, &directory.path("none")]),
            "the task `read` failed: its function returned ",
        );
    }
    if let Some(program) = Program::new("words", "examples/words.cpp", Linked::Static) {
        prints(&program.run::<&str>([]), "0\n");
        let missing = directory.path("none");
        refuses(&program.run([&one, &missing]), &format!("the task `{}` failed: ", missing.display()));
    }
}

#[test]
fn the_example_simulates_a_drive() {
    let trace = ScratchFile::new("0.5 0 1000 8 1\n1.5 0 90000 8 0\n9.5 0 1008 8 1\n");
    let words = [trace.path().to_str().unwrap(), "deskstar-7k250", "disksim"];
    Program::each_way("simulate", "examples/simulate.c", words, |output| {
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.starts_with("{\"schema\":\"sakiyomi.sim/"), "{text}");
        assert!(text.contains("\"commands\":3,") && text.ends_with("}\n"), "{text}");
    });
    if let Some(program) = Program::new("simulate", "examples/simulate.c", Linked::Static) {
        let [trace, ..] = words;
        refuses(&program.run([trace, "deskstar", "disksim"]), "no built-in drive is called `deskstar`; ");
        refuses(&program.run(["/nowhere", "deskstar-7k250"]), "cannot open the trace /nowhere: ");
    }
}

#[test]
fn the_examples_are_clean_under_valgrind() {
    const TEST: &str = "the_examples_are_clean_under_valgrind";
    if Command::new("valgrind").arg("--version").output().is_err() {
        return skipped(TEST, "there is no `valgrind`");
    }
    let text = ScratchFile::new("so happy\n".repeat(10_000));
    let trace = ScratchFile::new("0.5 0 1000 8 1\n1.5 0 90000 8 0\n9.5 0 1008 8 1\n");
    let (text, trace) = (text.path().to_str().unwrap(), trace.path().to_str().unwrap());
    for (source, words) in [
        ("words.c", &[text][..]),
        ("lines.c", &[text, text]),
        ("shuffled.c", &[text]),
        ("equal.c", &[text, text]),
        ("equal.c", &[text, "/nowhere/at/all"]),
        ("simulate.c", &[trace, "deskstar-7k250", "disksim"]),
        ("simulate.c", &[trace, "deskstar"]),
        ("frequencies.cpp", &[text]),
        ("words.cpp", &[text, text]),
    ] {
        let Some(program) = Program::new(TEST, &format!("examples/{source}"), Linked::Static) else { return };
        let mut valgrind = Command::new("valgrind");
        // Its own files, beside the program: /tmp may be full.
        valgrind.env("TMPDIR", program.path().parent().unwrap());
        // Threads that read ahead are not awaited at the end: only what is lost for certain is an error.
        valgrind.args(["-q", "--error-exitcode=99", "--leak-check=full", "--show-leak-kinds=definite"]);
        valgrind.args(["--errors-for-leak-kinds=definite"]).arg(program.path()).args(words);
        let output = valgrind.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let expected = if words.contains(&"/nowhere/at/all") || words.contains(&"deskstar") { 2 } else { 0 };
        assert_eq!(output.status.code(), Some(expected), "{source}: {said}");
        assert!(!said.contains("=="), "{source}: {said}");
    }
}
