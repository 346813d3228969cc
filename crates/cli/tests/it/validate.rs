//! `validate` on real and made-up measurements: what a user types, and the output.

use std::fs;

use crate::scratch::{Scratch, json, repository};
use serde_json::Value;

/// Returns the arguments for 10,000 requests to a Seagate ST39102LW, and DiskSim's figures of the drive.
fn cheetah() -> String {
    let [trace, drive] =
        ["traces/cheetah9LP.trace.gz", "traces/disksim/cheetah9LP.diskspecs"].map(repository);
    format!("validate {trace} --drive {drive}")
}

fn number(result: &Value, path: &str) -> f64 {
    result.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path} is missing"))
}

/// Some requests in the format of DiskSim's measured traces.
const LABELED: &str = "R Miss 1000 8 9000.0 1000.0\n\
                        R Hit 1008 8 700.0 1000.0\n\
                        W Doub 5000 8 900.0 1000.0\n\
                        R Hit 1016 8 700.0 1000.0\n\
                        R Miss 900000 8 12000.0 1000.0\n";

#[test]
fn a_measured_drive_gives_the_same_result_each_time_and_figures_that_fit() {
    let scratch = Scratch::new("validate_cheetah");
    let words = format!("{} --json", cheetah());
    let (first, second) = (json(&scratch.ok(&words)), json(&scratch.ok(&words)));
    assert_eq!(first["schema"], "sakiyomi.validate/1");
    assert_eq!(first["result"], second["result"]);
    let result = &first["result"];
    assert_eq!((number(result, "/requests"), number(result, "/judged")), (10_000.0, 10_000.0));
    // The published mean of the measured times.
    assert_eq!((number(result, "/measured_response_ns/mean") / 1e3).round(), 4273.0);
    assert!(result.get("labels").is_none(), "its label is the constant Hit");
    for replay in ["free", "anchored"] {
        let of = |path: &str| number(result, &format!("/{replay}/{path}"));
        let ratio = of("rms_ns") / number(result, "/measured_response_ns/mean");
        assert!((ratio - of("rms_ratio")).abs() < 1e-5 && ratio < 0.5, "{replay}: {ratio}");
        assert!((of("rms_ns") - of("binned_rms_ns")).abs() < 20e3, "{replay}: a bin at 10 ms is 100 µs wide");
        let off = of("simulated_response_ns/mean") - number(result, "/measured_response_ns/mean");
        assert!((off - of("request_error_ns/bias")).abs() <= 1.0, "{replay}");
        let kinds = result[replay]["kinds"].as_array().unwrap();
        let count = |kind: &str| {
            let found = kinds.iter().find(|found| found["kind"] == kind);
            found.and_then(|kind| kind["requests"].as_u64()).unwrap_or_else(|| panic!("{kind}"))
        };
        assert_eq!((count("reads"), count("writes")), (6594, 3406));
        assert_eq!(count("hits") + count("misses"), 6594);
        let errors = result["error_histogram"].as_array().unwrap();
        assert_eq!(errors.iter().map(|bin| bin[replay].as_u64().unwrap()).sum::<u64>(), 10_000);
    }
}

#[test]
fn a_drive_is_met_exactly_by_its_own_simulation() {
    let scratch = Scratch::new("validate_own");
    scratch.ok("trace generate random asked.csv --count 400");
    scratch.ok("sim asked.csv --drive deskstar-7k250 --closed-loop --out run --log csv");
    let commands = fs::read_to_string(scratch.0.join("run/commands.csv")).unwrap();
    let mut lines = commands.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().unwrap();
    let column = |name: &str| header.iter().position(|column| *column == name).unwrap();
    let [op, lba, sectors, response] = ["op", "lba", "sectors", "response_ns"].map(column);
    let mut measured = "time_ns,op,offset_bytes,length_bytes,response_ns,think_ns\n".to_owned();
    for line in lines {
        let bytes = |column: usize| line[column].parse::<u64>().unwrap() * 512;
        let (offset, length) = (bytes(lba), bytes(sectors));
        measured.push_str(&format!("0,{},{offset},{length},{},0\n", line[op], line[response]));
    }
    scratch.file("measured.csv", measured);
    let result = &json(&scratch.ok("validate measured.csv --drive deskstar-7k250 --json"))["result"];
    assert_eq!(number(result, "/requests"), 400.0);
    for key in ["rms_ns", "binned_rms_ns", "request_error_ns/p90", "request_error_ns/bias"] {
        assert_eq!(number(result, &format!("/free/{key}")), 0.0, "{key}");
    }
    let slower = "validate measured.csv --drive deskstar-7k250 --set servo.rpm=5400 --json";
    assert!(number(&json(&scratch.ok(slower))["result"], "/free/rms_ratio") > 0.1);
}

#[test]
fn the_two_parts_of_a_trace_are_judged_apart_after_the_whole_was_replayed() {
    let scratch = Scratch::new("validate_parts");
    let judged =
        |bounds: &str| json(&scratch.ok(&format!("{} --json {bounds}", cheetah())))["result"].clone();
    let (whole, early, late) = (judged(""), judged("--until 200s"), judged("--from 200s"));
    let sum = |path: &str| number(&early, path) + number(&late, path);
    assert_eq!(sum("/judged"), 10_000.0);
    assert_eq!((number(&early, "/requests"), number(&late, "/requests")), (10_000.0, 10_000.0));
    let total = |of: &Value| number(of, "/judged") * number(of, "/free/request_error_ns/mean");
    assert!((total(&early) + total(&late) - total(&whole)).abs() < 20_000.0, "the same replay, cut in two");
    let text = scratch.ok(&format!("{} --from 200s", cheetah()));
    assert!(text.contains("of 10,000 requests compared: issued from 3 min 20 s on"), "{text}");
}

#[test]
fn a_report_is_left_where_asked_for() {
    let scratch = Scratch::new("validate_out");
    let text = scratch.ok(&format!("{} --out report", cheetah()));
    for words in ["of the measured mean", "rms in DiskSim's bins", "read misses", "anchored"] {
        assert!(text.contains(words), "{text}");
    }
    let names = scratch.names("report");
    assert_eq!(
        names,
        ["distance.svg", "distributions.svg", "errors.svg", "report.html", "report.md", "result.json"]
    );
    let page = fs::read_to_string(scratch.0.join("report/report.html")).unwrap();
    assert!(!page.contains("src=\"http") && !page.contains("href=\"http"), "the page loads nothing");
    let stored = json(&fs::read_to_string(scratch.0.join("report/result.json")).unwrap());
    assert_eq!(stored["result"], json(&scratch.ok(&format!("{} --json", cheetah())))["result"]);
}

#[test]
fn labels_of_the_real_drive_are_held_against_the_simulation() {
    let scratch = Scratch::new("validate_labels");
    scratch.file("labeled.trace", LABELED);
    let words = "validate labeled.trace --drive deskstar-7k250";
    let labels = &json(&scratch.ok(&format!("{words} --json")))["result"]["labels"];
    assert_eq!((number(labels, "/hits"), number(labels, "/misses")), (2.0, 2.0));
    assert_eq!(number(labels, "/baseline_agreement_ratio"), 1.0);
    let counts = ["hits_as_hits", "hits_as_misses", "misses_as_hits", "misses_as_misses"];
    assert_eq!(counts.map(|count| number(labels, &format!("/free/{count}"))).iter().sum::<f64>(), 4.0);
    assert!(scratch.ok(words).contains("last-end rule"));
}

#[test]
fn a_wait_in_the_host_s_queue_is_no_work_of_the_drive() {
    let scratch = Scratch::new("validate_host");
    // The request that arrives second was handed over first.
    scratch.file(
        "host.csv",
        "enqueue_us,start_us,stop_us,bytes,lba256,disk,cylinder,op,queuelen,flags_hex\n\
         0,30000,50000,4096,80000,1,1,R,1,1b\n\
         10,90,10090,4096,1040,1,1,R,1,1b\n\
         20,90,10090,4096,1040,0,1,R,1,1b\n",
    );
    let words = "validate host.csv --drive deskstar-7k250 --device 1 --json";
    let result = &json(&scratch.ok(words))["result"];
    assert_eq!((number(result, "/judged"), number(result, "/measured_response_ns/max")), (2.0, 20e6));
    assert_eq!(result["replay"][1], "device 1");
    let first = &json(&scratch.ok(&format!("{words} --until 1ms")))["result"];
    assert_eq!((number(first, "/judged"), number(first, "/measured_response_ns/max")), (1.0, 10e6));
    let concat = scratch.refused("validate host.csv --drive deskstar-7k250 --map concat");
    assert!(concat.contains("choose one with --device N"), "{concat}");
}

#[test]
fn what_cannot_be_judged_is_refused_by_name() {
    let scratch = Scratch::new("validate_refused");
    let on =
        |trace: &str, rest: &str| scratch.refused(&format!("validate {trace} --drive deskstar-7k250 {rest}"));
    scratch.file("asked.csv", "time_ns,op,offset_bytes,length_bytes\n0,read,0,512\n");
    let said = on("asked.csv", "");
    assert!(said.contains("asked.csv:2: the request has no measured response time"), "{said}");
    assert!(
        said.contains("disksim-validation, msr, systor17, blkparse, ftrace, biosnoop, hplajw")
            && said.contains("response_ns"),
        "{said}"
    );
    scratch.file("labeled.trace", LABELED);
    assert!(on("labeled.trace", "--time-scale 2").contains("measured times cannot be scaled"));
    assert!(
        on("labeled.trace", "--from 2s --until 1s")
            .contains("--from (2.00 s) is not before --until (1.00 s)")
    );
    assert!(on("labeled.trace", "--from 1h").contains("no request was issued between --from and --until"));
    let columns = "time_ns,op,offset_bytes,length_bytes,response_ns,started_ns";
    scratch.file("back.csv", format!("{columns}\n0,read,0,512,5,9\n"));
    assert!(on("back.csv", "").contains("check response_ns and started_ns"));
    scratch.file("far.csv", format!("{columns}\n0,read,0,512,18446744073709551615,0\n"));
    assert!(on("far.csv", "").contains("exceed 292 years"));
    assert!(on("nowhere.trace", "--out out").contains("nowhere.trace"));
    assert_eq!(scratch.names("."), ["asked.csv", "back.csv", "far.csv", "labeled.trace"]);
}
