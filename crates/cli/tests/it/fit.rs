//! `drive fit`: a drive from a trace of measured times, judged on the part that it was not fitted to.

use std::fmt::Write as _;
use std::fs;

use crate::scratch::{Scratch, json};

const SMALL: &str = r#"
name = "small"
cache.write.enabled = false
[geometry]
sector = "512B"
heads = 4
zones = [{ cylinders = 1000, sectors_per_track = 300 }]
[servo]
rpm = 7200
head_switch = "1ms"
seek = { curve = "datasheet", track_to_track = "1ms", average = "8ms", full_stroke = "16ms" }
"#;

/// Returns reads and writes all over the drive, each with a time unlike that of the unfitted drive.
fn measured() -> String {
    let mut trace = String::new();
    for number in 0..480u64 {
        let place = number * 7_919_003 % 1_100_000;
        let (op, service) = if number % 3 == 0 { ("W", 19_000) } else { ("R", 14_000) };
        writeln!(trace, "{op} Hit {place} 8 {}.0 9000.0", service + number * 37 % 8_000).unwrap();
    }
    trace
}

#[test]
fn a_fitted_drive_is_nearer_on_the_part_that_was_not_used() {
    let scratch = Scratch::new("fit");
    let trace = scratch.file("measured.trace", measured());
    let drive = scratch.file("small.toml", SMALL);
    let words = format!("drive fit {trace} --drive {drive} --quiet");
    let found = json(&scratch.ok(&format!("{words} --out fitted.toml --json")));
    assert_eq!(found["schema"], "sakiyomi.drive-fit/3");
    let result = &found["result"];
    let count = |which: &str| result[which].as_u64().unwrap();
    assert_eq!(count("fitted") + count("judged"), 480);
    assert!((200..280).contains(&count("fitted")), "half of the time");
    let rms = |which: &str| result[which]["rms_ns"].as_f64().unwrap();
    assert!(rms("after") < rms("before") / 2.0, "{} {}", rms("before"), rms("after"));
    assert!(!result["changes"].as_array().unwrap().is_empty());
    assert_eq!(result["is_gain"], true);
    assert_ne!(result["accepted"], "given");
    let trials = result["trials"].as_array().unwrap();
    assert_eq!(trials[0]["step"], "given");
    assert!(
        trials.iter().all(|trial| trial["requests"].as_u64().unwrap().abs_diff(count("fitted") / 4) <= 1)
    );
    let of = |list: &str, key: &str| {
        let all = result[list].as_array().unwrap();
        all.iter().find(|one| one["key"] == key).unwrap_or_else(|| panic!("{key}: {all:?}")).clone()
    };
    // No request reads data that another request has read.
    let hits = of("parameters", "interface.overhead.read_hit");
    let reason = "no request depends on it; add reads of sectors that are in the buffer, of several sizes";
    assert_eq!((hits["identified"].as_bool(), hits["reason"].as_str()), (Some(false), Some(reason)));
    assert_eq!((hits["samples"].as_u64(), &hits["from"], hits["low"].as_str()), (Some(0), &hits["to"], None));
    let policy = of("policies", "cache.segments.count");
    assert_eq!((policy["identified"].as_bool(), policy["samples"].as_u64()), (Some(false), Some(0)));
    let parameters = result["parameters"].as_array().unwrap();
    assert!(
        parameters
            .iter()
            .any(|one| one["identified"] == true && one["low"].is_string() && one["reason"].is_null()),
        "{parameters:?}"
    );

    // The file is a drive, and `validate` reports the same for it.
    let from = result["fit_until_ns"].as_u64().unwrap();
    let judged = format!("validate {trace} --drive fitted.toml --from {from}ns --json --quiet");
    let judged = json(&scratch.ok(&judged));
    assert_eq!(judged["result"]["free"]["rms_ns"], result["after"]["rms_ns"]);

    let text = scratch.ok(&format!("{words} --require-gain"));
    assert!(text.contains("before") && text.contains("held-out part"), "{text}");
    assert!(
        text.starts_with("The fitted drive is more accurate on the held-out part of the trace"),
        "{text}"
    );
    assert!(text.contains("not identified: no request depends on it; add"), "{text}");
}

#[test]
fn a_fit_that_does_not_hold_for_the_last_requests_is_refused_and_nothing_is_written() {
    let scratch = Scratch::new("fit_refusal");
    let drive = scratch.file("small.toml", SMALL);
    // The last quarter of the fitted part, and all the rest, are served much faster.
    let mut trace = String::new();
    for number in 0..160u64 {
        let service = if number < 60 { 30_000 } else { 4_000 } + number * 37 % 3_000;
        writeln!(trace, "R Hit {} 8 {service}.0 9000.0", number * 7_919_003 % 1_100_000).unwrap();
    }
    let trace = scratch.file("changing.trace", trace);
    let words = format!("drive fit {trace} --drive {drive} --quiet --fit-until 2700ms -o fitted.toml");
    let refused = scratch.run(&words);
    let (text, said) =
        (String::from_utf8(refused.stdout).unwrap(), String::from_utf8(refused.stderr).unwrap());
    assert_eq!(refused.status.code(), Some(1), "{text} {said}");
    assert!(text.starts_with("The fit is refused: no step explains the last"), "{text}");
    assert!(
        said.starts_with("sakiyomi: the fit is refused:") && said.contains("fitted.toml is not written"),
        "{said}"
    );
    assert!(!fs::exists(scratch.0.join("fitted.toml")).unwrap());
}

#[test]
fn a_trace_of_cache_hits_says_nothing_of_the_spindle() {
    let scratch = Scratch::new("fit_hits");
    let drive = scratch.file("small.toml", SMALL);
    let mut trace = String::new();
    for number in 0..240u64 {
        writeln!(trace, "R Hit 0 8 {}.0 9000.0", 300 + number * 37 % 50).unwrap();
    }
    let trace = scratch.file("hits.trace", trace);
    let words = format!("drive fit {trace} --drive {drive} --quiet");
    let text = String::from_utf8(scratch.run(&words).stdout).unwrap();
    assert!(!text.is_empty() && !text.contains("spindle"), "{text}");
    let found = json(std::str::from_utf8(&scratch.run(&format!("{words} --json")).stdout).unwrap());
    let result = &found["result"];
    assert!(result["spindle_accesses"].as_u64().unwrap() < 3, "{}", result["spindle_accesses"]);
    assert_eq!(result["spindle_coherence"], 0.0);
}

#[test]
fn a_fit_that_makes_the_rest_worse_says_so_first_and_fails_where_a_gain_is_required() {
    let scratch = Scratch::new("fit_worse");
    // The second half is served much faster than the first.
    let mut trace = String::new();
    for number in 0..240u64 {
        let place = number * 7_919_003 % 1_100_000;
        let service = if number < 120 { 30_000 } else { 4_000 } + number * 37 % 8_000;
        writeln!(trace, "R Hit {place} 8 {service}.0 9000.0").unwrap();
    }
    let trace = scratch.file("changing.trace", trace);
    let drive = scratch.file("small.toml", SMALL);
    let words = format!("drive fit {trace} --drive {drive} --quiet --fit-until 5200ms --out fitted.toml");
    let required = scratch.run(&format!("{words} --require-gain"));
    let (text, said) =
        (String::from_utf8(required.stdout).unwrap(), String::from_utf8(required.stderr).unwrap());
    assert_eq!(required.status.code(), Some(1), "{said}");
    assert!(
        text.starts_with("The fitted drive is LESS ACCURATE on the held-out part of the trace"),
        "{text}"
    );
    assert!(
        text.replace('\n', " ").contains("The times do not follow the phase of this drive's spindle"),
        "{text}"
    );
    assert!(said.starts_with("sakiyomi: --require-gain: the fitted drive is LESS ACCURATE"), "{said}");
    assert!(!fs::exists(scratch.0.join("fitted.toml")).unwrap());
    let result = json(&scratch.ok(&format!("{words} --json")))["result"].clone();
    assert_eq!(result["is_gain"], false);
    assert!(fs::exists(scratch.0.join("fitted.toml")).unwrap(), "it is written unless a gain is required");
}

#[test]
fn a_fit_is_not_judged_on_what_it_was_fitted_to() {
    let scratch = Scratch::new("fit_refused");
    let trace = scratch.file("measured.trace", measured());
    let refused = |rest: &str| {
        scratch.refused(&format!("drive fit {trace} --drive deskstar-7k250 --out fitted.toml {rest}"))
    };
    assert!(refused("--fit-share 1").contains("expected a share between 0 and 1"));
    assert!(refused("--fit-share nan").contains("expected a share between 0 and 1"));
    assert!(refused("--fit-until 1h").contains("a fit needs requests on both sides"));
    assert!(refused("--fit-until 0").contains("on one side of"));
    assert!(!fs::exists(scratch.0.join("fitted.toml")).unwrap());
    assert_eq!(scratch.names("."), ["measured.trace"]);
}
