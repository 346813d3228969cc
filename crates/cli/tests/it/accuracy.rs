//! The table in `docs/accuracy.md`: made by the command on the measured drives, and kept true.
//!
//! `ACCURACY_UPDATE=1 cargo test -p sakiyomi --test it accuracy` writes it anew.

use std::fmt::Write as _;
use std::fs;

use crate::scratch::{Scratch, json, repository};
use serde_json::Value;

/// A measured drive; its trace; and DiskSim's root mean square on it, in milliseconds.
const DRIVES: [(&str, &str, f64); 5] = [
    ("atlas_III", "traces/disksim/atlas_III.trace.gz", 0.378),
    ("barracuda", "traces/disksim/barracuda.trace.gz", 0.348),
    ("cheetah9LP", "traces/cheetah9LP.trace.gz", 0.107),
    ("hp_c2247a", "traces/disksim/hp_c2247a.trace.gz", 0.089),
    ("hp_c2490a", "traces/disksim/hp_c2490a.trace.gz", 0.254),
];
/// The table stands between these lines.
const BEGIN: &str = "<!-- validate: begin -->\n";
const END: &str = "<!-- validate: end -->";

fn number(result: &Value, path: &str) -> f64 {
    result.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path} is missing"))
}

fn validate(scratch: &Scratch, drive: &str, trace: &str) -> Value {
    let drive = repository(&format!("traces/disksim/{drive}.diskspecs"));
    let words = format!("validate {} --drive {drive} --json --quiet", repository(trace));
    json(&scratch.ok(&words))["result"].take()
}

#[test]
fn the_table_of_measured_drives_is_true_and_no_drive_is_worse_than_disksims() {
    let scratch = Scratch::new("accuracy");
    let mut table = String::from(
        "| drive | mean, measured → simulated | DiskSim's rms | rms | in its bins | of the mean | error of a request: median, mean, p90 | correlation | anchored: median, mean, p90 | phase foretold |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
    );
    for (drive, trace, published) in DRIVES {
        let result = validate(&scratch, drive, trace);
        let ms = |path: &str| number(&result, path) / 1e6;
        let errors = |replay: &str| {
            ["median", "mean", "p90"]
                .map(|figure| format!("{:.3}", ms(&format!("/{replay}/request_error_ns/{figure}"))))
                .join(", ")
        };
        writeln!(
            table,
            "| {drive} | {:.3} → {:.3} | {published:.3} | {:.3} | {:.3} | {:.1} % | {} | {:.3} | {} | {:.2} |",
            ms("/measured_response_ns/mean"),
            ms("/free/simulated_response_ns/mean"),
            ms("/free/rms_ns"),
            ms("/free/binned_rms_ns"),
            number(&result, "/free/rms_ratio") * 100.0,
            errors("free"),
            number(&result, "/free/correlation"),
            errors("anchored"),
            number(&result, "/spindle_coherence"),
        )
        .unwrap();
        for way in ["/free/rms_ns", "/free/binned_rms_ns"] {
            assert!(ms(way) <= published, "{drive} {way}: {} is more than DiskSim's {published}", ms(way));
        }
    }
    let document = repository("docs/accuracy.md");
    let text = fs::read_to_string(&document).unwrap();
    let begin = text.find(BEGIN).expect("the table's begin") + BEGIN.len();
    let end = text.find(END).expect("the table's end");
    if std::env::var_os("ACCURACY_UPDATE").is_some() {
        fs::write(&document, format!("{}{table}{}", &text[..begin], &text[end..])).unwrap();
    } else {
        assert_eq!(&text[begin..end], table, "run with ACCURACY_UPDATE=1 to write it anew, and look at it");
    }
}

#[test]
fn reads_are_hits_and_misses_as_the_hp_c2247a_labelled_them() {
    let scratch = Scratch::new("accuracy_labels");
    let result = validate(&scratch, "hp_c2247a", "traces/disksim/hp_c2247a.trace.gz");
    let agreement = number(&result, "/labels/free/agreement_ratio");
    assert!(agreement >= 0.995, "{agreement}");
    let hits = number(&result, "/labels/free/hit_error_ns/median") / 1e6;
    assert!(hits < 0.1, "{hits} ms");
}
