use std::path::Path;

use super::*;
use crate::cost::operators::{Codec, FileFormat, ValueKind};

fn glance() -> OperatorCalibration {
    calibrate(7, Effort::Glance, &[], &mut |_| true).unwrap()
}

fn parse(text: &str) -> Result<OperatorCalibration, LoadError> {
    OperatorCalibration::parse(text.as_bytes(), Path::new("operators.json"))
}

#[test]
fn all_costs_are_measured_and_can_be_calculated_with() {
    let mut groups = Vec::new();
    let found = calibrate(7, Effort::Glance, &[], &mut |group| {
        groups.push(group);
        true
    });
    let operators = found.unwrap().operators;
    assert_eq!(groups, steps(0));
    assert_eq!(operators.fault(), None);
    for format in [FileFormat::Parquet, FileFormat::Arrow, FileFormat::Csv] {
        for kind in ValueKind::ALL {
            assert!(operators.decode(format, kind, false).is_some(), "{format:?} {kind:?}");
            assert!(operators.encode(format, kind, true).is_some(), "{format:?} {kind:?}");
        }
    }
    for codec in [Codec::None, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        assert!(operators.codec(codec).unwrap().compressed_ratio <= 1.0);
    }
}

#[test]
fn saved_costs_are_loaded_again() {
    let calibration = glance();
    assert_eq!(parse(&calibration.to_json()).unwrap(), calibration);
}

#[test]
fn a_damaged_file_or_another_version_is_refused_with_advice() {
    let text = glance().to_json();
    for cut in [0, 1, text.len() / 2, text.len() - 3] {
        assert!(matches!(parse(&text[..cut]), Err(LoadError::Damaged { .. })));
    }
    for version in ["5", "99"] {
        let other = text.replacen("operator-costs/7", &format!("operator-costs/{version}"), 1);
        let error = parse(&other).unwrap_err().to_string();
        assert!(error.contains(&format!("operator-costs/{version}")), "{error}");
        assert!(error.contains("sakiyomi query calibrate"), "{error}");
    }
    let key = "\"comparison_ns\": ";
    let at = text.find(key).unwrap() + key.len();
    let negative = format!("{}-1{}", &text[..at], &text[at + text[at..].find(',').unwrap()..]);
    assert!(parse(&negative).unwrap_err().to_string().contains("from 0 on"));
}

#[test]
fn a_file_that_is_not_there_is_an_error_with_advice() {
    let error = OperatorCalibration::load(Path::new("/nowhere/operators.json")).unwrap_err().to_string();
    assert!(
        error.contains("/nowhere/operators.json") && error.contains("sakiyomi query calibrate"),
        "{error}"
    );
}

#[test]
fn a_measurement_that_is_cancelled_ends() {
    let mut begun = 0;
    let ended = calibrate(7, Effort::Glance, &[], &mut |_| {
        begun += 1;
        begun < 3
    });
    assert!(matches!(ended, Err(Error::Cancelled)));
    assert_eq!(begun, 3);
}
