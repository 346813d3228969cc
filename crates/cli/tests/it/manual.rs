//! Manual pages render without warnings, if a renderer is installed.

use std::process::{Command, Output};

use sakiyomi_testing::skipped;

use crate::scratch::Scratch;

/// Runs `words` on each page of a directory; `None` if the program is not installed.
fn on_each_page(scratch: &Scratch, words: &[&str]) -> Option<Vec<(String, Output)>> {
    scratch.ok("man --out pages");
    let mut outputs = Vec::new();
    for name in scratch.names("pages") {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).arg(scratch.0.join("pages").join(&name)).current_dir(&scratch.0);
        command.env("LC_ALL", "C.UTF-8").env("MANWIDTH", "100").env("HOME", &scratch.0);
        outputs.push((name, command.output().ok()?));
    }
    Some(outputs)
}

#[test]
fn mandoc_finds_nothing_to_warn_of() {
    let scratch = Scratch::new("manual_mandoc");
    let Some(outputs) = on_each_page(&scratch, &["mandoc", "-Tlint", "-W", "warning"]) else {
        return skipped("mandoc_finds_nothing", "needs mandoc");
    };
    for (name, output) in outputs {
        let said = String::from_utf8_lossy(&output.stdout);
        // A build outside a git checkout has no date.
        let warnings: Vec<&str> = said.lines().filter(|line| !line.contains("missing date")).collect();
        assert!(warnings.is_empty(), "{name}: {warnings:?}");
    }
}

#[test]
fn man_shows_each_page_without_a_warning() {
    let scratch = Scratch::new("manual_man");
    let is_man_db = |output: Output| String::from_utf8_lossy(&output.stdout).starts_with("man 2");
    if !Command::new("man").arg("--version").output().is_ok_and(is_man_db) {
        return skipped("man_shows_each_page", "needs man-db");
    }
    let Some(outputs) = on_each_page(&scratch, &["man", "--warnings", "-l"]) else { return };
    for (name, output) in outputs {
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{name}: {said}");
        let page = String::from_utf8_lossy(&output.stdout).into_owned();
        for section in ["NAME", "SYNOPSIS", "EXAMPLES", "SEE ALSO"] {
            assert!(page.contains(section), "{name} has no {section}: {page}");
        }
    }
}

#[test]
fn the_page_of_one_command_is_printed() {
    let scratch = Scratch::new("manual_one");
    assert!(scratch.ok("man trace convert").starts_with(".TH \"SAKIYOMI-TRACE-CONVERT\" \"1\""));
    let said = scratch.refused("man trace convrt");
    assert!(said.contains("`trace convrt` is not a command; did you mean convert?"), "{said}");
}

#[test]
fn help_is_that_of_the_command_and_the_options_of_every_command_stand_on_their_own_page() {
    let scratch = Scratch::new("manual_help");
    for command in ["", "sim", "trace", "trace convert", "grep"] {
        assert_eq!(scratch.ok(&format!("help {command}")), scratch.ok(&format!("{command} --help")));
    }
    let options = scratch.ok("help options");
    for text in ["--json\n", "-q, --quiet\n", "--color <WHEN>\n", "Always\n"] {
        assert!(options.contains(text), "{text}: {options}");
        assert!(!scratch.ok("sim --help").contains(text), "{text}");
    }
    let said = scratch.refused("help trace convrt");
    assert!(said.contains("`trace convrt` is not a command; did you mean convert?"), "{said}");
}
