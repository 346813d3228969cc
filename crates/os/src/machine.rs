//! The kernel, the CPU and the memory of this machine, from `/proc`.

use std::fs;

/// Returns the kernel's name and release: `Linux 6.12.5`. Empty if it is not reported.
#[must_use]
pub fn kernel() -> String {
    let read = |name: &str| fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
    format!("{} {}", read("ostype").trim(), read("osrelease").trim()).trim().to_owned()
}

/// Returns the CPU's name; empty if it is not reported, as on many ARM machines.
#[must_use]
pub fn cpu() -> String {
    field(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default(), "model name").unwrap_or_default()
}

/// Returns the number of CPUs that this process may use; at least 1.
#[must_use]
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Returns the memory in bytes; 0 if it is not reported.
#[must_use]
pub fn memory_bytes() -> u64 {
    total(&fs::read_to_string("/proc/meminfo").unwrap_or_default())
}

fn total(meminfo: &str) -> u64 {
    let kilobytes = field(meminfo, "MemTotal").and_then(|value| value.split(' ').next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0).saturating_mul(1024)
}

/// Returns the value of the first line `name : value`.
fn field(text: &str, name: &str) -> Option<String> {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_is_in_kibibytes() {
        assert_eq!(total("MemTotal:       24500000 kB\nMemFree: 1 kB\n"), 24_500_000 * 1024);
        assert_eq!(total("nothing of the kind"), 0);
    }
}
