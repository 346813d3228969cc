//! Findings about measurements that were saved: calibrations of storage and of operators.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use sakiyomi_probe::calibration::{LoadError, Machine, default_directory, saved};
use sakiyomi_query::calibrate::{OperatorCalibration, default_path};

use super::{Finding, error_chain};

/// The machine of a saved measurement, and when it was, in seconds since 1970.
type Saved = Result<(Machine, u64), LoadError>;

/// Finds the most recent calibration of storage, and reports whether it belongs to this machine.
pub(super) fn calibration() -> Finding {
    let directory = default_directory();
    let last = directory.as_deref().and_then(|directory| saved(directory).into_iter().next());
    let last = last.map(|(path, last)| (path, last.map(|last| (last.machine, last.measured_unix_s))));
    let consequence =
        "cost models load the measured costs of operations by engine, and of messages between cores";
    of_measurement("calibration", consequence, directory, last, "`sakiyomi probe` measures one")
}

/// Finds the costs of operators on tables, and reports whether they belong to this machine.
pub(super) fn operator_costs() -> Finding {
    let path = default_path();
    let last = path.clone().filter(|path| path.exists()).map(|path| {
        let last = OperatorCalibration::load(&path).map(|last| (last.machine, last.measured_unix_s));
        (path, last)
    });
    let directory = path.as_deref().and_then(Path::parent).map(Path::to_owned);
    let consequence = "`query explain` predicts times, and sort, join and aggregate choose the plan by them";
    let measured_by = "`sakiyomi query calibrate` measures them, after `sakiyomi probe`";
    of_measurement("costs of operators", consequence, directory, last, measured_by)
}

/// Reports whether a saved measurement belongs to this machine, and its age.
fn of_measurement(
    what: &'static str,
    consequence: &'static str,
    directory: Option<PathBuf>,
    last: Option<(PathBuf, Saved)>,
    measured_by: &str,
) -> Finding {
    let (available, found) = match (last, directory) {
        (Some((path, Ok((machine, measured_unix_s)))), _) => {
            let differences = machine.differences(&Machine::current());
            let validity = match differences[..] {
                [] => "of this machine and kernel".to_owned(),
                _ => format!("of another {}: measure again", differences.join(" and ")),
            };
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let age = age(now.as_secs().saturating_sub(measured_unix_s));
            (differences.is_empty(), format!("{}, {age} old, {validity}", path.display()))
        }
        (Some((_, Err(error))), _) => (false, error_chain(error)),
        (None, Some(directory)) => (false, format!("none in {}; {measured_by}", directory.display())),
        (None, None) => (false, "neither XDG_STATE_HOME nor HOME says where it is saved".to_owned()),
    };
    Finding { what, available: Some(available), found, consequence }
}

/// Formats a time in the largest unit in which it is at least two: `3 days`.
fn age(seconds: u64) -> String {
    let units = [(86_400, "days"), (3600, "hours"), (60, "minutes")];
    let unit = units.into_iter().find(|(length, _)| seconds >= 2 * length);
    unit.map_or(format!("{seconds} s"), |(length, name)| format!("{} {name}", seconds / length))
}
