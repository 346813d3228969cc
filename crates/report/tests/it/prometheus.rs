//! Metrics for a monitoring system.

use crate::sample;
use proptest::prelude::*;
use sakiyomi_report::prometheus::{iorate, stream};
use std::collections::BTreeSet;

#[test]
fn one_stream() {
    insta::assert_snapshot!(stream(&sample::stream::run()));
}

#[test]
fn one_device() {
    insta::assert_snapshot!(iorate(&sample::iorate()));
}

/// Parses a sample's name with its labels, and its value.
fn sample_of(line: &str) -> (&str, f64) {
    let (series, value) = line.rsplit_once(' ').unwrap();
    (series, value.parse().unwrap())
}

proptest! {
    #[test]
    fn any_device_gives_a_text_without_a_series_twice(result in sample::any_iorate()) {
        let text = iorate(&result);
        let mut seen = BTreeSet::new();
        let mut announced = BTreeSet::new();
        for line in text.lines() {
            match line.strip_prefix("# TYPE ") {
                Some(kind) => prop_assert!(announced.insert(kind.split(' ').next().unwrap().to_owned())),
                None if line.starts_with("# HELP ") => {}
                None => {
                    let (series, value) = sample_of(line);
                    prop_assert!(value.is_finite() && seen.insert(series.to_owned()), "{line}");
                    prop_assert!(announced.contains(series.split('{').next().unwrap()), "{line}");
                }
            }
        }
    }
}
