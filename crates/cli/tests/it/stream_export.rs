//! `stream export`: a pipeline and its state for another engine.

use std::fs;

use serde_json::Value;

use crate::scratch::Scratch;

const PIPELINE: &str = "[source.log]\nfrom = 'tail:log.json'\nstart = 'beginning'\nformat = 'json'\nevent_time = 't'\n\
    columns = { t = 'timestamp(ms)', k = 'text' }\n\
    [[step]]\nname = 'counts'\nop = 'aggregate'\nby = 'k'\nwindow = 'tumbling:1min'\ncompute = 'count(*) AS n'\n\
    [sink.out]\nto = 'file:out.json'\nappend = true\nformat = 'json'\n";

#[test]
fn a_suspended_pipeline_is_exported_with_its_windows_and_offset() {
    let scratch = Scratch::new("stream_export");
    let log = "{\"t\":1700000000000,\"k\":\"a\"}\n{\"t\":1700000000500,\"k\":\"a\"}\n";
    scratch.file("log.json", log);
    scratch.file("visits.toml", PIPELINE);
    // A slow machine may suspend it before it has read.
    let exported = (0..50).find_map(|_| {
        let _ = fs::remove_file(scratch.0.join("visits.snapshot"));
        let _ = fs::remove_file(scratch.0.join("out.json"));
        scratch.ok("stream run visits.toml --unpinned --snapshot visits.snapshot --for 200ms -q");
        scratch.ok("stream export visits.toml --to flink out/visits --snapshot visits.snapshot");
        let read = |name: &str| fs::read_to_string(scratch.0.join("out/visits").join(name)).unwrap();
        let job: Value = serde_json::from_str(&read("job.json")).unwrap();
        let is_read = job["nodes"][0]["offset"] == log.len();
        is_read.then(|| (job, read("state.jsonl"), read("pipeline.toml")))
    });
    let (job, state, pipeline) = exported.unwrap();
    assert_eq!(pipeline, PIPELINE);
    let path = job["nodes"][0]["path"].as_str().unwrap();
    assert!(path.starts_with('/') && path.ends_with("/log.json"), "{path}");
    let state: Value = serde_json::from_str(&state).unwrap();
    assert_eq!((&state["uid"], &state["totals"]), (&"counts".into(), &serde_json::json!([[2]])));
}

#[test]
fn other_engines_and_operators_without_counterpart_are_refused() {
    let scratch = Scratch::new("stream_export_refused");
    scratch.file("visits.toml", PIPELINE);
    let error = scratch.refused("stream export visits.toml --to storm out");
    assert!(error.contains("--to storm") && error.contains("--to flink DIR"), "{error}");
    scratch.file("slid.toml", PIPELINE.replace("tumbling:1min", "sliding:1min,1s"));
    let error = scratch.refused("stream export slid.toml --to flink out");
    assert!(error.contains("counts: sliding windows cannot be exported"), "{error}");
    assert!(!scratch.0.join("out").exists());
}
