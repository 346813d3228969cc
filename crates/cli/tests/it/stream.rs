//! `stream`: pipelines from files are run and planned.

use std::fs;
use std::io::Write;
use std::process::{Command, Output, Stdio};

use crate::scratch::{Scratch, json, state_home};

/// Returns lines of a web server's log: every tenth request fails.
fn log(lines: u32) -> String {
    let line = |number: u32| {
        let status = if number.is_multiple_of(10) { 500 } else { 200 };
        let (minute, second) = (number / 60 % 60, number % 60);
        format!(
            "10.0.0.{} - - [23/Nov/2026:10:{minute:02}:{second:02} +0000] \"GET /p/{} HTTP/1.1\" {status} {number} \"-\" \"a\"\n",
            number % 7,
            number % 3
        )
    };
    (0..lines).map(line).collect()
}

/// Returns a pipeline that keeps failed requests.
fn errors(from: &str, to: &str) -> String {
    format!(
        "[source.log]\nfrom = \"{from}\"\nformat = \"combined\"\n\n[[step]]\nop = \"filter\"\nwhere = \"status >= 500\"\n\n\
         [[step]]\nop = \"select\"\ncolumns = \"path, bytes\"\n\n[sink.out]\nto = \"{to}\"\nformat = \"csv\"\n"
    )
}

fn with_input(scratch: &Scratch, words: &str, input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sakiyomi"));
    command.args(words.split_whitespace()).current_dir(&scratch.0).env("XDG_STATE_HOME", state_home());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

/// Returns the output of the pipeline of [`errors`] for [`log`].
fn expected(lines: u32) -> String {
    let row = |number: u32| format!("/p/{},{number}\n", number % 3);
    "path,bytes\n".to_owned() + &(0..lines).step_by(10).map(row).collect::<String>()
}

#[test]
fn a_pipeline_from_file_to_file_counts_what_it_did() {
    let scratch = Scratch::new("stream_files");
    scratch.file("access.log", log(5000));
    scratch.file("errors.toml", errors("file:access.log", "file:errors.csv"));
    let document =
        json(&scratch.ok("stream run errors.toml --unpinned --json --out result --metrics errors.prom"));
    assert_eq!(fs::read_to_string(scratch.0.join("errors.csv")).unwrap(), expected(5000));
    let result = &document["result"];
    assert_eq!(document["schema"], "sakiyomi.stream-run/1");
    assert_eq!((&result["sources"][0]["records"], &result["sources"][0]["bad"]), (&5000.into(), &0.into()));
    assert_eq!(
        (&result["sinks"][0]["name"], &result["sinks"][0]["records"]),
        (&"sink.out".into(), &500.into())
    );
    let operators: Vec<_> =
        result["operators"].as_array().unwrap().iter().map(|of| &of["records_in"]).collect();
    assert_eq!(operators, [5000, 5000, 500, 500]);
    assert!(scratch.names("result").contains(&"report.html".to_owned()));
    let metrics = fs::read_to_string(scratch.0.join("errors.prom")).unwrap();
    assert!(
        metrics
            .contains("sakiyomi_stream_source_records_total{pipeline=\"errors.toml\",source=\"log\"} 5000"),
        "{metrics}"
    );
}

#[test]
fn rows_go_to_standard_output_and_figures_beside_it() {
    let scratch = Scratch::new("stream_pipe");
    scratch.file("errors.toml", errors("stdin", "stdout"));
    let output = with_input(&scratch, "stream run errors.toml --unpinned", &log(300));
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{told}");
    assert_eq!(String::from_utf8(output.stdout).unwrap(), expected(300));
    assert!(told.contains("300 records in "), "{told}");
    let quiet = with_input(&scratch, "stream run errors.toml --unpinned --quiet", &log(300));
    assert_eq!(
        (String::from_utf8(quiet.stderr).unwrap(), quiet.stdout.len()),
        (String::new(), expected(300).len())
    );
    let refused = scratch.refused("stream run errors.toml --json");
    assert!(refused.contains("--json: a sink of errors.toml writes to standard output"), "{refused}");
}

#[test]
fn a_record_that_cannot_be_read_ends_the_run_and_leaves_no_file() {
    let scratch = Scratch::new("stream_bad");
    scratch.file("access.log", log(50) + "what is this\n" + &log(50));
    scratch.file("errors.toml", errors("file:access.log", "file:errors.csv"));
    let refused = scratch.refused("stream run errors.toml --unpinned");
    assert!(refused.contains("access.log"), "{refused}");
    assert!(!scratch.0.join("errors.csv").exists());
}

#[test]
fn a_mistake_in_a_pipeline_names_its_line_and_key() {
    let scratch = Scratch::new("stream_mistake");
    scratch.file("errors.toml", errors("stdin", "stdout").replace("status >=", "statsu >="));
    for command in ["run errors.toml", "plan errors.toml --rate 5k"] {
        let refused = scratch.refused(&format!("stream {command}"));
        assert!(refused.contains("errors.toml") && refused.contains("statsu"), "{refused}");
    }
    assert!(scratch.refused("stream run none.toml").contains("none.toml"));
}

#[test]
fn a_plan_exits_with_1_if_no_cores_hold_the_rate() {
    let scratch = Scratch::new("stream_plan");
    scratch.file("errors.toml", errors("stdin", "stdout"));
    let document = json(&scratch.ok("stream plan errors.toml --rate 5k --cores 2x4 --json"));
    assert_eq!(document["schema"], "sakiyomi.stream-plan/2");
    let result = &document["result"];
    assert_eq!((&result["cores"], result["groups"].as_array().unwrap().len()), (&8.into(), 1));
    let output = scratch.run("stream plan errors.toml --rate 900G --cores 2x4");
    assert_eq!(output.status.code(), Some(1));
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(told.contains("No plan holds 900,000,000,000 records/s on 8 cores: short by"), "{told}");
    for (rate, cores) in [("0", "2"), ("fast", "2"), ("5k", "0"), ("5k", "2x")] {
        let refused = scratch.refused(&format!("stream plan errors.toml --rate {rate} --cores {cores}"));
        assert!(refused.contains("such as"), "{refused}");
    }
}

#[test]
fn a_simulation_overflows_on_few_cores_and_repeats_itself() {
    let scratch = Scratch::new("stream_sim");
    scratch.file("errors.toml", errors("stdin", "stdout"));
    let words = "stream sim errors.toml --rate 2.5M --cores 4 --for 20ms --json";
    let results = [words, words].map(|words| json(&scratch.ok(words))["result"].clone());
    assert_eq!(results[0], results[1], "the same seed");
    let points = results[0]["points"].as_array().unwrap();
    let shed: Vec<f64> = points.iter().map(|point| point["shed_ratio"].as_f64().unwrap()).collect();
    assert!(shed[0] > 0.1 && *shed.last().unwrap() == 0.0, "{shed:?}");
    assert_eq!(scratch.run("stream sim errors.toml --rate 500M --cores 2 --for 1ms").status.code(), Some(1));
    assert!(scratch.refused("stream sim errors.toml --rate 1G --for 1h").contains("give a shorter time"));
    assert!(scratch.refused("stream sim errors.toml --rate 1k --for 0s").contains("--for 0"));
}

#[test]
fn measured_costs_between_cores_are_saved_and_used() {
    let scratch = Scratch::new("stream_topology");
    scratch.file("errors.toml", errors("stdin", "stdout"));
    let run = |words: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sakiyomi"));
        command
            .args(words.split_whitespace())
            .current_dir(&scratch.0)
            .env("XDG_STATE_HOME", scratch.0.join("state"));
        command.output().unwrap()
    };
    let output = run("stream topology --json");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document = json(&String::from_utf8(output.stdout).unwrap());
    assert!(!document["result"]["cores"].as_array().unwrap().is_empty());
    let saved = scratch.0.join("state/sakiyomi/calibration/stream/cores.json");
    let text = fs::read_to_string(&saved).unwrap();
    assert!(run("stream plan errors.toml --rate 5k").status.success());
    fs::write(&saved, text.replace("core-costs/1", "core-costs/9")).unwrap();
    let output = run("stream plan errors.toml --rate 5k");
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(told.contains("cores.json") && told.contains("sakiyomi stream topology"), "{told}");
}
