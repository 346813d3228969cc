//! Every key of a drive has the documented effect: one test per key.
//!
//! Each file lists in `KEYS` the keys that it covers. The tests run [`common::bare`], whose first zone has tracks of
//! 500 sectors of 20 µs each, so that most expected times are sums of whole microseconds, compared to the nanosecond.

#[path = "../common/mod.rs"]
mod common;

mod array;
mod geometry;
mod interface;
mod queue;
mod read_ahead;
mod segments;
mod servo;
mod smr;
mod write;

use sakiyomi_drive::spec::explain;

/// The keys of each file, and its source text.
const FILES: [(&[&str], &str); 9] = [
    (geometry::KEYS, include_str!("geometry.rs")),
    (servo::KEYS, include_str!("servo.rs")),
    (queue::KEYS, include_str!("queue.rs")),
    (segments::KEYS, include_str!("segments.rs")),
    (read_ahead::KEYS, include_str!("read_ahead.rs")),
    (write::KEYS, include_str!("write.rs")),
    (interface::KEYS, include_str!("interface.rs")),
    (smr::KEYS, include_str!("smr.rs")),
    (array::KEYS, include_str!("array.rs")),
];

#[test]
fn every_key_but_the_name_is_covered_once() {
    let mut covered: Vec<&str> = FILES.iter().flat_map(|(keys, _)| keys.iter().copied()).collect();
    let mut explained: Vec<&str> =
        explain().iter().map(|entry| entry.key).filter(|key| *key != "name").collect();
    covered.sort_unstable();
    explained.sort_unstable();
    let without_test: Vec<_> = explained.iter().filter(|key| !covered.contains(key)).collect();
    assert!(without_test.is_empty(), "no test shows the effect of {without_test:?}");
    assert_eq!(covered, explained, "a key is listed twice, or no drive has it");
}

/// The list alone is not sufficient: the file must also set the key. Zones are set by number.
#[test]
fn every_key_that_a_file_lists_is_set_there() {
    for (keys, text) in FILES {
        for key in keys {
            let times = if key.contains('*') { 1 } else { 2 };
            let set = format!("\"{}\"", key.replace('*', "0"));
            assert!(text.matches(&set).count() >= times, "{key} is listed, but no test sets it");
        }
    }
}
