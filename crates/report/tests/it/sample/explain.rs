//! A made-up explanation, for the tests.

use sakiyomi_report::result::{
    Document, ExplainInterval, ExplainKind, ExplainPrediction, ExplainResult, ExplainStorage, ExplainTerm,
    Run,
};

const MS: u64 = 1_000_000;

/// Returns a shell script that compresses a file on slow storage, and unpacks small ones.
pub(crate) fn explained() -> Document<ExplainResult> {
    let term = |program: &str, kind, place: Option<&str>, files, time: u64, count| ExplainTerm {
        program: program.to_owned(),
        kind,
        place: place.map(str::to_owned),
        files,
        time_ns: time * MS,
        count,
    };
    let terms = vec![
        term("gzip", ExplainKind::SequentialRead, Some("/data/big.tar"), 1, 5200, 640),
        term("gzip", ExplainKind::Computing, None, 0, 3100, 655),
        term("tar", ExplainKind::Metadata, None, 0, 900, 400),
        term("tar", ExplainKind::SequentialRead, Some("/data/small"), 130, 600, 130),
        term("gzip", ExplainKind::AwaitingCore, None, 0, 120, 310),
        term("", ExplainKind::NotAttributed, None, 0, 80, 2),
    ];
    let interval = |index: u64| ExplainInterval {
        until_ns: (index + 1) * 2000 * MS,
        computing_ns: 620 * MS,
        core_wait_ns: 24 * MS,
        io_wait_ns: 1340 * MS,
        other_ns: 16 * MS,
        read_bytes: (40 + index * 10) << 20,
        loaded_bytes: 64 << 20,
    };
    let prediction = |change: &str, command: &str, predicted: u64, is_proposed| ExplainPrediction {
        change: change.to_owned(),
        command: Some(command.to_owned()),
        predicted_ns: predicted * MS,
        low_ns: predicted * 9 / 10 * MS,
        high_ns: predicted * 11 / 10 * MS,
        is_proposed,
        tried_ns: is_proposed.then_some(predicted * 103 / 100 * MS),
    };
    let result = ExplainResult {
        program: ["sh", "-c", "gzip -k /data/big.tar; tar xf small.tar"].map(str::to_owned).into(),
        exit_code: Some(0),
        signal: None,
        method: "traced".to_owned(),
        elapsed_ns: 10_000 * MS,
        threads: 3,
        files: 137,
        terms,
        intervals: (0..5).map(interval).collect(),
        storage: Some(ExplainStorage {
            latency_ns: 10 * MS,
            parallel: 24,
            bytes_per_s: Some(200_000_000),
            error_ratio: 0.012,
        }),
        predictions: vec![
            prediction("prefetching", "sakiyomi run -- gzip -k /data/big.tar", 4800, true),
            prediction(
                "a read-ahead of 1MiB",
                "echo 1024 | sudo tee /sys/class/bdi/0:39/read_ahead_kb",
                9900,
                false,
            ),
        ],
        without_waiting_ns: Some(3400 * MS),
        not_predicted: None,
        tried_plain_ns: Some(10_100 * MS),
        notes: vec!["The names of 2 files are not known: they were closed too soon.".to_owned()],
    };
    Document::new(Run::default(), result)
}
