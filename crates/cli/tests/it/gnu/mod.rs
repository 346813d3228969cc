//! The system's own `wc` and `grep`, if they are GNU's, for comparison with ours.

use std::process::{Command, Output};

use crate::scratch::Scratch;

/// Runs a command in a shell.
pub(crate) fn shell(scratch: &Scratch, locale: &str, command: &str) -> Output {
    let mut shell = Command::new("bash");
    shell.args(["-c", command]).current_dir(&scratch.0).env("LC_ALL", locale);
    shell.output().unwrap()
}

/// Returns its output on stdout, and its exit code.
pub(crate) fn told(output: &Output) -> (String, Option<i32>) {
    (String::from_utf8_lossy(&output.stdout).into_owned(), output.status.code())
}

pub(crate) fn is_gnu(program: &str) -> bool {
    let version = Command::new(program).arg("--version").output();
    let is_gnu = version.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("(GNU "));
    if !is_gnu {
        sakiyomi_testing::skipped("comparisons", format_args!("{program} is not GNU's here"));
    }
    is_gnu
}

/// Asserts that both commands with the same operands write the same bytes to stdout, exit alike, and report errors
/// alike.
pub(crate) fn same(scratch: &Scratch, locale: &str, theirs: &str, ours: &str, operands: &str) {
    let expected = shell(scratch, locale, &format!("{theirs} {operands}"));
    let got = shell(scratch, locale, &format!("'{}' {ours} {operands}", env!("CARGO_BIN_EXE_sakiyomi")));
    let what = format!("{locale}: {theirs} {operands}");
    assert_eq!(told(&got), told(&expected), "{what}");
    assert_eq!(got.stdout, expected.stdout, "{what}");
    let complains = |output: &Output| !output.stderr.is_empty();
    assert_eq!(complains(&got), complains(&expected), "{what}: {}", String::from_utf8_lossy(&got.stderr));
}
