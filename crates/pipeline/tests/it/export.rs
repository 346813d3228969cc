//! Exports: the operators and the state for an interpreter in another engine.

use std::path::Path;

use sakiyomi_pipeline::{Pipeline, Standard};
use sakiyomi_stream::{Settings, Snapshot};
use sakiyomi_testing::{Scratch, wait_until};

const EVENTS: &str = "[source.events]\nfrom = 'file:events.csv'\nformat = 'csv'\n\
    columns = { at = 'timestamp(ms)', k = 'text', x = 'int32', n = 'int8' }\n\
    event_time = 'at'\nout_of_order = '50ms'\nbad = 'skip'\n";

const SINK: &str = "[sink.out]\nto = 'file:out.json'\nformat = 'json'\n";

fn export(text: &str) -> Result<sakiyomi_pipeline::Export, String> {
    let pipeline = Pipeline::parse(text, "export.toml").map_err(|error| error.to_string())?;
    pipeline.export(None, Path::new("/base")).map_err(|error| error.to_string())
}

#[test]
fn the_operators_have_cells_types_trees_and_uids() {
    let text = format!(
        "{EVENTS}[source.others]\nfrom = 'tail:/log/others.json'\nformat = 'json'\n\
         columns = {{ at = 'timestamp(us)', k = 'text' }}\nevent_time = 'at'\n\
         [[step]]\nname = 'even'\ninput = 'events'\nop = 'filter'\nwhere = 'x % 2 = 0'\n\
         [[step]]\nname = 'counts'\nop = 'aggregate'\nby = 'k'\nwindow = 'tumbling:10s'\n\
         compute = 'count(*) AS n, sum(x + 1) AS s'\n\
         [[step]]\nname = 'pairs'\ninput = 'events'\nop = 'join'\nwith = 'others'\non = 'k = k'\nwithin = '2s'\n\
         [[step]]\nname = 'short'\nop = 'select'\ncolumns = \"k || '!' AS k, x\"\n\
         [sink.counts]\ninput = 'counts'\nto = 'file:counts.json'\nformat = 'json'\n\
         [sink.pairs]\ninput = 'short'\nto = 'discard'\n"
    );
    let export = export(&text).unwrap();
    assert_eq!(export.state, "");
    insta::assert_snapshot!(export.job);
}

#[test]
fn an_operator_without_counterpart_is_refused_by_its_name() {
    let step = |step: &str| format!("{EVENTS}[[step]]\n{step}\n{SINK}");
    let source = |source: &str| format!("[source.s]\n{source}\n{SINK}");
    let cases = [
        (step("op = 'top'\nname = 'best'\nk = 3\nby = 'x'"), "best: top cannot be exported"),
        (step("op = 'distinct'\nby = 'k'"), "distinct: distinct cannot be exported"),
        (step("op = 'append'\nfile = 'a.json'"), "append: append cannot be exported"),
        (
            step("op = 'aggregate'\nwindow = 'sliding:2s,1s'\ncompute = 'count(*) AS n'"),
            "aggregate: sliding windows cannot be exported",
        ),
        (
            step("op = 'aggregate'\ncompute = 'count(distinct k) AS n'"),
            "aggregate: count(distinct …) cannot be exported",
        ),
        (step("op = 'aggregate'\nby = 'x / 1e0'\ncompute = 'count(*) AS n'"), "a floating-point key"),
        (step("op = 'filter'\nwhere = \"k ilike 'a'\""), "filter: k ILIKE 'a' cannot be exported"),
        (
            step("op = 'filter'\nwhere = 'n > 1'").replace("int8", "uint64"),
            "source.events: column n is UInt64",
        ),
        (source("from = 'stdin'\nformat = 'json'\ncolumns = { a = 'text' }"), "source.s: the standard input"),
        (source("from = 'generator'"), "source.s: the generator cannot be reread"),
        (source("from = 'file:a'"), "source.s: only the formats csv and json"),
        (EVENTS.replace("bad", "idle = '1s'\nbad") + &windows() + SINK, "source.events: idle cannot"),
        (EVENTS.replace("bad", "late = 'allow:1s'\nbad") + &windows() + SINK, "source.events: late"),
        (EVENTS.replace("bad", "overload = 'shed:1s'\nbad") + SINK, "source.events: overload"),
        (
            EVENTS.to_owned() + "[sink.out]\nto = 'file:out.csv'\nformat = 'csv'\n",
            "sink.out: only the format json",
        ),
        (
            EVENTS.to_owned() + "[sink.out]\nto = 'stdout'\nformat = 'json'\n",
            "sink.out: the standard output is not a file",
        ),
    ];
    for (text, expected) in cases {
        let error = export(&text).unwrap_err();
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

fn windows() -> String {
    "[[step]]\nop = 'aggregate'\nby = 'k'\nwindow = 'tumbling:1s'\ncompute = 'count(*) AS n'\n".to_owned()
}

fn is_source(operator: &str) -> bool {
    operator.starts_with("source.") && !operator.ends_with(".split")
}

/// The snapshot of a pipeline that has read all records of its tails.
fn snapshot(pipeline: &Pipeline, records: u64) -> Snapshot {
    let (stream, run) = pipeline.build_resumable(Standard::default(), None).unwrap();
    let workers = vec![0; stream.names().count()];
    let mut running = stream.start(Settings::unpinned(1), &workers).unwrap();
    let mut emitted = || {
        let report = running.report();
        let sources = report.operators.iter().filter(|operator| is_source(&operator.name));
        sources.map(|source| source.tuples_out).sum::<u64>() == records
    };
    wait_until("the records are read", &mut emitted);
    let snapshot = running.snapshot().unwrap();
    run.halt();
    drop(running);
    run.suspend().unwrap();
    snapshot
}

#[test]
fn the_state_has_windows_sessions_and_rows_that_wait() {
    let scratch = Scratch::new("export");
    let left = "{\"at\":1000,\"k\":\"a\",\"x\":3}\n{\"at\":1400,\"k\":null,\"x\":4}\n\
                {\"at\":2100,\"k\":\"a\",\"x\":-1}\n{\"at\":1900,\"k\":\"a\",\"x\":null}\n";
    let left = scratch.file("left.json", left);
    let right = scratch.file("right.json", "{\"at\":2000,\"k\":\"b\",\"f\":0.5}\n");
    for replicas in ["", "replicas = 2\n"] {
        let text = format!(
            "[source.l]\nfrom = 'tail:{}'\nstart = 'beginning'\nformat = 'json'\nevent_time = 'at'\nout_of_order = '1s'\n\
             columns = {{ at = 'timestamp(ms)', k = 'text', x = 'int64' }}\n\
             [source.r]\nfrom = 'tail:{}'\nstart = 'beginning'\nformat = 'json'\nevent_time = 'at'\nout_of_order = '1s'\n\
             columns = {{ at = 'timestamp(ms)', k = 'text', f = 'float64' }}\n\
             [[step]]\nname = 'windows'\ninput = 'l'\nop = 'aggregate'\nby = 'k'\nwindow = 'tumbling:2s'\n{replicas}\
             compute = 'count(*) AS n, sum(x) AS s, avg(x) AS a, min(x) AS m'\n\
             [[step]]\nname = 'sessions'\ninput = 'r'\nop = 'aggregate'\nby = 'k'\nwindow = 'session:2s'\n{replicas}\
             compute = 'sum(f) AS s, max(f) AS m'\n\
             [[step]]\nname = 'pairs'\ninput = 'l'\nop = 'join'\nwith = 'r'\non = 'k = k'\nwithin = '3s'\n{replicas}\
             [sink.w]\ninput = 'windows'\nto = 'discard'\n[sink.s]\ninput = 'sessions'\nto = 'discard'\n\
             [sink.p]\ninput = 'pairs'\nto = 'discard'\n",
            left.display(),
            right.display()
        );
        let pipeline = Pipeline::parse(&text, "export.toml").unwrap();
        let snapshot = snapshot(&pipeline, 5);
        let export = pipeline.export(Some(&snapshot), Path::new("/")).unwrap();
        let mut lines: Vec<&str> = export.state.lines().collect();
        // Replicas have their keys in the order of the bins.
        lines.sort_unstable();
        insta::assert_snapshot!("state", lines.join("\n"));
        let job: serde_json::Value = serde_json::from_str(&export.job).unwrap();
        let source = &job["nodes"][0];
        assert_eq!(source["offset"], std::fs::metadata(&left).unwrap().len());
        assert_eq!(
            (&source["max_ns"], &source["watermark_ns"]),
            (&2_100_000_000_u64.into(), &1_100_000_000_u64.into())
        );
    }
}

#[test]
fn a_snapshot_of_other_bytes_is_refused() {
    let scratch = Scratch::new("export_damaged");
    let file = scratch.file("l.json", "{\"at\":1000,\"k\":\"a\"}\n");
    let text = format!(
        "[source.l]\nfrom = 'tail:{}'\nstart = 'beginning'\nformat = 'json'\nevent_time = 'at'\n\
         columns = {{ at = 'timestamp(ms)', k = 'text' }}\n{}[sink.out]\nto = 'discard'\n",
        file.display(),
        windows()
    );
    let pipeline = Pipeline::parse(&text, "export.toml").unwrap();
    let whole = snapshot(&pipeline, 1);
    for (operator, name) in [(0, "source.l"), (1, "aggregate")] {
        let mut damaged = whole.clone();
        let state = damaged.operators[operator].state.as_mut().unwrap();
        *state.last_mut().unwrap() ^= 1;
        let error = pipeline.export(Some(&damaged), Path::new("/")).unwrap_err().to_string();
        assert!(error.starts_with(name) && error.contains("checksum"), "{error}");
    }
}
