//! The process that a request comes from: FUSE names the thread, a trace names the process.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use sakiyomi_os::process::process_of;

/// Time for which the process of a thread is remembered: thread numbers are reused.
const LOOKUP_MAX_AGE: Duration = Duration::from_secs(2);

/// Threads whose processes are remembered, a power of two. Thread numbers are given in sequence, so that few share a
/// slot.
const THREAD_SLOTS: usize = 4096;

#[derive(Clone, Copy, Debug)]
struct Answer {
    thread: u32,
    process: u32,
    asked: Instant,
}

/// The process of a thread; 0 (the kernel itself) stays 0, and one that cannot be found stands for itself.
///
/// Asking the kernel takes some ten microseconds, so each thread that serves requests remembers the answers: the
/// process of a thread does not depend on the mount.
pub(crate) fn of_thread(thread: u32, now: Instant) -> u32 {
    thread_local! {
        /// By the number modulo their count.
        static KNOWN: RefCell<Vec<Option<Answer>>> = const { RefCell::new(Vec::new()) };
    }
    if thread == 0 {
        return 0;
    }
    KNOWN.with_borrow_mut(|known| {
        if known.is_empty() {
            known.resize(THREAD_SLOTS, None);
        }
        let slot = &mut known[thread as usize % THREAD_SLOTS];
        if let Some(answer) = slot
            && answer.thread == thread
            && now.saturating_duration_since(answer.asked) < LOOKUP_MAX_AGE
        {
            return answer.process;
        }
        let process = process_of(thread).unwrap_or(thread);
        *slot = Some(Answer { thread, process, asked: now });
        process
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_this_process_are_this_process() {
        let own = std::process::id();
        let thread = std::thread::spawn(|| {
            // `PID/task/TID`
            let own = std::fs::read_link("/proc/thread-self").unwrap();
            own.file_name().unwrap().to_str().unwrap().parse().unwrap()
        });
        let now = Instant::now();
        assert_eq!(of_thread(own, now), own);
        // It may have ended already, and then stands for itself.
        let thread = thread.join().unwrap();
        assert!([own, thread].contains(&of_thread(thread, now)));
        assert_eq!(of_thread(0, now), 0);
    }

    #[test]
    fn a_thread_is_not_taken_for_another_in_its_slot() {
        let own = std::process::id();
        let now = Instant::now();
        assert_eq!(of_thread(own, now), own);
        // Thread numbers end at 2^22; a number that is not in use stands for itself.
        let other = own + (1 << 24);
        assert_eq!(of_thread(other, now), other);
        assert_eq!(of_thread(own, now), own);
    }
}
