//! `profile`, and what `run` learns: the next start of a command is prefetched from it.

use std::fs;
use std::process::{Command, Output};

use crate::fuse::can_mount;
use crate::scratch::{Scratch, json};
use crate::slow::{Slow, command};
use sakiyomi_testing::unless_too_busy;
use serde_json::Value;

/// Runs `sakiyomi profile` with a cache directory of the test's own.
fn profile(scratch: &Scratch, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sakiyomi"));
    command.arg("profile").args(words).current_dir(&scratch.0).env("XDG_CACHE_HOME", scratch.0.join("cache"));
    command.output().unwrap()
}

fn printed(scratch: &Scratch, words: &[&str]) -> String {
    let output = profile(scratch, words);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn refused(scratch: &Scratch, words: &[&str]) -> String {
    let output = profile(scratch, words);
    assert_eq!(output.status.code(), Some(2), "{words:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("sakiyomi: ") && said.lines().count() == 1, "{said}");
    said
}

#[test]
fn without_profiles_the_list_is_empty_and_the_rest_is_refused() {
    let scratch = Scratch::new("profile_none");
    assert!(printed(&scratch, &["list"]).starts_with("No profiles yet"));
    assert_eq!(json(&printed(&scratch, &["list", "--json"]))["result"], Value::Array(Vec::new()));
    for words in [&["show", "x"][..], &["save", "x", "file"], &["forget", "x"], &["forget", "../x"]] {
        assert!(refused(&scratch, words).contains("no profile"), "{words:?}");
    }
    assert!(!scratch.0.join("file").exists());
    assert_eq!(printed(&scratch, &["forget", "--all"]), "");
    scratch.file("text", "no profile");
    assert!(refused(&scratch, &["load", "text"]).contains("cannot load text"));
    assert!(refused(&scratch, &["load", "missing"]).contains("cannot load missing"));
}

#[test]
fn a_command_that_waits_for_many_files_is_learned_and_its_profile_can_be_copied() {
    const FILES: usize = 40;
    let test = "a_command_that_waits_for_many_files";
    if !can_mount(test) {
        return;
    }
    let scratch = Scratch::new("profile_learned");
    let names: Vec<String> =
        (0..FILES).map(|index| format!("{:x}", (index as u32).wrapping_mul(0x9e37_79b9))).collect();
    let files: Vec<(&str, usize)> = names.iter().map(|name| (name.as_str(), 20_000)).collect();
    scratch.file("order", "any bytes, always the same ones".repeat(1000));
    let run = |options: &str| -> Value {
        // The files are cold on each new mount.
        let slow = Slow::new(&scratch, &files);
        // One process for each file, in an order that cannot be predicted.
        let reads =
            "for name in $(ls slow | sort -R --random-source=order); do cat slow/$name; done > /dev/null";
        let mut command = command(&scratch, &format!("{options} --json"), &["sh", "-c", reads]);
        let output = command.env("XDG_CACHE_HOME", scratch.0.join("cache")).output().unwrap();
        assert!(output.status.success());
        drop(slow);
        json(&String::from_utf8(output.stderr).unwrap())["result"].clone()
    };
    assert!(run("--no-learn")["learned"].is_null());
    assert!(printed(&scratch, &["list"]).starts_with("No profiles yet"));
    unless_too_busy(|| {
        let first = run("--learn");
        let name = first["learned"]["profile"].as_str().ok_or("nothing was learned")?.to_owned();
        let listed = json(&printed(&scratch, &["list", "--json"]))["result"][0].clone();
        assert_eq!(listed["name"], name);
        assert_eq!(listed["command"][0], "sh");
        let shown = printed(&scratch, &["show", &name]);
        assert!(shown.lines().count() as u64 == listed["entries"].as_u64().unwrap(), "{shown}");
        // Copied away, forgotten, and loaded again.
        printed(&scratch, &["save", &name, "copy.json"]);
        printed(&scratch, &["forget", &name]);
        assert!(refused(&scratch, &["show", &name]).contains("no profile"));
        printed(&scratch, &["load", "copy.json"]);
        assert_eq!(printed(&scratch, &["show", &name]), shown);
        let second = run("");
        let replayed = second["learned"]["replayed_entries"].as_u64().unwrap_or(0);
        fs::remove_dir_all(scratch.0.join("cache")).unwrap();
        if replayed >= FILES as u64 / 2 { Ok(()) } else { Err(format!("{first} then {second}")) }
    });
}
