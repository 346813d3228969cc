//! The command `sakiyomi-ballista`, and the commands of its page.

use std::process::Command;

use sakiyomi_testing::Scratch;

fn refused(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_sakiyomi-ballista")).args(arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn bad_input_is_one_sentence_and_exit_code_2() {
    let scratch = Scratch::new("ballista_arguments");
    let missing = scratch.path("missing");
    let missing = missing.to_str().unwrap();
    let directory = scratch.root().to_str().unwrap();
    for (arguments, text) in [
        (&["executor", "--work-dir", missing][..], "it is not a directory"),
        (&["executor", "--work-dir", directory, "--spill", missing], "--spill"),
        (&["executor", "--work-dir", directory, "--bind", "127.0.0.1:65535"], "there is no next port"),
        (&["query", "--set", "datafusion.no.such=1", "SELECT 1"], "--set datafusion.no.such=1"),
        (&["query", "--scheduler", "127.0.0.1:1", "SELECT 1"], "error"),
        (&["scheduler", "--bind", "192.0.2.1:50050"], "the scheduler at 192.0.2.1:50050 has ended"),
    ] {
        let message = refused(arguments);
        assert!(message.contains(text), "{arguments:?}: {message}");
        let sentences = message.lines().filter(|line| line.starts_with("error: ")).count();
        assert_eq!(sentences, 1, "{arguments:?}: {message}");
    }
    assert!(
        refused(&["executor", "--work-dir", directory, "--method", "mmap"]).contains("give read, pread:N")
    );
    assert!(refused(&["query", "--table", "orders", "SELECT 1"]).contains("give NAME=VALUE"));
}
