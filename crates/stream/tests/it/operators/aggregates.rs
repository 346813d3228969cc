//! Aggregates.

use std::collections::BTreeSet;
use std::fmt::Debug;

use sakiyomi_stream::operators::{
    Aggregate, Count, OrderedF64, Windows, distinct_count, max, mean, min, sum, top_values,
};
use sakiyomi_stream::{Emitter, Operator};

use super::{Event, key, reloaded, time};
use crate::inputs::{below, random};

/// Checks that an aggregate of parts is that of the whole, which is `expected`.
fn check<A>(aggregate: &A, events: &[Event], cut: usize, expected: A::Output)
where
    A: Aggregate<Event>,
    A::Output: Debug + PartialEq,
{
    let state = |events: &[Event]| {
        let mut state = aggregate.init();
        events.iter().for_each(|event| aggregate.add(&mut state, event));
        state
    };
    assert_eq!(aggregate.output(&state(events)), expected);
    let (first, later) = events.split_at(cut);
    let mut merged = state(first);
    aggregate.merge(&mut merged, &state(later));
    assert_eq!(aggregate.output(&merged), expected);
}

#[test]
fn aggregates_of_parts_are_those_of_the_whole() {
    let mut random = random(31);
    for count in [1, 2, 3, 10, 200] {
        for _ in 0..20 {
            let event = |_| Event { time_ns: 0, key: 0, amount: below(&mut random, 60) as i64 - 30 };
            let events: Vec<Event> = (0..count).map(event).collect();
            let cut = below(&mut random, count + 1);
            let amount = |event: &Event| event.amount;
            let mut sorted: Vec<i64> = events.iter().map(amount).collect();
            sorted.sort_unstable_by(|one, other| other.cmp(one));
            let total: i64 = sorted.iter().sum();
            check(&Count, &events, cut, count as u64);
            check(&sum(amount), &events, cut, i128::from(total));
            check(&sum(|event: &Event| event.amount as f64), &events, cut, total as f64);
            check(&mean(amount), &events, cut, total as f64 / count as f64);
            check(&min(amount), &events, cut, sorted.last().copied());
            check(&max(amount), &events, cut, sorted.first().copied());
            let different: BTreeSet<i64> = sorted.iter().copied().collect();
            check(&distinct_count(amount), &events, cut, different.len() as u64);
            for most in [0, 1, 5, 300] {
                let top: Vec<i64> = sorted.iter().copied().take(most).collect();
                check(&top_values(most, amount), &events, cut, top);
            }
            let all = (Count, max(amount), distinct_count(amount), top_values(1, amount));
            let expected = (count as u64, Some(sorted[0]), different.len() as u64, vec![sorted[0]]);
            check(&all, &events, cut, expected);
        }
    }
}

#[test]
fn the_greatest_values_of_a_window_that_resumes_with_another_number_of_them_are_those_that_were_kept() {
    let amounts = |from: i64| (from..from + 10).map(|amount| Event { time_ns: 0, key: 0, amount });
    for (before, after, expected) in
        [(5, 2, vec![109, 108]), (2, 4, vec![109, 108, 107, 106]), (3, 0, vec![]), (0, 1, vec![109])]
    {
        let make = |count_max| {
            Windows::sliding(20, 10, time, key, top_values(count_max, |event: &Event| event.amount))
        };
        let (mut operator, mut out) = (make(before), Emitter::new());
        amounts(0).for_each(|event| operator.process(event, &mut out));
        let mut unchanged = reloaded(&operator, make(after));
        let mut operator = reloaded(&operator, make(after));
        amounts(100).for_each(|event| operator.process(event, &mut out));
        operator.end(&mut out);
        let results: Vec<_> = out.drain().map(|(result, _)| result.value).collect();
        assert_eq!(results, [expected.clone(), expected]);
        unchanged.end(&mut out);
        let kept: Vec<i64> = (0..10).rev().take(before.min(after)).collect();
        assert_eq!(out.drain().map(|(result, _)| result.value).collect::<Vec<_>>(), [kept.clone(), kept]);
    }
}

#[test]
fn sums_of_the_greatest_integers_do_not_overflow() {
    let events = [Event { time_ns: 0, key: u64::MAX, amount: i64::MIN }; 3];
    check(&sum(|event: &Event| event.amount), &events, 1, 3 * i128::from(i64::MIN));
    check(&sum(|event: &Event| event.key), &events, 1, 3 * i128::from(u64::MAX));
}

#[test]
fn floating_point_numbers_have_a_total_order() {
    let ordered =
        [-f64::NAN, f64::NEG_INFINITY, -1.0, -0.0, 0.0, 1.0, f64::INFINITY, f64::NAN].map(OrderedF64);
    assert!(ordered.is_sorted_by(|one, other| one < other));
    assert!(ordered.iter().all(|number| number == number));
}
