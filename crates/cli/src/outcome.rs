//! What was simulated, measured or seen, in the words of the reports' schema.

pub(crate) mod iorate;
mod job;
pub(crate) mod mount;
pub(crate) mod probe;
pub(crate) mod regulation;
pub(crate) mod run;
pub(crate) mod scenario;
mod simulation;
pub(crate) mod top;
mod validation;

pub(crate) use simulation::sim_result;
pub(crate) use validation::{Replayed, judged};

use std::time::Duration;

use sakiyomi_model::Nanos;
use sakiyomi_report::Run;

use crate::machine::machine;

/// How, when and where something was measured.
pub(crate) fn run(wall: Duration) -> Run {
    Run {
        // Names of files need not be text.
        command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: Some(env!("SAKIYOMI_COMMIT")).filter(|commit| !commit.is_empty()).map(str::to_owned),
        wall_ns: nanos(wall),
        machine: machine(),
        ..Run::default()
    }
}

/// The same of a simulation, with its speed.
pub(crate) fn simulation_run(wall: Duration, commands: u64, simulated: Nanos) -> Run {
    let seconds = wall.as_secs_f64();
    Run {
        commands_per_s: (seconds > 0.0).then(|| commands as f64 / seconds),
        simulated_per_wall_ratio: (seconds > 0.0).then(|| simulated.as_secs_f64() / seconds),
        ..run(wall)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Shares at which `count` times in ascending order are looked at: every 0.2 %, and ever denser towards the slowest.
fn curve_shares(count: u64) -> impl Iterator<Item = f64> {
    let even = (0..=500).map(|step| f64::from(step) / 500.0 * 0.99);
    let tail = (1..=300).map(|step| 1.0 - 0.01 * 10f64.powf(-f64::from(step) / 100.0));
    even.chain(tail).take_while(move |share| (1.0 - share) * count as f64 >= 0.5).chain([1.0])
}
