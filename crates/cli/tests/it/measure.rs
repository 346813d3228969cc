//! `drive measure`: timed reads of a file.

use std::fs::File;

use crate::scratch::{Scratch, json};
use serde_json::Value;

#[test]
fn a_file_that_is_not_on_a_disk_gets_a_fixed_model() {
    let scratch = Scratch::new("measure");
    // Nothing is stored, so reads take no time on a disk either.
    File::create(scratch.0.join("holes")).unwrap().set_len(128 << 20).unwrap();
    let words = "drive measure holes --time 20s --json --quiet -o model";
    let output = scratch.run(words);
    let said = String::from_utf8(output.stderr).unwrap();
    if said.contains("Invalid argument") {
        sakiyomi_testing::skipped("drive measure", "the file system does not support direct I/O");
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{said}");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["schema"], "sakiyomi.drive-measure/2");
    let result = &found["result"];
    assert_eq!((&result["is_disk"], &result["rotation"]), (&Value::Bool(false), &Value::Null));
    assert_eq!(
        (result["size_bytes"].as_u64(), result["sizes"].as_array().unwrap().len()),
        (Some(128 << 20), 6)
    );
    let model = result["fixed"].as_str().unwrap();
    assert!(model.starts_with("fixed:latency="), "{model}");
    let written = std::fs::read_to_string(scratch.0.join("model")).unwrap();
    assert_eq!(written.trim_end(), model);
    // Other commands accept it.
    let scenario = format!("name = 's'\ndrive.fixed = '{model}'\n[[process]]\nname = 'p'\nsize = '1MiB'\n");
    scratch.file("small.toml", scenario);
    json(&scratch.ok("scenario run small.toml --json"));
}

#[test]
fn what_was_measured_is_printed_though_it_does_not_suffice_for_a_drive() {
    let scratch = Scratch::new("measure_short");
    File::create(scratch.0.join("holes")).unwrap().set_len(128 << 20).unwrap();
    let words = "drive measure holes --time 1ms --quiet -o model";
    let output = scratch.run(&format!("{words} --json"));
    let said = String::from_utf8(output.stderr).unwrap();
    if said.contains("Invalid argument") {
        sakiyomi_testing::skipped("drive measure", "the file system does not support direct I/O");
        return;
    }
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert_eq!(said, "sakiyomi: holes: it is not known whether this is a disk; give more --time\n");
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["result"]["is_disk"], Value::Null);
    let output = scratch.run(words);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("holes: it is not known whether this is a disk"), "{text}");
    assert!(!scratch.0.join("model").exists());
}

#[test]
fn what_is_too_small_or_missing_is_refused() {
    let scratch = Scratch::new("measure_refused");
    scratch.file("small", "x".repeat(4096));
    let said = scratch.refused("drive measure small");
    assert!(
        said.contains("too small to tell a disk from its cache") || said.contains("Invalid argument"),
        "{said}"
    );
    assert!(scratch.refused("drive measure missing").contains("missing"));
}
