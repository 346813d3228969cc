//! How many bytes a process got by itself. Pure.

/// Bytes that a process got by itself.
///
/// To a process the system also counts what its children got, once it has waited for them, but not to its threads. So what
/// a process with one thread got more than that is its children's. Threads that end take their figures along: while there
/// are several, nothing is told apart.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Got {
    /// How much more than to its first thread was counted to the process, by its own doing.
    before: Option<u64>,
    of_children: u64,
    /// The same when threads were last counted: what was seen since may have been other threads'.
    sure: u64,
    has_others: bool,
}

impl Got {
    /// So many threads there are.
    pub(super) fn count_threads(&mut self, threads: usize) {
        let has_others = threads > 1;
        if has_others {
            (self.before, self.of_children) = (None, self.sure);
        }
        (self.sure, self.has_others) = (self.of_children, has_others);
    }

    /// What the process got by itself, by what was counted to it and, after that, to its first thread: both in all, and the
    /// second only if it is known. Never falls.
    pub(super) fn see(&mut self, process: u64, thread: Option<u64>) -> u64 {
        if let Some(thread) = thread.filter(|_| !self.has_others) {
            let more = process.saturating_sub(thread);
            let before = *self.before.get_or_insert(more.saturating_sub(self.of_children));
            // A thread that has gone on between the two looks seems to leave less.
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
        let mut got = Got::default();
        got.count_threads(1);
        assert_eq!(got.see(100, Some(100)), 100);
        assert_eq!(got.see(150, Some(150)), 150);
        // 1,000 of a child's, 50 of its own.
        assert_eq!(got.see(1200, Some(200)), 200);
        got.count_threads(1);
        assert_eq!(got.see(1300, None), 300);
    }

    #[test]
    fn who_reads_between_the_two_looks_loses_nothing() {
        let mut got = Got::default();
        let all: Vec<u64> = (1..100).map(|at| got.see(at * 100, Some(at * 100 + at * 7 % 60))).collect();
        assert!(all.windows(2).all(|two| two[0] <= two[1]), "{all:?}");
        assert!(all[98] >= 9900 - 60, "{all:?}");
    }

    #[test]
    fn what_other_threads_got_is_its_own_even_if_they_were_not_known_of_at_first() {
        let mut got = Got::default();
        got.count_threads(1);
        assert_eq!(got.see(100, Some(100)), 100);
        assert_eq!(got.see(600, Some(200)), 200);
        got.count_threads(2);
        assert_eq!(got.see(700, Some(200)), 700);
        got.count_threads(1);
        assert_eq!(got.see(800, Some(300)), 800);
        assert_eq!(got.see(5800, Some(400)), 900);
        got.count_threads(1);
        // A child got 4,900. Then there is another thread again, which gets 100.
        got.count_threads(3);
        assert_eq!(got.see(5900, Some(400)), 1000);
    }
}
