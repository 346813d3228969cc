//! What machine this is, as far as `/proc` tells.

use std::fs;

use sakiyomi_report::Machine;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_is_in_kibibytes() {
        assert_eq!(memory_bytes("MemTotal:       24500000 kB\nMemFree: 1 kB\n"), 24_500_000 * 1024);
        assert_eq!(memory_bytes("nothing of the kind"), 0);
    }
}
