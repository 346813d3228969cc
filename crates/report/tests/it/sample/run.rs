//! A made-up run with prefetching, for the tests and the gallery.

use sakiyomi_report::result::{
    Document, Run, RunAdvice, RunIdle, RunPoint, RunReading, RunReason, RunResult,
};

const MS: u64 = 1_000_000;
const MIB: u64 = 1 << 20;

/// Returns `gzip` on storage that takes 10 ms, with one longer stall.
pub(crate) fn followed() -> Document<RunResult> {
    let point = |step: u64| {
        let stalled = if step > 30 { 8 } else { 0 };
        let main = step.min(30) * MIB + step.saturating_sub(38) * MIB;
        RunPoint {
            at_ns: step * 28 * MS,
            main_bytes: main,
            prefetched_bytes: (main + (step * MIB / 2).min(8 * MIB)).min(160 * MIB),
            io_wait_ns: step.min(3) * 20 * MS + step.saturating_sub(30).min(stalled) * 24 * MS,
        }
    };
    let reading = RunReading {
        name: "/data/big.tar".to_owned(),
        files: 1,
        size_bytes: 160 * MIB,
        read_bytes: 160 * MIB,
        prefetched_bytes: 159 * MIB,
        wasted_bytes: 0,
        io_hidden_ns: Some(3900 * MS),
        idle: None,
        advice: None,
        points: (0..=168).map(point).collect(),
    };
    let small = RunReading {
        name: "/data/other".to_owned(),
        files: 3,
        size_bytes: 3 * MIB,
        read_bytes: 2 * MIB,
        idle: Some(RunReason::Resident),
        advice: Some(RunAdvice { bdi: "0:39".to_owned(), read_ahead_bytes: 128 << 10, wanted_bytes: MIB }),
        ..RunReading::default()
    };
    let result = RunResult {
        program: ["gzip", "-3", "big.tar"].map(str::to_owned).to_vec(),
        exit_code: Some(0),
        limit: "adapted to the program".to_owned(),
        elapsed_ns: 4750 * MS,
        computing_ns: 4310 * MS,
        io_wait_ns: 252 * MS,
        core_wait_ns: 30 * MS,
        io_hidden_ns: Some(3900 * MS),
        programs: 1,
        files: 4,
        read_bytes: 162 * MIB,
        prefetched_bytes: 159 * MIB,
        wasted_bytes: 512 << 10,
        own_cpu_ns: 41 * MS,
        idle: vec![RunIdle { reason: RunReason::Resident, read_bytes: 2 * MIB }],
        notes: vec!["1 file was read without a file offset.".to_owned()],
        readings: vec![reading, small],
        ..RunResult::default()
    };
    Document::new(Run::default(), result)
}
