//! Read-ahead of Mac OS X 10.9 (`bsd/vfs/vfs_cluster.c`, `osfmk/vm/vm_object.c` of XNU 2422; from memory, not
//! verified). The state belongs to the file, not to the reader.
//!
//! - A call that continues the previous one reads ahead: as much as the call, doubled each time, up to three requests
//!   of maximum size; and again only when less than a quarter of that remains ahead. A call elsewhere resets the state.
//! - A missing page of a mapping loads a cluster: as long as the run of pages touched consecutively before it, or,
//!   without such a run, pages on both sides of it. Nothing is requested in advance.
//!
//! All sizes are in pages.

use std::ops::Range;

/// Read-ahead state of one file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clusters {
    /// Last page of the last call (`cl_lastr`).
    last: Option<u64>,
    /// Page after the last one read ahead (`cl_maxra` + 1).
    ahead: u64,
    /// Length of the last read-ahead (`cl_ralen`).
    length: u64,
    /// Last page touched in a mapping, with the thread; `run` is the number of consecutive touches before it.
    touched: Option<(u64, usize)>,
    run: u64,
}

/// Minimum run of pages for read-ahead.
const RUN_MIN_PAGES: u64 = 3;
/// Minimum cluster: 32 KiB (`preheat_min_bytes`).
const CLUSTER_MIN_PAGES: u64 = 8;

impl Clusters {
    /// Records a call that reads `pages`. Returns the pages to read ahead, at most `most`; `is_there` returns whether a
    /// page is cached or loading.
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

    /// Records a touch of a mapped page by a thread. Alternating threads form no run.
    pub(crate) fn touch(&mut self, page: u64, thread: usize) {
        let before = page.checked_sub(1).map(|page| (page, thread));
        self.run = if before.is_some() && self.touched == before { self.run + 1 } else { 0 };
        self.touched = Some((page, thread));
    }

    /// Returns the cluster to load for the last touched page, which is missing; at most `most` pages.
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
