//! Whose request it is: FUSE names the thread, a trace names the process.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use crate::per_thread::PerThread;

/// A thread's number may be another's after a while.
const VALID: Duration = Duration::from_secs(2);

/// Threads that are remembered at most.
const REMEMBERED_MAX: usize = 4096;

/// Finds the processes of threads; looking takes some ten microseconds, so it remembers.
#[derive(Debug, Default)]
pub(crate) struct Processes(PerThread<BTreeMap<u32, (u32, Instant)>>);

impl Processes {
    /// The process of a thread; 0 (the kernel itself) stays 0, and one that cannot be found stands for itself.
    pub(crate) fn of_thread(&self, thread: u32) -> u32 {
        if thread == 0 {
            return 0;
        }
        let now = Instant::now();
        self.0.with(|known| {
            if let Some(&(process, seen)) = known.get(&thread)
                && now - seen < VALID
            {
                return process;
            }
            let process = look(thread).unwrap_or(thread);
            if known.len() >= REMEMBERED_MAX {
                known.clear();
            }
            known.insert(thread, (process, now));
            process
        })
    }
}

fn look(thread: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_this_process_are_this_process() {
        let own = std::process::id();
        let thread = std::thread::spawn(|| rustix::thread::gettid().as_raw_nonzero().get() as u32);
        let processes = Processes::default();
        assert_eq!(processes.of_thread(own), own);
        // It may have ended already, and then stands for itself.
        let thread = thread.join().unwrap();
        assert!([own, thread].contains(&processes.of_thread(thread)));
        assert_eq!(processes.of_thread(0), 0);
    }
}
