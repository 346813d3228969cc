//! What a cost model needs of a measurement, as a TOML file.
//!
//! The CPU time of a request is taken to be a fixed part and a part for each byte. Where a method was measured with more
//! than one block size, both are fitted (least squares, weighted so that relative errors count alike); with one size all
//! of it is counted by the byte.

use serde::{Deserialize, Serialize};

use crate::case::Case;
use crate::setting::{Buffers, Path, Setting};

/// The name and version of the file's contents.
pub const SCHEMA: &str = "sakiyomi.calibration/1";

/// A calibration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// [`SCHEMA`].
    pub schema: String,
    /// The kernel and the CPU that it was measured with: it holds for no other.
    pub machine: String,
    /// How much each method costs, by target and way of access.
    pub method: Vec<Cost>,
}

/// What a method costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// What was read: `path`, `tmpfs`, `loop`.
    pub target: String,
    /// The method with its depth: `uring:8`.
    pub method: String,
    /// `direct`, `cold` or `cached`.
    pub access: String,
    /// At random places.
    pub random: bool,
    /// `ordinary`, `registered`, `huge` or `huge-registered`.
    pub buffers: String,
    /// CPU time of a request whatever its size, in nanoseconds.
    pub cpu_ns_per_request: f64,
    /// CPU time of a byte, in nanoseconds.
    pub cpu_ns_per_byte: f64,
    /// Bytes a second, by the size of a request in bytes, ascending.
    pub throughput: Vec<Throughput>,
}

/// How fast a size of request is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// Bytes of a request.
    pub block_bytes: u64,
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// CPU time of a byte, in nanoseconds: as many as seconds for 10^9 bytes.
    pub cpu_ns_per_byte: f64,
}

impl Calibration {
    /// That of the cases of some targets.
    #[must_use]
    pub fn new<'a>(machine: String, targets: impl Iterator<Item = (&'a str, &'a [Case])>) -> Calibration {
        let method = targets.flat_map(|(target, cases)| costs(target, cases)).collect();
        Calibration { schema: SCHEMA.to_owned(), machine, method }
    }

    /// As a file.
    #[must_use]
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("strings and numbers can be written")
    }
}

fn costs(target: &str, cases: &[Case]) -> Vec<Cost> {
    let key = |case: &Case| Setting { block: 0, ..case.setting };
    let mut keys: Vec<Setting> = cases.iter().map(key).collect();
    keys.sort();
    keys.dedup();
    let same = |wanted: Setting| cases.iter().filter(move |case| key(case) == wanted);
    keys.into_iter().map(|wanted| cost(target, wanted, same(wanted).collect())).collect()
}

fn cost(target: &str, setting: Setting, mut cases: Vec<&Case>) -> Cost {
    cases.sort_by_key(|case| case.setting.block);
    let points: Vec<(f64, f64)> = cases.iter().map(|case| per_request(case)).collect();
    let (fixed, per_byte) = line(&points);
    let throughput = |case: &&Case| Throughput {
        block_bytes: case.setting.block as u64,
        bytes_per_s: case.throughput,
        cpu_ns_per_byte: case.cpu_ns_per_byte,
    };
    Cost {
        target: target.to_owned(),
        method: setting.method.to_string(),
        access: access_name(setting.path).to_owned(),
        random: setting.random,
        buffers: buffers_name(setting.buffers).to_owned(),
        cpu_ns_per_request: fixed,
        cpu_ns_per_byte: per_byte,
        throughput: cases.iter().map(throughput).collect(),
    }
}

/// Bytes and CPU nanoseconds of a request.
fn per_request(case: &Case) -> (f64, f64) {
    let bytes = case.setting.block as f64;
    (bytes, case.cpu_ns_per_byte * bytes)
}

/// The line through points of size and time whose relative errors are least; neither part is below zero.
fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let weighted = |of: fn(f64, f64) -> f64| -> f64 {
        points.iter().filter(|&&(_, y)| y > 0.0).map(|&(x, y)| of(x, y) / (y * y)).sum()
    };
    let (n, x, y) = (weighted(|_, _| 1.0), weighted(|x, _| x), weighted(|_, y| y));
    let (xx, xy) = (weighted(|x, _| x * x), weighted(|x, y| x * y));
    let determinant = n * xx - x * x;
    let through_zero = if xx > 0.0 { xy / xx } else { 0.0 };
    if determinant <= 1e-9 * n * xx {
        return (0.0, through_zero);
    }
    let slope = (n * xy - x * y) / determinant;
    let fixed = (y - slope * x) / n;
    match () {
        () if fixed < 0.0 => (0.0, through_zero),
        () if slope < 0.0 => (y / n, 0.0),
        () => (fixed, slope),
    }
}

/// `direct`, `cold`, `cached`
#[must_use]
pub fn access_name(path: Path) -> &'static str {
    match path {
        Path::Direct => "direct",
        Path::Cold => "cold",
        Path::Cached => "cached",
    }
}

fn buffers_name(buffers: Buffers) -> &'static str {
    match buffers {
        Buffers::Ordinary => "ordinary",
        Buffers::Registered => "registered",
        Buffers::Huge => "huge",
        Buffers::HugeRegistered => "huge-registered",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_line_is_found_again(fixed in 100.0..20_000.0f64, per_byte in 0.001..0.5f64) {
            let at = |bytes: f64| (bytes, fixed + per_byte * bytes);
            let (found, slope) = line(&[at(4096.0), at(65_536.0), at(1_048_576.0)]);
            prop_assert!((found / fixed - 1.0).abs() < 1e-6 && (slope / per_byte - 1.0).abs() < 1e-6);
        }

        #[test]
        fn no_part_is_below_zero(points in proptest::collection::vec((1.0..1e9f64, 0.0..1e9f64), 0..6)) {
            let (fixed, slope) = line(&points);
            prop_assert!(fixed >= 0.0 && slope >= 0.0 && fixed.is_finite() && slope.is_finite());
        }
    }

    #[test]
    fn one_size_is_counted_by_the_byte() {
        assert_eq!(line(&[(1000.0, 500.0)]), (0.0, 0.5));
    }
}
