//! Bytes that a process has read itself, without its children. Pure.

/// Bytes that a process has read itself.
///
/// The kernel adds the bytes of awaited children to those of a process, but not to those of its threads. So the bytes
/// of a single-threaded process in excess of its thread's are its children's. Threads that end take their counts along:
/// while there are several, the two cannot be distinguished.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OwnBytes {
    /// Bytes of the process in excess of its first thread's that are its own.
    before: Option<u64>,
    of_children: u64,
    /// Value of `of_children` when threads were last counted: what was observed since may belong to other threads.
    sure: u64,
    has_others: bool,
}

impl OwnBytes {
    /// Records the number of threads.
    pub(super) fn count_threads(&mut self, threads: usize) {
        let has_others = threads > 1;
        if has_others {
            (self.before, self.of_children) = (None, self.sure);
        }
        (self.sure, self.has_others) = (self.of_children, has_others);
    }

    /// Returns the bytes that the process has read itself, from the total of the process and, read after that, the
    /// total of its first thread, if known. Never decreases.
    pub(super) fn see(&mut self, process: u64, thread: Option<u64>) -> u64 {
        if let Some(thread) = thread.filter(|_| !self.has_others) {
            let more = process.saturating_sub(thread);
            let before = *self.before.get_or_insert(more.saturating_sub(self.of_children));
            // If the thread reads between the two queries, the difference appears smaller.
            self.of_children = self.of_children.max(more.saturating_sub(before));
        }
        process.saturating_sub(self.of_children)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_child_got_is_not_the_parents() {
        let mut got = OwnBytes::default();
        got.count_threads(1);
        assert_eq!(got.see(100, Some(100)), 100);
        assert_eq!(got.see(150, Some(150)), 150);
        // 1,000 of a child, 50 of its own.
        assert_eq!(got.see(1200, Some(200)), 200);
        got.count_threads(1);
        assert_eq!(got.see(1300, None), 300);
    }

    #[test]
    fn who_reads_between_the_two_looks_loses_nothing() {
        let mut got = OwnBytes::default();
        let all: Vec<u64> = (1..100).map(|at| got.see(at * 100, Some(at * 100 + at * 7 % 60))).collect();
        assert!(all.windows(2).all(|two| two[0] <= two[1]), "{all:?}");
        assert!(all[98] >= 9900 - 60, "{all:?}");
    }

    #[test]
    fn what_other_threads_got_is_its_own_even_if_they_were_not_known_of_at_first() {
        let mut got = OwnBytes::default();
        got.count_threads(1);
        assert_eq!(got.see(100, Some(100)), 100);
        assert_eq!(got.see(600, Some(200)), 200);
        got.count_threads(2);
        assert_eq!(got.see(700, Some(200)), 700);
        got.count_threads(1);
        assert_eq!(got.see(800, Some(300)), 800);
        assert_eq!(got.see(5800, Some(400)), 900);
        got.count_threads(1);
        // A child read 4,900. Then there is another thread again, which reads 100.
        got.count_threads(3);
        assert_eq!(got.see(5900, Some(400)), 1000);
    }
}
