//! Wake-up latency and weight of threads.
#![allow(unsafe_code)]

use std::io;
use std::num::NonZeroU64;
use std::time::Duration;

/// `struct sched_attr` (linux/sched/types.h), the fields that every kernel supports.
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

/// Gives this thread, and those that it starts from now on, a higher weight (nice value `nice`) and, from Linux 6.12
/// on, the time slice `turn`. If that is short, the scheduler runs them soon after they wake, and preempts longer
/// slices of others for them.
///
/// A thread of a real-time class, or with a lower nice value, keeps it.
///
/// For threads that compute little but must run at the right instant.
///
/// # Errors
/// If this process lacks the rights.
pub fn latency_nice(nice: i32, turn: Duration) -> io::Result<()> {
    set(|present| present.min(nice), turn)
}

/// Gives this thread, and those that it starts from now on, the time slice `turn`, from Linux 6.12 on, and the same weight
/// as before. If the slice is short, they wait less for a core, and get no more of it.
///
/// # Errors
/// If the system call fails.
pub fn short_slice(turn: Duration) -> io::Result<()> {
    set(|present| present, turn)
}

/// Moves this thread, but not those that it starts, to the lowest priority of the real-time class (`SCHED_FIFO`): it runs
/// as soon as it is woken, before all threads of the ordinary class. The kernel leaves those a twentieth of the time.
///
/// For a thread that computes little at definite instants, and never waits for one that it keeps from running.
///
/// # Errors
/// If this process lacks the rights.
pub fn real_time() -> io::Result<()> {
    let size = size_of::<Attributes>() as u32;
    let attributes = Attributes {
        size,
        policy: libc::SCHED_FIFO as u32,
        flags: RESET_ON_FORK_FLAG,
        nice: 0,
        priority: 1,
        runtime: 0,
        deadline: 0,
        period: 0,
    };
    // SAFETY: as in `set`.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// `SCHED_FLAG_RESET_ON_FORK`: threads that are started begin in the ordinary class.
const RESET_ON_FORK_FLAG: u64 = 1;

/// Gives this thread, and those that it starts from now on, a lower weight (nice value `nice`, up to 19) and, from
/// Linux 6.12 on, the time slice `turn`. If that is short, it takes little from threads on the same core, and yet
/// does not wait long.
///
/// A thread of a real-time class, or with a higher nice value, keeps it.
///
/// # Errors
/// If this process lacks the rights.
pub fn background(nice: i32, turn: Duration) -> io::Result<()> {
    set(|present| present.max(nice), turn)
}

/// Sets the time slice, and the nice value that `nice` computes from the present one, of a thread of an ordinary
/// class.
fn set(nice: impl FnOnce(i32) -> i32, turn: Duration) -> io::Result<()> {
    // SAFETY: queries the class of this thread.
    let class = unsafe { libc::sched_getscheduler(0) };
    if matches!(class, libc::SCHED_FIFO | libc::SCHED_RR | libc::SCHED_DEADLINE) {
        return Ok(());
    }
    // SAFETY: queries the nice value of this thread. An error (-1) counts as the nice value -1.
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

/// Disables the timer slack of this thread: by default the kernel delays timers by up to 50 us to join wake-ups.
///
/// # Errors
/// If the system call fails.
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
    fn a_real_time_thread_starts_ordinary_ones_or_is_refused() {
        let class = || {
            // SAFETY: queries the class of this thread.
            unsafe { libc::sched_getscheduler(0) & !libc::SCHED_RESET_ON_FORK }
        };
        let of_both = std::thread::spawn(move || {
            let is_real_time = real_time().is_ok();
            (is_real_time, class(), std::thread::spawn(class).join().unwrap())
        });
        let (is_real_time, own, below) = of_both.join().unwrap();
        assert_eq!((own == libc::SCHED_FIFO, below), (is_real_time, libc::SCHED_OTHER));
    }

    #[test]
    fn a_lower_priority_is_never_refused() {
        std::thread::spawn(|| background(10, Duration::from_micros(100)).unwrap()).join().unwrap();
    }
}
