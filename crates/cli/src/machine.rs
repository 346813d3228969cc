//! What machine this is, as reports say it.

use sakiyomi_os::machine::{cores, cpu, kernel, memory_bytes};
use sakiyomi_report::Machine;

/// The running machine; what cannot be read is empty or zero.
pub(crate) fn machine() -> Machine {
    Machine { kernel: kernel(), cpu: cpu(), cores: cores() as u64, memory_bytes: memory_bytes() }
}
