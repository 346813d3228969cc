//! Moves, splits and fusions at any time change nothing of the results.

use crate::graph::Run;
use crate::inputs::{below, random};

/// Tuples of the long test, with and without optimization.
const LONG_TEST_TUPLES: u64 = if cfg!(debug_assertions) { 200_000 } else { 10_000_000 };

/// Tuples per change of the placement in the long test; short ones have more changes.
const TUPLES_PER_CHANGE: u64 = 10_000;

/// Least changes of the placement in the long test.
const CHANGES_MIN: u64 = 200;

/// `SAKIYOMI_STREAM_TUPLES=1000000000` makes it 10⁹ tuples and 10⁵ changes.
#[test]
fn nothing_is_lost_or_out_of_order_in_many_relocations_with_panics() {
    let mut random = random(1);
    let tuples = std::env::var("SAKIYOMI_STREAM_TUPLES").ok().and_then(|tuples| tuples.parse().ok());
    let tuples_min = tuples.unwrap_or(LONG_TEST_TUPLES);
    let relocations = usize::try_from((tuples_min / TUPLES_PER_CHANGE).max(CHANGES_MIN)).unwrap();
    let report = Run { tuples_min, relocations, workers: 3, ring_slots: 128, burst: 0 }.check(&mut random);
    assert!(report.operators[1].restarts > 0 && report.operators[3].dead_letters > 0, "{report:?}");
    let changes = &report.relocations;
    assert!(changes.moves > 0 && changes.splits > 0 && changes.fusions > 0, "{changes:?}");
    eprintln!(
        "{} tuples; {} moves, {} splits, {} fusions; hand-over p50 {} ns, p99 {} ns",
        report.operators[0].tuples_out,
        changes.moves,
        changes.splits,
        changes.fusions,
        changes.handover_ns.value_at_quantile(0.5),
        changes.handover_ns.value_at_quantile(0.99),
    );
}

#[test]
fn any_sequence_of_changes_gives_the_result_of_a_loop() {
    for seed in 0..if cfg!(debug_assertions) { 12 } else { 60 } {
        let mut random = random(seed);
        let run = Run {
            tuples_min: below(&mut random, 20_000) as u64,
            relocations: below(&mut random, 60),
            workers: 1 + below(&mut random, 4),
            ring_slots: 1 + below(&mut random, 40),
            burst: [0, 1, 10, 100][below(&mut random, 4)],
        };
        run.check(&mut random);
    }
}
