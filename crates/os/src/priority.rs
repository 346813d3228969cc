//! The latency and the weight of a thread that is woken, without leaving the ordinary scheduling class.
#![allow(unsafe_code)]

use std::io;
use std::num::NonZeroU64;
use std::time::Duration;

/// `struct sched_attr` (linux/sched/types.h), as far as every kernel knows it.
#[repr(C)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Gives this thread, and those that it starts from now on, a higher weight and, from Linux 6.12 on, a short time
/// slice, so that the scheduler runs them soon after they wake, and interrupts the longer slices of others for them.
///
/// A thread of a real-time class, or with a lower nice value, keeps it.
///
/// For threads that compute little but must run at the right instant.
///
/// # Errors
/// If this process may not, for want of rights.
pub fn latency_nice(nice: i32, turn: Duration) -> io::Result<()> {
    set(|present| present.min(nice), turn)
}

/// Gives this thread, and those that it starts from now on, a lower weight, as a nice value up to 19, and, from Linux
/// 6.12 on, a short time slice: it takes little from threads on the same core, and yet is not kept waiting for long.
///
/// A thread of a real-time class, or with a higher nice value, keeps it.
///
/// # Errors
/// If this process may not, for want of rights.
pub fn background(nice: i32, turn: Duration) -> io::Result<()> {
    set(|present| present.max(nice), turn)
}

/// Sets the nice value that follows from the present one, and the time slice, of a thread of an ordinary class.
fn set(nice: impl FnOnce(i32) -> i32, turn: Duration) -> io::Result<()> {
    // SAFETY: asks for the class of this thread.
    let class = unsafe { libc::sched_getscheduler(0) };
    if matches!(class, libc::SCHED_FIFO | libc::SCHED_RR | libc::SCHED_DEADLINE) {
        return Ok(());
    }
    // SAFETY: asks for the nice value of this thread. Where it cannot be told, it is not below 0.
    let nice = nice(unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) });
    let runtime = u64::try_from(turn.as_nanos()).unwrap_or(u64::MAX);
    let size = size_of::<Attributes>() as u32;
    // Policy 0 is SCHED_OTHER.
    let attributes =
        Attributes { size, policy: 0, flags: 0, nice, priority: 0, runtime, deadline: 0, period: 0 };
    // SAFETY: the kernel reads as many bytes as `size` says, of a structure that lives until it returns; 0 is this
    // thread.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Lets this thread's timers expire at their time; by default the kernel delays each by up to 50 us to join wake-ups.
///
/// # Errors
/// If the kernel refuses it.
pub fn precise_timers() -> io::Result<()> {
    Ok(rustix::thread::set_current_timer_slack(NonZeroU64::new(1))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinary_priority_is_never_refused() {
        std::thread::spawn(|| latency_nice(0, Duration::from_micros(500)).unwrap()).join().unwrap();
    }

    #[test]
    fn a_lower_priority_is_never_refused() {
        std::thread::spawn(|| background(10, Duration::from_micros(100)).unwrap()).join().unwrap();
    }
}
