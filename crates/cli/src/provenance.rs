//! Circumstances of a result: command, build, time and machine.

use std::fs;
use std::time::Duration;

use sakiyomi_model::Nanos;
use sakiyomi_report::{Machine, Run};

/// The running machine; what cannot be read is empty or zero.
pub(crate) fn machine() -> Machine {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let kernel =
        format!("{} {}", read("/proc/sys/kernel/ostype").trim(), read("/proc/sys/kernel/osrelease").trim());
    Machine {
        kernel: kernel.trim().to_owned(),
        cpu: field(&read("/proc/cpuinfo"), "model name").unwrap_or_default(),
        cores: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64),
        memory_bytes: memory_bytes(&read("/proc/meminfo")),
    }
}

fn memory_bytes(meminfo: &str) -> u64 {
    let kilobytes = field(meminfo, "MemTotal").and_then(|value| value.split(' ').next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}

/// The value of the first line `name : value`.
fn field(text: &str, name: &str) -> Option<String> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.into_iter().find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
}

/// Circumstances of a measurement.
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

/// Elapsed time as results have it.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_is_in_kibibytes() {
        assert_eq!(memory_bytes("MemTotal:       24500000 kB\nMemFree: 1 kB\n"), 24_500_000 * 1024);
        assert_eq!(memory_bytes("nothing of the kind"), 0);
    }
}
