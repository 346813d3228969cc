//! Circumstances of a result: command, build, time and machine.

use std::time::Duration;

use sakiyomi_model::Nanos;
use sakiyomi_os::machine::{cores, cpu, kernel, memory_bytes};
use sakiyomi_report::{Machine, Run};

/// Returns the running machine; unreadable properties are empty or zero.
pub(crate) fn machine() -> Machine {
    Machine { kernel: kernel(), cpu: cpu(), cores: cores() as u64, memory_bytes: memory_bytes() }
}

/// Returns the circumstances of a measurement.
pub(crate) fn run(wall: Duration) -> Run {
    Run {
        // Names of files need not be valid Unicode.
        command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
        wall_ns: Some(nanos(wall)),
        machine: machine(),
        ..build()
    }
}

/// Circumstances of a result that is to be the same bytes whenever and wherever it is made: the build alone.
pub(crate) fn build() -> Run {
    Run {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: Some(env!("SAKIYOMI_COMMIT")).filter(|commit| !commit.is_empty()).map(str::to_owned),
        ..Run::default()
    }
}

/// Returns the circumstances of a simulation, with its speed.
pub(crate) fn simulation_run(wall: Duration, commands: u64, simulated: Nanos) -> Run {
    let seconds = wall.as_secs_f64();
    Run {
        commands_per_s: (seconds > 0.0).then(|| commands as f64 / seconds),
        simulated_per_wall_ratio: (seconds > 0.0).then(|| simulated.as_secs_f64() / seconds),
        ..run(wall)
    }
}

/// Returns the elapsed time in the unit of results.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
