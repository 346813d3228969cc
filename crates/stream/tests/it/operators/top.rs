//! The highest results of windows.

use std::collections::BTreeMap;

use rand_pcg::Pcg64;
use sakiyomi_stream::operators::{Ranked, Top, Window, WindowResult};
use sakiyomi_stream::{Emitter, Operator};

use super::reloaded;
use crate::inputs::{below, random};

type Counted = WindowResult<u64, u64>;

fn top(count_max: usize) -> Top<u64, u64, impl FnMut(&u64) -> u64> {
    Top::new(count_max, |count: &u64| *count)
}

/// Results of windows in any order, and watermarks; no result is late.
fn inputs(random: &mut Pcg64, windows: u64, keys: usize) -> Vec<Result<Counted, u64>> {
    let mut inputs = Vec::new();
    for number in 1..=windows {
        // Two sizes, whose windows end together.
        for size in [10, 20] {
            for key in 0..below(random, keys) as u64 {
                let window =
                    Window { start_ns: (number * 10 + 10).saturating_sub(size), end_ns: number * 10 + 10 };
                inputs.push(Ok(WindowResult {
                    window,
                    key,
                    value: below(random, 9) as u64,
                    is_update: false,
                }));
            }
        }
        if below(random, 3) == 0 {
            inputs.push(Err(number * 10 + 10));
        }
    }
    inputs
}

fn expected(inputs: &[Result<Counted, u64>], count_max: usize) -> Vec<(Ranked<u64, u64>, u64)> {
    let mut windows: BTreeMap<(u64, u64), Vec<(Counted, u64)>> = BTreeMap::new();
    for (index, result) in inputs.iter().enumerate() {
        if let Ok(result) = result {
            let window = (result.window.end_ns, result.window.start_ns);
            windows.entry(window).or_default().push((result.clone(), index as u64));
        }
    }
    let mut all = Vec::new();
    for mut results in windows.into_values() {
        results.sort_by_key(|(result, _)| (u64::MAX - result.value, result.key));
        let ranked = (1..).zip(results).take(count_max);
        all.extend(ranked.map(|(rank, (result, at))| (Ranked { rank, result }, at)));
    }
    all
}

fn call<O: Operator<In = Counted>>(
    operator: &mut O,
    input: Result<Counted, u64>,
    at: u64,
) -> Vec<(O::Out, u64)> {
    let mut out = Emitter::new();
    out.set_arrival_ns(at);
    match input {
        Ok(result) => operator.process(result, &mut out),
        Err(time_ns) => operator.watermark(time_ns, &mut out),
    }
    out.drain().collect()
}

#[test]
fn the_highest_results_are_those_of_sorting_all() {
    let mut random = random(81);
    for keys in [1, 5, 300] {
        for count_max in [0, 1, 3, 100] {
            let inputs = inputs(&mut random, 12, keys);
            let (mut operator, mut outputs) = (top(count_max), Vec::new());
            for (index, input) in inputs.iter().enumerate() {
                outputs.extend(call(&mut operator, input.clone(), index as u64));
                if below(&mut random, 50) == 0 {
                    operator = reloaded(&operator, top(count_max));
                }
            }
            let mut out = Emitter::new();
            operator.end(&mut out);
            outputs.extend(out.drain());
            assert_eq!(outputs, expected(&inputs, count_max));
            assert_eq!(operator.entries(), 0);
        }
    }
}

#[test]
fn the_results_that_are_kept_are_bounded_by_those_that_are_emitted() {
    let mut operator = top(3);
    let window = Window { start_ns: 0, end_ns: 10 };
    for key in 0..10_000 {
        call(&mut operator, Ok(WindowResult { window, key, value: key % 777, is_update: false }), 0);
        assert!(operator.entries() < 100);
    }
    let keys: Vec<u64> =
        call(&mut operator, Err(10), 0).iter().map(|(ranked, _)| ranked.result.key).collect();
    assert_eq!(keys, [776, 776 + 777, 776 + 2 * 777]);
}

#[test]
fn updates_of_a_window_give_its_list_again() {
    let mut operator = top(2).allow_late(20);
    let window = Window { start_ns: 0, end_ns: 10 };
    let input = |key, value, is_update| Ok(WindowResult { window, key, value, is_update });
    let list = |outputs: Vec<(Ranked<u64, u64>, u64)>| -> Vec<(usize, u64, u64, bool)> {
        let list = outputs.into_iter().map(|(ranked, _)| ranked);
        list.map(|Ranked { rank, result }| (rank, result.key, result.value, result.is_update)).collect()
    };
    for (key, value) in [(1, 5), (2, 6), (3, 7)] {
        call(&mut operator, input(key, value, false), 0);
    }
    assert_eq!(list(call(&mut operator, Err(10), 0)), [(1, 3, 7, false), (2, 2, 6, false)]);
    assert_eq!(list(call(&mut operator, Err(11), 0)), []);
    // The highest one falls back.
    call(&mut operator, input(3, 1, true), 0);
    assert_eq!(list(call(&mut operator, Err(12), 0)), [(1, 2, 6, true), (2, 1, 5, true)]);
    call(&mut operator, Err(30), 0);
    assert_eq!(operator.entries(), 0);
    call(&mut operator, input(3, 1, true), 0);
    assert_eq!(operator.late_counter().get(), 1);
}
