//! Commands of others: `sakiyomi NAME` runs `sakiyomi-NAME` of PATH.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use crate::scratch::Scratch;

fn program(scratch: &Scratch, name: &str, content: &str) {
    scratch.file(name, content);
    fs::set_permissions(scratch.0.join(name), Permissions::from_mode(0o755)).unwrap();
}

fn run(scratch: &Scratch, words: &[&str]) -> Output {
    let directories = ["first", "second"].map(|name| scratch.0.join(name).display().to_string());
    let path = format!("{}:{}", directories.join(":"), std::env::var("PATH").unwrap());
    Command::new(env!("CARGO_BIN_EXE_sakiyomi"))
        .args(words)
        .env("PATH", path)
        .current_dir(&scratch.0)
        .output()
        .unwrap()
}

#[test]
fn a_name_that_is_not_ours_is_a_program_of_path_with_the_remaining_arguments() {
    let scratch = Scratch::new("external");
    for name in ["first", "second"] {
        fs::create_dir(scratch.0.join(name)).unwrap();
    }
    let says = |who: &str| format!("#!/bin/sh\necho {who} \"$@\"\nexit 7\n");
    program(&scratch, "second/sakiyomi-tell", &says("second"));
    // Neither of these is a program: the next directory has one.
    scratch.file("first/sakiyomi-tell", "");
    fs::create_dir(scratch.0.join("first/sakiyomi-other")).unwrap();
    program(&scratch, "second/sakiyomi-other", &says("other"));
    let told = run(&scratch, &["tell", "--json", "a b", "--help", "-x"]);
    assert_eq!(String::from_utf8_lossy(&told.stdout), "second --json a b --help -x\n");
    assert_eq!(told.status.code(), Some(7));
    assert!(told.stderr.is_empty());
    assert_eq!(run(&scratch, &["other"]).stdout, b"other\n");
    program(&scratch, "first/sakiyomi-tell", &says("first"));
    assert_eq!(run(&scratch, &["tell"]).stdout, b"first\n");
    assert_eq!(run(&scratch, &["help", "tell"]).stdout, b"first --help\n");
    // A program that cannot be started is told.
    program(&scratch, "first/sakiyomi-tell", "#!/nowhere/interpreter\n");
    let told = run(&scratch, &["tell"]);
    let said = String::from_utf8(told.stderr).unwrap();
    assert!(said.starts_with("sakiyomi: cannot start ") && said.contains("first/sakiyomi-tell"), "{said}");
    assert_eq!(told.status.code(), Some(2));
}

#[test]
fn built_in_names_options_and_paths_are_never_programs_of_others() {
    let scratch = Scratch::new("external_never");
    fs::create_dir_all(scratch.0.join("first/sakiyomi-x")).unwrap();
    let script = "#!/bin/sh\necho ran\n";
    for name in ["sweep", "stream", "--frob", "-x", "foo", "frobnicate.sh"] {
        program(&scratch, &format!("first/sakiyomi-{name}"), script);
    }
    program(&scratch, "first/sakiyomi-x/y", script);
    // The usual errors: a wrong option, a name below a command, an option, a path, and a name after an option.
    for (words, sentence) in [
        (&["sweep", "--frob"][..], "unexpected argument '--frob'"),
        (&["stream", "foo"], "unrecognized subcommand 'foo'"),
        (&["--frob"], "unexpected argument '--frob'"),
        (&["x/y"], "unrecognized subcommand 'x/y'"),
        (&["--json", "foo"], "unrecognized subcommand 'foo'"),
        (&["swep"], "a similar subcommand exists: 'sweep'"),
        (&["help", "swep"], "`swep` is not a command; did you mean sweep?"),
        (&[""], "unrecognized subcommand ''"),
    ] {
        let output = run(&scratch, words);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.stdout.is_empty() && said.contains(sentence), "{words:?}: {said}");
        assert_eq!(output.status.code(), Some(2), "{words:?}");
    }
    assert_eq!(run(&scratch, &["foo"]).stdout, b"ran\n");
    let help = String::from_utf8(run(&scratch, &["--help"]).stdout).unwrap();
    assert!(help.contains("sakiyomi-NAME from PATH"), "{help}");
}
