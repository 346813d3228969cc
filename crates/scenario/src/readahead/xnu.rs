//! Read-ahead as Mac OS X 10.9 has it (`bsd/vfs/vfs_cluster.c`, `osfmk/vm/vm_object.c` of XNU 2422; recalled, not looked
//! up). What is remembered belongs to the file, whoever reads it.
//!
//! - A call that goes on where the last one ended brings in more than it wants: as much as it wants, doubled each time,
//!   up to three of the longest requests; again only when less than a quarter of that is still ahead. A call anywhere
//!   else ends it.
//! - A page that is missing in a mapping brings in a cluster: as long as the run of pages touched one after another
//!   before it, or, without such a run, pages on both sides of it. Nothing is asked for in advance.
//!
//! All in pages.

use std::ops::Range;

/// What the kernel remembers of one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clusters {
    /// The last page of the last call (`cl_lastr`).
    last: Option<u64>,
    /// Behind the last page that was read ahead (`cl_maxra` + 1).
    ahead: u64,
    /// How much was read ahead the last time (`cl_ralen`).
    length: u64,
    /// The last page that was touched in a mapping, who touched it, and how many one after another before it.
    touched: Option<(u64, usize)>,
    run: u64,
}

/// Shorter runs are not read ahead.
const RUN_MIN_PAGES: u64 = 3;
/// Shortest cluster: 32 KiB (`preheat_min_bytes`).
const CLUSTER_MIN_PAGES: u64 = 8;

impl Clusters {
    /// A call reads these pages. What is to be read ahead of it, `most` being the longest; `is_there` says whether a
    /// page is in memory or on its way.
    pub(crate) fn call(
        &mut self,
        pages: Range<u64>,
        most: u64,
        is_there: impl FnOnce(u64) -> bool,
    ) -> Option<Range<u64>> {
        let goes_on = self.last.is_none_or(|last| pages.start == last || pages.start == last + 1);
        self.last = pages.end.checked_sub(1);
        if !goes_on || most == 0 {
            (self.length, self.ahead) = (0, 0);
            return None;
        }
        if self.ahead.saturating_sub(pages.end) > most / 4 {
            return None;
        }
        let start = self.ahead.max(pages.end);
        if is_there(start) {
            return None;
        }
        self.length = (self.length * 2).max(pages.end - pages.start).min(most);
        self.ahead = start + self.length;
        Some(start..self.ahead)
    }

    /// A thread touches a page of a mapping. Two that take turns have no run.
    pub(crate) fn touch(&mut self, page: u64, thread: usize) {
        let before = page.checked_sub(1).map(|page| (page, thread));
        self.run = if before.is_some() && self.touched == before { self.run + 1 } else { 0 };
        self.touched = Some((page, thread));
    }

    /// The page that was touched last is missing: the cluster that is brought in, of at most `most` pages.
    pub(crate) fn cluster(&self, most: u64) -> Range<u64> {
        let page = self.touched.map_or(0, |(page, _)| page);
        if self.run >= RUN_MIN_PAGES {
            return page..page + (self.run + 1).clamp(CLUSTER_MIN_PAGES.min(most), most);
        }
        let behind = most / 2;
        page.saturating_sub(behind)..page + (most - behind).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sequential_reader_is_read_ahead_of_until_enough_is_there() {
        let mut file = Clusters::default();
        let missing = |_| false;
        assert_eq!(file.call(0..32, 768, missing), Some(32..64));
        assert_eq!(file.call(32..64, 768, missing), Some(64..128));
        assert_eq!(file.call(64..96, 768, missing), Some(128..256));
        assert_eq!(file.call(96..128, 768, missing), Some(256..512));
        assert_eq!(file.call(128..160, 768, missing), None, "352 pages are still ahead");
        assert_eq!(file.call(900..932, 768, missing), None, "somewhere else");
        assert_eq!(file.call(932..964, 768, missing), Some(964..996), "from the beginning again");
    }

    #[test]
    fn a_run_in_a_mapping_grows_the_cluster_and_another_thread_ends_it() {
        let mut file = Clusters::default();
        (0..100).for_each(|page| file.touch(page, 0));
        assert_eq!(file.cluster(256), 99..199);
        file.touch(500, 1);
        assert_eq!(file.cluster(32), 484..516);
        file.touch(100, 0);
        assert_eq!(file.cluster(32), 84..116);
    }
}
