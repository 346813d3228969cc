//! The process that a request comes from: FUSE names the thread, a trace names the process.

use std::time::{Duration, Instant};

use sakiyomi_os::process::process_of;

use crate::per_thread::PerThread;

/// Time for which the process of a thread is remembered: thread numbers are reused.
const LOOKUP_MAX_AGE: Duration = Duration::from_secs(2);

/// Threads whose processes are remembered, a power of two. Thread numbers are given in sequence, so that few share a
/// slot.
const THREAD_SLOTS: usize = 4096;

/// Finds the processes of threads. Asking the kernel takes some ten microseconds, so the answers are remembered.
#[derive(Debug, Default)]
pub(crate) struct Processes(PerThread<Known>);

/// The answers, by the thread's number modulo their count.
#[derive(Debug)]
struct Known(Vec<Option<Answer>>);

#[derive(Clone, Copy, Debug)]
struct Answer {
    thread: u32,
    process: u32,
    asked: Instant,
}

impl Default for Known {
    fn default() -> Known {
        Known(vec![None; THREAD_SLOTS])
    }
}

impl Processes {
    /// The process of a thread; 0 (the kernel itself) stays 0, and one that cannot be found stands for itself.
    pub(crate) fn of_thread(&self, thread: u32, now: Instant) -> u32 {
        if thread == 0 {
            return 0;
        }
        self.0.with(|known| {
            let place = &mut known.0[thread as usize % THREAD_SLOTS];
            let valid = place.filter(|answer| {
                answer.thread == thread && now.saturating_duration_since(answer.asked) < LOOKUP_MAX_AGE
            });
            let answer = valid.unwrap_or_else(|| {
                let process = process_of(thread).unwrap_or(thread);
                Answer { thread, process, asked: now }
            });
            *place = Some(answer);
            answer.process
        })
    }
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
        let (processes, now) = (Processes::default(), Instant::now());
        assert_eq!(processes.of_thread(own, now), own);
        // It may have ended already, and then stands for itself.
        let thread = thread.join().unwrap();
        assert!([own, thread].contains(&processes.of_thread(thread, now)));
        assert_eq!(processes.of_thread(0, now), 0);
    }

    #[test]
    fn a_thread_is_not_taken_for_another_at_its_place() {
        let own = std::process::id();
        let (processes, now) = (Processes::default(), Instant::now());
        assert_eq!(processes.of_thread(own, now), own);
        // Numbers of threads end at 2^22; one that nobody has stands for itself.
        let other = own + (1 << 24);
        assert_eq!(processes.of_thread(other, now), other);
        assert_eq!(processes.of_thread(own, now), own);
    }
}
