//! The JSON of results.

use crate::sample;
use proptest::prelude::*;
use sakiyomi_report::result::*;

#[test]
fn keys_of_a_simulation_are_stable() {
    let mut document = sample::document("long");
    document.result.chunks.truncate(1);
    document.result.response_curve.truncate(1);
    document.result.response_histogram.truncate(1);
    document.result.breakdown_mean_ns.truncate(1);
    insta::assert_snapshot!(serde_json::to_string_pretty(&document).unwrap());
}

#[test]
fn a_run_names_the_commit_where_it_is_known() {
    let built = Run { commit: Some("1a2b3c4d5e".to_owned()), ..sample::run() };
    assert_eq!(serde_json::to_value(&built).unwrap()["commit"], "1a2b3c4d5e");
    assert_eq!(built.build(), "0.2.0 (1a2b3c4d5e)");
    // Results of an older version of sakiyomi, or of a build from a source archive, have no commit.
    let unknown = serde_json::to_value(sample::run()).unwrap();
    assert!(unknown.get("commit").is_none());
    let read: Run = serde_json::from_value(unknown).unwrap();
    assert_eq!((read.commit.as_deref(), read.build().as_str()), (None, "0.2.0"));
}

#[test]
fn keys_of_a_validation_are_stable() {
    let mut document = sample::validation();
    document.result.quantile_curve.truncate(1);
    document.result.error_histogram.truncate(1);
    document.result.free.kinds.truncate(1);
    document.result.anchored.kinds.clear();
    insta::assert_snapshot!(serde_json::to_string_pretty(&document).unwrap());
}

#[test]
fn keys_of_a_probe_are_stable() {
    let mut document = sample::probe();
    document.result.targets.truncate(1);
    document.result.cases.truncate(1);
    document.result.choices.truncate(1);
    insta::assert_snapshot!(serde_json::to_string_pretty(&document).unwrap());
}

#[test]
fn keys_of_a_run_are_stable_and_read_back() {
    let mut document = sample::followed();
    document.result.readings[0].points.truncate(1);
    let text = serde_json::to_string_pretty(&document).unwrap();
    assert_eq!(serde_json::from_str::<Document<RunResult>>(&text).unwrap(), document);
    insta::assert_snapshot!(text);
}

#[test]
fn keys_of_an_explanation_are_stable_and_read_back() {
    let document = sample::explained();
    let text = serde_json::to_string_pretty(&document).unwrap();
    assert_eq!(serde_json::from_str::<Document<ExplainResult>>(&text).unwrap(), document);
    insta::assert_snapshot!(text);
}

#[test]
fn keys_of_a_query_are_stable_and_read_back() {
    let mut document = sample::aggregated();
    document.result.phases.truncate(1);
    let text = serde_json::to_string_pretty(&document).unwrap();
    assert_eq!(serde_json::from_str::<Document<QueryResult>>(&text).unwrap(), document);
    insta::assert_snapshot!(text);
}

#[test]
fn keys_of_a_reproduction_are_stable_and_read_back() {
    let mut document = sample::reproduction();
    document.result.papers[0].figures.truncate(1);
    document.result.papers[0].curves.truncate(1);
    let text = serde_json::to_string_pretty(&document).unwrap();
    assert_eq!(serde_json::from_str::<Document<ReproduceResult>>(&text).unwrap(), document);
    insta::assert_snapshot!(text);
}

#[test]
fn keys_of_a_scenario_are_stable() {
    let mut document = sample::scenario();
    document.result.points.truncate(1);
    document.result.points[0].processes[0].distance.truncate(1);
    insta::assert_snapshot!(serde_json::to_string_pretty(&document).unwrap());
}

#[test]
fn keys_of_a_regulated_device_are_stable_and_read_back() {
    let mut result = sample::iorate();
    result.device.bypass =
        Some(IorateBypass { device: "sda".to_owned(), requests_per_s: 1.5, share_ratio: 0.25 });
    result.program = Some(IorateProgram {
        words: vec!["true".to_owned()],
        exit_code: Some(0),
        signal: None,
        elapsed_ns: 7,
    });
    let text = serde_json::to_string_pretty(&result).unwrap();
    assert_eq!(serde_json::from_str::<IorateResult>(&text).unwrap(), result);
    insta::assert_snapshot!(text);
}

#[test]
fn keys_of_a_regulated_experiment_are_stable_and_read_back() {
    let mut document = sample::regulated();
    document.result.points = vec![document.result.points.swap_remove(1)];
    let regulation = document.result.points[0].regulation.as_mut().unwrap();
    regulation.owners.truncate(1);
    regulation.owners[0].quantile_ratios.truncate(1);
    let text = serde_json::to_string_pretty(&document).unwrap();
    assert_eq!(serde_json::from_str::<Document<ScenarioResult>>(&text).unwrap(), document);
    insta::assert_snapshot!(text);
}

#[test]
fn keys_of_a_mount_are_stable_and_read_back() {
    let mut document = Document::new(Run::default(), sample::live::mount());
    document.result.windows.drain(..60);
    document.result.windows.truncate(1);
    let text = serde_json::to_string_pretty(&document).unwrap();
    assert_eq!(serde_json::from_str::<Document<MountResult>>(&text).unwrap(), document);
    insta::assert_snapshot!(text);
}

#[test]
fn keys_of_a_block_device_are_stable_and_read_back() {
    let mut document = Document::new(Run::default(), sample::live::serve());
    document.result.windows.truncate(1);
    let text = serde_json::to_string_pretty(&document).unwrap();
    assert_eq!(serde_json::from_str::<Document<ServeResult>>(&text).unwrap(), document);
    insta::assert_snapshot!(text);
}

#[test]
fn keys_of_a_watched_device_are_stable_and_read_back() {
    let mut document = Document::new(Run::default(), sample::live::top());
    document.result.windows.truncate(1);
    document.result.owners.truncate(1);
    let text = serde_json::to_string_pretty(&document).unwrap();
    assert_eq!(serde_json::from_str::<Document<TopResult>>(&text).unwrap(), document);
    insta::assert_snapshot!(text);
}

#[test]
fn keys_of_a_stream_are_stable_and_read_back() {
    let mut run = sample::stream::run();
    run.sinks[0].windows.truncate(1);
    run.changes.truncate(1);
    run.operators.truncate(1);
    let text = serde_json::to_string_pretty(&run).unwrap();
    assert_eq!(serde_json::from_str::<StreamRunResult>(&text).unwrap(), run);
    insta::assert_snapshot!(text);
}

#[test]
fn keys_of_plans_and_cores_of_streams_are_stable_and_read_back() {
    for plan in [sample::stream::plan(), sample::stream::shortfall()] {
        let text = serde_json::to_string_pretty(&plan).unwrap();
        assert_eq!(serde_json::from_str::<StreamPlanResult>(&text).unwrap(), plan);
        insta::assert_snapshot!(text);
    }
    let mut simulated = sample::stream::simulated();
    simulated.points.truncate(1);
    let text = serde_json::to_string_pretty(&simulated).unwrap();
    assert_eq!(serde_json::from_str::<StreamSimResult>(&text).unwrap(), simulated);
    insta::assert_snapshot!(text);
    let topology = sample::stream::topology();
    let text = serde_json::to_string_pretty(&topology).unwrap();
    assert_eq!(serde_json::from_str::<StreamTopologyResult>(&text).unwrap(), topology);
    insta::assert_snapshot!(text);
}

#[test]
fn unknown_keys_are_ignored() {
    let text = r#"{"kernel":"k","cpu":"c","cores":1,"memory_bytes":2,"color":"red"}"#;
    assert_eq!(serde_json::from_str::<Machine>(text).unwrap().cores, 1);
}

proptest! {
    #[test]
    fn what_is_written_reads_back_and_writes_the_same_bytes(mut result in sample::any_result(), share in 0u16..) {
        // serde_json parses fractions of up to 15 digits exactly, and longer ones with an error of up to one unit in
        // the last place.
        result.hit_ratio = f64::from(share) / 1024.0;
        result.response_curve.iter_mut().for_each(|point| point.share_ratio = f64::from(share) / 1024.0);
        let document = Document::new(Run::default(), result);
        let text = serde_json::to_string(&document).unwrap();
        let read: Document<SimResult> = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(serde_json::to_string(&read).unwrap(), text);
    }

    #[test]
    fn a_validation_reads_back(mut result in sample::any_validation(), share in 0u16..) {
        let ratio = f64::from(share) / 1024.0;
        sample::set_ratios(&mut result, ratio);
        let text = serde_json::to_string(&result).unwrap();
        prop_assert_eq!(serde_json::from_str::<ValidateResult>(&text).unwrap(), result);
    }

    #[test]
    fn a_probe_reads_back(result in sample::any_probe()) {
        let text = serde_json::to_string(&result).unwrap();
        prop_assert_eq!(serde_json::from_str::<ProbeResult>(&text).unwrap(), result);
    }
}
