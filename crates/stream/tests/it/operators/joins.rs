//! Joins by time.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use rand_pcg::Pcg64;
use sakiyomi_stream::operators::{TimeJoin, side};
use sakiyomi_stream::{Emitter, Join, SaveState};

use super::{Step, reloaded, steps};
use crate::inputs::{below, random};

/// A value of a join: time, key, number.
type Row = (u64, u64, u64);

/// Two values of a pair, with the later arrival.
type Pair = (Row, Row, u64);

/// An entry of an input: a value with its arrival, or a watermark.
#[derive(Clone, Copy)]
enum Item {
    Row(Row, u64),
    Watermark(u64),
}

/// An input, with times that are multiples of `unit`.
fn input(random: &mut Pcg64, count: usize, begin: u64, unit: u64) -> Vec<Item> {
    let steps = steps(random, count, begin);
    let mut number = 0;
    let items = steps.into_iter().map(|step| match step {
        Step::Event(event, arrival_ns) => {
            number += 1;
            Item::Row((event.time_ns.saturating_mul(unit), event.key % 3, number), arrival_ns)
        }
        Step::Watermark(time_ns) => Item::Watermark(time_ns.saturating_mul(unit)),
    });
    items.collect()
}

fn rows(items: &[Item]) -> impl Iterator<Item = (Row, u64)> {
    items.iter().filter_map(|item| match *item {
        Item::Row(row, arrival_ns) => Some((row, arrival_ns)),
        Item::Watermark(_) => None,
    })
}

/// All pairs by comparing each with each.
fn expected(left: &[Item], right: &[Item], is_match: impl Fn(u64, u64) -> bool) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for (one, one_ns) in rows(left) {
        for (other, other_ns) in rows(right) {
            if one.1 == other.1 && is_match(one.0, other.0) {
                pairs.push((one, other, one_ns.max(other_ns)));
            }
        }
    }
    pairs.sort_unstable();
    pairs
}

/// The pairs of a join whose inputs interleave at random, and which is saved and loaded meanwhile.
fn run<J>(make: impl Fn() -> J, inputs: [&[Item]; 2], random: &mut Pcg64) -> Vec<Pair>
where
    J: Join<Left = Row, Right = Row, Out = (Row, Row)> + SaveState,
{
    let (mut join, mut pairs) = (make(), Vec::new());
    let (mut at, mut watermarks, mut watermark) = ([0; 2], [0; 2], 0);
    // How much sooner one input comes than the other.
    let bias = below(random, 11);
    while at[0] < inputs[0].len() || at[1] < inputs[1].len() {
        let wanted = usize::from(below(random, 10) < bias);
        let input = if at[wanted] < inputs[wanted].len() { wanted } else { 1 - wanted };
        let mut out = Emitter::new();
        match inputs[input][at[input]] {
            Item::Row(row, arrival_ns) => {
                out.set_arrival_ns(arrival_ns);
                if input == 0 { join.left(row, &mut out) } else { join.right(row, &mut out) }
            }
            Item::Watermark(time_ns) => {
                watermarks[input] = time_ns;
                if watermarks[0].min(watermarks[1]) > watermark {
                    watermark = watermarks[0].min(watermarks[1]);
                    join.watermark(watermark, &mut out);
                }
            }
        }
        pairs.extend(out.drain().map(|((one, other), arrival_ns)| (one, other, arrival_ns)));
        at[input] += 1;
        if below(random, 40) == 0 {
            join = reloaded(&join, make());
        }
    }
    join.watermark(u64::MAX, &mut Emitter::new());
    join.end(&mut Emitter::new());
    pairs.sort_unstable();
    pairs
}

fn window_join(size: u64) -> impl Join<Left = Row, Right = Row, Out = (Row, Row)> + SaveState {
    let input = || side(|row: &Row| row.0, |row: &Row| row.1);
    TimeJoin::window(size, input(), input(), |one: &Row, other: &Row| (*one, *other))
}

fn interval_join(
    bounds: RangeInclusive<i64>,
) -> impl Join<Left = Row, Right = Row, Out = (Row, Row)> + SaveState {
    let input = || side(|row: &Row| row.0, |row: &Row| row.1);
    TimeJoin::interval(bounds, input(), input(), |one: &Row, other: &Row| (*one, *other))
}

#[test]
fn a_window_join_has_the_pairs_of_comparing_all_however_its_inputs_interleave() {
    let mut random = random(51);
    for begin in super::BEGINS {
        for size in [1, 10, 150, u64::MAX] {
            let (left, right) = (input(&mut random, 200, begin, 1), input(&mut random, 150, begin, 1));
            let pairs = expected(&left, &right, |one, other| one / size == other / size);
            for _ in 0..3 {
                assert_eq!(run(|| window_join(size), [&left, &right], &mut random), pairs, "{size}");
            }
        }
    }
}

#[test]
fn an_interval_join_has_the_pairs_of_comparing_all_however_its_inputs_interleave() {
    let mut random = random(52);
    for (begin, unit) in [(0, 1), (0, 300_000), (1 << 40, 100_000), (u64::MAX - 4_000, 1)] {
        for bounds in
            [0..=0, -5..=5, 0..=40, -40..=-3, 7..=20, i64::MIN..=i64::MAX, i64::MIN..=0, 1..=i64::MAX]
        {
            let scaled = |bound: i64| bound.saturating_mul(unit as i64);
            let bounds = scaled(*bounds.start())..=scaled(*bounds.end());
            let (left, right) = (input(&mut random, 150, begin, unit), input(&mut random, 120, begin, unit));
            let is_match = |one: u64, other: u64| {
                let later = i128::from(other) - i128::from(one);
                i128::from(*bounds.start()) <= later && later <= i128::from(*bounds.end())
            };
            let pairs = expected(&left, &right, is_match);
            for _ in 0..3 {
                assert_eq!(run(|| interval_join(bounds.clone()), [&left, &right], &mut random), pairs);
            }
        }
    }
}

#[test]
fn a_watermark_frees_the_values_that_no_later_one_can_match() {
    const MILLISECOND_NS: u64 = 1_000_000;
    let input = || side(|row: &Row| row.0, |row: &Row| row.1);
    let mut join =
        TimeJoin::interval(0..=40 * MILLISECOND_NS as i64, input(), input(), |_: &Row, _: &Row| ());
    let mut out = Emitter::new();
    for time in 0..100 {
        join.left((time * MILLISECOND_NS, 1, 1), &mut out);
        join.right((time * MILLISECOND_NS, 2, 2), &mut out);
    }
    assert_eq!(join.entries(), 200);
    // The second input is not needed before the watermark, the first not before 40 ms earlier; both by parts of 10 ms.
    join.watermark(70 * MILLISECOND_NS, &mut out);
    assert_eq!(join.entries(), 30 + 70);
    join.left((69 * MILLISECOND_NS, 2, 3), &mut out);
    assert_eq!((join.late_counter().get(), join.entries()), (1, 100));
    join.watermark(1_000 * MILLISECOND_NS, &mut out);
    assert_eq!(join.entries(), 0);

    let mut join = TimeJoin::window(10, input(), input(), |_: &Row, _: &Row| ());
    (0..100).for_each(|time| join.left((time, 1, 1), &mut out));
    join.watermark(35, &mut out);
    assert_eq!(join.entries(), 70);
    join.right((31, 1, 1), &mut out);
    join.right((29, 1, 1), &mut out);
    assert_eq!(join.late_counter().get(), 1, "the window of 31 is open");
}

#[test]
fn the_number_of_pairs_of_a_key_is_the_product_of_its_values() {
    let mut random = random(53);
    let (left, right) = (input(&mut random, 300, 0, 1), input(&mut random, 300, 0, 1));
    let mut numbers: BTreeMap<u64, [usize; 2]> = BTreeMap::new();
    rows(&left).for_each(|(row, _)| numbers.entry(row.1).or_default()[0] += 1);
    rows(&right).for_each(|(row, _)| numbers.entry(row.1).or_default()[1] += 1);
    let pairs = run(|| interval_join(i64::MIN..=i64::MAX), [&left, &right], &mut random);
    assert_eq!(pairs.len(), numbers.values().map(|[one, other]| one * other).sum::<usize>());
}
