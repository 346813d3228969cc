//! The progress of `wc` and `grep`, on a pseudo-terminal.

use std::process::{Command, Stdio};

use sakiyomi_testing::{can_mount, has_terminals};

use crate::scratch::Scratch;
use crate::slow::Slow;

/// Size of a file that takes longer than the time without a bar, at a megabyte each second.
const FILE_BYTES: usize = 1_600_000;

/// Runs a line of the shell on a terminal, in which `sakiyomi` is the command. Returns all that is written there.
fn on_a_terminal(scratch: &Scratch, line: &str) -> String {
    let line = line.replace("sakiyomi", env!("CARGO_BIN_EXE_sakiyomi"));
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "60", "script", "-qec", &format!("stty cols 100; {line}"), "/dev/null"]);
    let output = command.current_dir(&scratch.0).stdin(Stdio::null()).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// The lines that remain on the screen, each without the erased text; the last one may have had a bar only.
fn on_the_screen(shown: &str) -> Vec<&str> {
    shown.lines().map(|line| line.rsplit("\x1b[2K").next().unwrap()).filter(|line| !line.is_empty()).collect()
}

#[test]
fn a_bar_is_below_the_lines_of_wc_and_grep_only_where_it_helps() {
    const TEST: &str = "a_bar_is_below_the_lines";
    if !has_terminals(TEST) || !can_mount(TEST) {
        return;
    }
    let scratch = Scratch::new("progress");
    let names = ["a", "b", "c", "d", "e", "f", "g"];
    let files = names.map(|name| (name, FILE_BYTES));
    let _slow = Slow::on(&scratch, "fixed:latency=1ms,bandwidth=1MB/s", &files);

    let shown = on_a_terminal(&scratch, "sakiyomi wc -c -w slow/a none slow/b /dev/null");
    assert!(shown.contains(" remaining") && shown.contains(" %") && shown.contains(" MiB"), "{shown:?}");
    let expected = [
        "      0 1600000 slow/a",
        "sakiyomi: wc: none: No such file or directory",
        "      0 1600000 slow/b",
        "      0       0 /dev/null",
        "      0 3200000 total",
    ];
    assert_eq!(on_the_screen(&shown), expected, "{shown:?}");

    let shown = on_a_terminal(&scratch, "sakiyomi grep -c x slow/c");
    assert!(shown.contains(" remaining"), "{shown:?}");
    assert_eq!(on_the_screen(&shown), ["0"], "{shown:?}");

    // Suppressed; standard error is not a terminal; an input without a size.
    for line in [
        "sakiyomi wc -w slow/d --quiet",
        "sakiyomi wc -w slow/e 2>err",
        "sakiyomi grep -q x slow/f",
        "cat slow/g | sakiyomi wc -w",
    ] {
        let shown = on_a_terminal(&scratch, line);
        assert!(!shown.contains('\x1b') && shown.lines().count() <= 1, "{line}: {shown:?}");
    }
}
