//! DiskSim's drives as files that a user names: imported, and used directly.

use std::fs;

use crate::scratch::{Scratch, json, repository};

/// Each drive of `traces/disksim`, and the files that it consists of.
const DRIVES: [(&str, &[&str]); 5] = [
    ("atlas_III", &["atlas_III.diskspecs", "atlas_III.parv", "atlas_III.model", "atlas_III.seek"]),
    ("barracuda", &["barracuda.diskspecs", "barracuda.parv", "barracuda.model", "barracuda.seek"]),
    ("cheetah9LP", &["cheetah9LP.diskspecs", "cheetah9LP.parv", "cheetah9LP.model", "cheetah9LP.seek"]),
    ("hp_c2247a", &["hp_c2247a.diskspecs", "hp_c2247a.parv", "hp_c2247a_validate.model"]),
    (
        "hp_c2490a",
        &["hp_c2490a.diskspecs", "hp_c2490a.parv", "hp_c2490a_validate.model", "hp_c2490a_validate.seek"],
    ),
];

fn measured(file: &str) -> String {
    repository(&format!("traces/disksim/{file}"))
}

/// Returns a directory with the files of the Cheetah, to be modified.
fn cheetah(test: &str) -> Scratch {
    let scratch = Scratch::new(test);
    for file in DRIVES[2].1 {
        scratch.file(file, fs::read(measured(file)).unwrap());
    }
    scratch
}

fn lines(stderr: &[u8], begin: &str) -> Vec<String> {
    let text = String::from_utf8_lossy(stderr);
    text.lines().filter_map(|line| line.strip_prefix(begin)).map(str::to_owned).collect()
}

#[test]
fn an_imported_drive_is_the_drive_of_the_files() {
    let scratch = Scratch::new("import_equal");
    for (name, files) in DRIVES {
        let [disk, system] = ["diskspecs", "parv"].map(|ending| measured(&format!("{name}.{ending}")));
        let output = scratch.run(&format!("drive import {disk}"));
        assert!(output.status.success(), "{name}");
        let read: Vec<String> = files.iter().map(|file| measured(file)).collect();
        assert_eq!(lines(&output.stderr, "drive: "), [read.join(", ")]);
        scratch.file("imported.toml", &output.stdout);
        let imported = scratch.ok("drive show imported.toml");
        assert_eq!(imported.as_bytes(), output.stdout, "{name}");
        for of in [&disk, &system] {
            assert_eq!(scratch.ok(&format!("drive show {of}")), imported, "{of}");
        }
        let shown = |drive: &str| json(&scratch.ok(&format!("drive show {drive} --json")));
        assert_eq!(shown(&disk), shown("imported.toml"), "{name}");
        let document = json(&scratch.ok(&format!("drive import {disk} --json")));
        assert_eq!(document["schema"], "sakiyomi.drive-import/2");
        assert_eq!(document["result"]["drive"], shown(&disk)["result"], "{name}");
        let warnings = document["result"]["warnings"].as_array().unwrap();
        assert_eq!(serde_json::json!(lines(&output.stderr, "warning: ")), serde_json::json!(warnings));
        assert_eq!(document["result"]["files"].as_array().unwrap().len(), files.len());
        let explained = scratch.ok(&format!("drive show {disk} --explain"));
        let values = explained.lines().filter(|line| !line.starts_with(' '));
        assert!(values.into_iter().all(|line| line.chars().count() < 250), "{name}: a list fills the screen");
    }
}

#[test]
fn a_drive_of_disksim_s_is_simulated_under_the_name_of_its_file() {
    let scratch = Scratch::new("import_sim");
    let (trace, drive) = (repository("traces/cheetah9LP.trace.gz"), measured("cheetah9LP.diskspecs"));
    let on =
        |drive: &str| json(&scratch.ok(&format!("sim {trace} --drive {drive} --json")))["result"].clone();
    scratch.ok(&format!("drive import {drive} --out imported.toml"));
    let simulated = on(&drive);
    assert_eq!(simulated, on("imported.toml"));
    assert_eq!(simulated["commands"], 10_000);
    let judged = json(&scratch.ok(&format!("validate {trace} --drive {drive} --json")));
    assert_eq!(judged["result"]["drive"], "SEAGATE_ST39102LW_validate");
}

#[test]
fn warnings_are_told_once_and_not_to_whom_wants_quiet() {
    let scratch = Scratch::new("import_warnings");
    scratch.ok("trace generate random few.csv --count 20 --span 1GB");
    let drive = measured("cheetah9LP.diskspecs");
    let told = |words: &str| {
        let output = scratch.run(&format!("{words} {drive}"));
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
        output.stderr
    };
    let imported = told("drive import");
    assert!(!lines(&imported, "warning: ").is_empty());
    assert_eq!(told("drive show"), imported);
    assert_eq!(told("sim few.csv --drive"), imported);
    assert_eq!(told("sweep few.csv --vary queue.depth=1,2,4 --vary servo.rpm=9000,10000 --drive"), imported);
    for words in ["drive import", "drive show", "sim few.csv --drive"] {
        assert!(told(&format!("--quiet {words}")).is_empty(), "{words}");
    }
}

#[test]
fn the_bus_is_left_out_where_no_file_says_it() {
    let scratch = cheetah("import_no_bus");
    fs::remove_file(scratch.0.join("cheetah9LP.parv")).unwrap();
    let output = scratch.run("drive import cheetah9LP.diskspecs --out alone.toml");
    assert!(output.status.success() && output.stdout.is_empty());
    assert_eq!(lines(&output.stderr, "drive: "), ["cheetah9LP.diskspecs, cheetah9LP.model, cheetah9LP.seek"]);
    assert_eq!(lines(&output.stderr, "written: "), ["alone.toml"]);
    scratch.ok("drive show alone.toml");
}

#[test]
fn what_is_wrong_with_a_file_is_one_sentence_that_names_it_and_leaves_nothing_behind() {
    let tampered = |test: &str, file: &str, tamper: &dyn Fn(&str) -> Option<String>, said: &[&str]| {
        let scratch = cheetah(&format!("import_{test}"));
        match tamper(&fs::read_to_string(scratch.0.join(file)).unwrap()) {
            Some(text) => drop(scratch.file(file, text)),
            None => fs::remove_file(scratch.0.join(file)).unwrap(),
        }
        let before = scratch.names(".");
        for out in ["", "--out new.toml"] {
            let sentence = scratch.refused(&format!("drive import cheetah9LP.diskspecs {out}"));
            assert!(sentence.starts_with("sakiyomi: ") && sentence.lines().count() == 1, "{sentence}");
            assert!(said.iter().all(|said| sentence.contains(said)), "{test}: {sentence}");
        }
        assert_eq!(scratch.names("."), before, "{test}");
        scratch.file("kept.toml", "as it was");
        scratch.refused("drive import cheetah9LP.diskspecs --out kept.toml");
        assert_eq!(fs::read_to_string(scratch.0.join("kept.toml")).unwrap(), "as it was");
    };
    let gone = |_: &str| None;
    tampered(
        "no_model",
        "cheetah9LP.model",
        &gone,
        &["cheetah9LP.diskspecs: line 2: cannot read cheetah9LP.model: the file is missing in the directory"],
    );
    tampered(
        "no_seek",
        "cheetah9LP.seek",
        &gone,
        &["cheetah9LP.model: line ", "cannot read cheetah9LP.seek: the file is missing in the directory"],
    );
    tampered(
        "unknown",
        "cheetah9LP.diskspecs",
        &|text| Some(text.replace("Never disconnect", "Always disconnect")),
        &["cheetah9LP.diskspecs: line 15: ", "Always disconnect"],
    );
    tampered("cut", "cheetah9LP.model", &|text| Some(text[..2000].to_owned()), &["cheetah9LP.model: "]);
    tampered("empty", "cheetah9LP.diskspecs", &|_| Some(String::new()), &["cheetah9LP.diskspecs: no block"]);
}

#[test]
fn a_drive_of_another_name_takes_its_place_with_a_warning() {
    let scratch = cheetah("import_other_name");
    let before = scratch.ok("drive import cheetah9LP.diskspecs");
    let parameters = fs::read_to_string(scratch.0.join("cheetah9LP.parv")).unwrap();
    scratch.file("cheetah9LP.parv", parameters.replace("SEAGATE_ST39102LW_validate", "OTHER"));
    let output = scratch.run("drive import cheetah9LP.diskspecs");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), before);
    let told = String::from_utf8(output.stderr).unwrap();
    let warning = "warning: instantiate … as OTHER: the drive's file calls it SEAGATE_ST39102LW_validate";
    assert!(output.status.success() && told.contains(warning), "{told}");
}

#[test]
fn files_that_cannot_be_read_or_written_are_named() {
    let scratch = cheetah("import_files");
    let missing = scratch.refused("drive import missing.diskspecs");
    assert!(missing.contains("cannot read the drive missing.diskspecs"), "{missing}");
    assert!(scratch.refused("sim x --drive missing.parv").contains("missing.parv"));
    scratch.file("drive.toml", scratch.ok("drive show deskstar-7k250"));
    assert!(scratch.refused("drive import drive.toml").contains("drive.toml: the file is TOML already"));
    let nowhere = scratch.refused("drive import cheetah9LP.diskspecs --out no/such.toml");
    assert!(nowhere.starts_with("sakiyomi: cannot write no/such.toml"), "{nowhere}");
    scratch.file("latin.diskspecs", b"# 5 \xb5s\n");
    assert!(scratch.refused("drive import latin.diskspecs").contains("latin.diskspecs"));
}
