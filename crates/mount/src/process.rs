//! The process of a request: FUSE names the thread, a trace names the process.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use sakiyomi_os::process::process_of;

/// Time for which the process of a thread is cached: thread IDs are reused.
const LOOKUP_MAX_AGE: Duration = Duration::from_secs(2);

/// Size of the cache, a power of two. Thread IDs are assigned sequentially, so that few share a slot.
const THREAD_SLOTS: usize = 4096;

#[derive(Clone, Copy, Debug)]
struct CachedProcess {
    thread: u32,
    process: u32,
    asked: Instant,
}

/// Returns the process of a thread; 0 (the kernel itself) for 0, and the thread ID itself if the process cannot be
/// found.
///
/// A system call takes some ten microseconds, so each thread that serves requests caches the results, which do not
/// depend on the mount.
pub(crate) fn of_thread(thread: u32, now: Instant) -> u32 {
    thread_local! {
        /// Indexed by the thread ID modulo their number.
        static KNOWN: RefCell<Vec<Option<CachedProcess>>> = const { RefCell::new(Vec::new()) };
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
        *slot = Some(CachedProcess { thread, process, asked: now });
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
        // Thread IDs end at 2^22; an ID that is not in use stands for itself.
        let other = own + (1 << 24);
        assert_eq!(of_thread(other, now), other);
        assert_eq!(of_thread(own, now), own);
    }
}
