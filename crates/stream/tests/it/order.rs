//! Moves, splits and fusions at any time change nothing of the results.

use crate::graph::Run;
use crate::inputs::{below, random};

/// Tuples of the long tests, with and without optimisation.
const TUPLES: u64 = if cfg!(debug_assertions) { 200_000 } else { 10_000_000 };

/// Changes of the placement of the long tests.
const RELOCATIONS: usize = if cfg!(debug_assertions) { 200 } else { 1_000 };

#[test]
fn nothing_is_lost_or_out_of_order_in_many_relocations_with_panics() {
    let mut random = random(1);
    let run = Run { tuples_min: TUPLES, relocations: RELOCATIONS, workers: 3, ring_slots: 128, burst: 0 };
    let report = run.check(&mut random);
    assert!(report.operators[1].restarts > 0 && report.operators[3].dead_letters > 0, "{report:?}");
    let changes = &report.relocations;
    assert!(changes.moves > 0 && changes.splits > 0 && changes.fusions > 0, "{changes:?}");
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

#[test]
#[ignore = "a thousand million tuples take minutes: cargo test --release -p sakiyomi-stream -- --ignored"]
fn nothing_is_lost_or_out_of_order_in_a_hundred_thousand_relocations() {
    let mut random = random(2);
    let run = Run { tuples_min: 1_000_000_000, relocations: 100_000, workers: 2, ring_slots: 1024, burst: 0 };
    let report = run.check(&mut random);
    let quantile = |quantile| report.relocations.handover_ns.value_at_quantile(quantile);
    eprintln!(
        "{} tuples, {} moves, {} splits, {} fusions; hand-over p50 {} ns, p99 {} ns",
        report.operators[0].tuples_out,
        report.relocations.moves,
        report.relocations.splits,
        report.relocations.fusions,
        quantile(0.5),
        quantile(0.99),
    );
}
