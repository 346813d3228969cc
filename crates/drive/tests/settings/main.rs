//! Every setting of a drive has the effect that its explanation promises: for each key a test of its own.
//!
//! Each file lists in `KEYS` what it covers. The tests run [`common::bare`], whose first zone has tracks of 500 sectors
//! that take 20 µs each, so that most expected times are sums of whole microseconds, held to the nanosecond.

#[path = "../common/mod.rs"]
mod common;

mod geometry;
mod interface;
mod queue;
mod read_ahead;
mod segments;
mod servo;
mod write;

use sakiyomi_drive::spec::explain;

/// A file's list and its text.
const FILES: [(&[&str], &str); 7] = [
    (geometry::KEYS, include_str!("geometry.rs")),
    (servo::KEYS, include_str!("servo.rs")),
    (queue::KEYS, include_str!("queue.rs")),
    (segments::KEYS, include_str!("segments.rs")),
    (read_ahead::KEYS, include_str!("read_ahead.rs")),
    (write::KEYS, include_str!("write.rs")),
    (interface::KEYS, include_str!("interface.rs")),
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

/// The list alone proves nothing: the file must set the key as well. Zones are set by number.
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
