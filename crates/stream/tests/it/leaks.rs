//! Every tuple and every operator is dropped once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sakiyomi_stream::{Emitter, Next, OperatorId, Settings, Source, StreamBuilder, each};

use crate::inputs::{Collect, below, hush_poison, random};

/// Emits copies of a token.
struct Tokens {
    token: Arc<()>,
    left: u64,
    is_enough: Arc<AtomicBool>,
}

impl Source for Tokens {
    type Out = Arc<()>;

    fn next(&mut self, now_ns: u64) -> Next<Arc<()>> {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 && self.is_enough.load(Ordering::Relaxed) {
            return Next::End;
        }
        Next::Value { value: Arc::clone(&self.token), arrival_ns: now_ns }
    }
}

/// Tokens left after a run that is finished, or else dropped with full rings.
fn tokens_left(finish: bool, seed: u64) -> usize {
    hush_poison();
    let mut random = random(seed);
    let (token, is_enough) = (Arc::new(()), Arc::new(AtomicBool::new(false)));
    let tokens = Tokens { token: Arc::clone(&token), left: 2_000, is_enough: Arc::clone(&is_enough) };
    let builder = StreamBuilder::new(16);
    let held = Arc::clone(&token);
    let first = each(move |token, out: &mut Emitter<_>| {
        let _state = &held;
        out.emit(Arc::clone(&token));
        out.emit(token);
    });
    let mut number = 0;
    let second = each(move |token, out: &mut Emitter<_>| {
        number += 1;
        out.emit(token);
        if number == 1_000 {
            std::panic::panic_any(crate::inputs::POISON);
        }
    });
    let (collect, collected) = Collect::new();
    builder.source("tokens", tokens).then("first", first).then("second", second).sink("sink", collect);
    let mut running = builder.build().unwrap().start(Settings::unpinned(2), &[0, 1, 0, 1]).unwrap();
    for _ in 0..20 {
        let operator = OperatorId(1 + below(&mut random, 3));
        if running.segments().any(|(head, _)| head == operator) {
            running.fuse(operator).unwrap();
        } else {
            running.split(operator, below(&mut random, 2)).unwrap();
        }
    }
    is_enough.store(true, Ordering::Relaxed);
    if finish {
        let report = running.finish().unwrap();
        assert_eq!(report.failures.len(), 1, "{report:?}");
        assert!(report.operators[2].discarded > 0, "{report:?}");
        assert_eq!(collected.lock().unwrap().values.len(), 999);
    } else {
        drop(running);
    }
    drop(collected);
    Arc::strong_count(&token) - 1
}

#[test]
fn nothing_is_left_of_a_stream_that_has_ended() {
    (0..4).for_each(|seed| assert_eq!(tokens_left(true, seed), 0));
}

#[test]
fn nothing_is_left_of_a_stream_that_is_dropped() {
    (0..4).for_each(|seed| assert_eq!(tokens_left(false, seed), 0));
}
