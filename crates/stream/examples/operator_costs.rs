//! Time and allocations per value of typed operators, beside the update of a hash map. One thread, without a stream:
//! `cargo run --release -p sakiyomi-stream --example operator_costs [VALUES]`.
#![allow(clippy::print_stdout)]

use std::collections::HashMap;
use std::hint::black_box;
use std::time::Instant;

use sakiyomi_stream::operators::{
    Count, Distinct, EventTime, KeysFull, Sessions, TimeJoin, WindowDistinct, Windows, key_into, side,
};
use sakiyomi_stream::{Emitter, Join, Operator};
use sakiyomi_testing::{CountingAllocator, allocations};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Event time and number.
type Value = (u64, u64);

/// Values per watermark.
const WATERMARK_VALUES: u64 = 1_000;

/// Values per window, by their event times.
const WINDOW_VALUES: u64 = 120_000;

/// Values before the measurement: tables have then their size.
const WARM_UP_VALUES: u64 = 3 * WINDOW_VALUES;

/// Numbers that look random (SplitMix64).
fn mix(number: u64) -> u64 {
    let number = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

/// Calls `work` with the number of each value, and prints what a value costs.
fn measure(name: &str, values: u64, mut work: impl FnMut(u64)) {
    (0..WARM_UP_VALUES).for_each(&mut work);
    let (start, before) = (Instant::now(), allocations());
    (WARM_UP_VALUES..WARM_UP_VALUES + values).for_each(&mut work);
    let (time, allocated) = (start.elapsed(), allocations() - before);
    let value_ns = time.as_secs_f64() * 1e9 / values as f64;
    println!("{name:34} {value_ns:8.1} ns {:10.6} allocations a value", allocated as f64 / values as f64);
}

/// Like [`measure`], of an operator with watermarks.
fn operator<O: Operator<In = Value>>(name: &str, values: u64, keys: u64, mut operator: O) {
    let mut out = Emitter::new();
    measure(&format!("{name}, {keys} keys"), values, |number| {
        operator.process((number, mix(number) % keys), &mut out);
        if number % WATERMARK_VALUES == 0 {
            operator.watermark(number, &mut out);
        }
        out.drain().for_each(|output| drop(black_box(output)));
        black_box(out.take_watermark());
    });
}

fn main() {
    let values =
        std::env::args().nth(1).map_or(5_000_000, |values| values.parse().expect("a number of values"));
    let (time, key) = (|value: &Value| value.0, |value: &Value| value.1);
    let window = WINDOW_VALUES;
    for keys in [100, 10_000, 1_000_000] {
        let mut map: HashMap<u64, u64, ahash::RandomState> = HashMap::default();
        measure(&format!("hash map, {keys} keys"), values, |number| {
            *map.entry(mix(number) % keys).or_default() += 1;
        });
        operator("tumbling count", values, keys, Windows::tumbling(window, time, key, Count));
        operator(
            "sliding count, 6 panes",
            values,
            keys,
            Windows::sliding(window, window / 6, time, key, Count),
        );
        operator("sessions", values, keys, Sessions::new(window, time, key, Count));
        operator("distinct in a window", values, keys, WindowDistinct::new(window, time, key));
        operator("distinct", values, keys, Distinct::new(1 << 21, KeysFull::Forget, key));
        let text = key_into(|value: &Value, key: &mut String| {
            use std::fmt::Write;
            key.clear();
            let _ = write!(key, "/path/{}", value.1);
        });
        operator("tumbling count by text", values, keys, Windows::tumbling(window, time, text, Count));
    }
    operator("event time", values, 100, EventTime::new(1_000, time));
    let mut join = TimeJoin::window(window, side(time, key), side(time, key), |_: &Value, _: &Value| ());
    let mut out = Emitter::new();
    measure("window join, 1 match in 10", values, |number| {
        let value = (number, mix(number) % (window * 10));
        if number % 2 == 0 {
            join.left(value, &mut out)
        } else {
            join.right(value, &mut out)
        }
        if number % WATERMARK_VALUES == 0 {
            join.watermark(number, &mut out);
        }
        out.drain().for_each(drop);
    });
}
