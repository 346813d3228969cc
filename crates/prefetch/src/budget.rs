//! Memory that data ahead of a consumer may fill.

use sakiyomi_io::buffer::available_memory;
use sakiyomi_os::process::memory;

/// Returns the default budget of a consumer in this process, in bytes: a quarter of the available memory, but at most half of
/// what the process's control group has left, because data that was used stays cached as long as data ahead.
pub(crate) fn of_this_process() -> u64 {
    let left = memory::left_to(std::process::id());
    left.map_or(u64::MAX, |left| left / 2).min(available_memory() / 4)
}
