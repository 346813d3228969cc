//! Placement of files on the device, one after the other, each contiguous or fragmented.

use rand_core::Rng;
use rand_pcg::Pcg64;

/// Placement of one file.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    sectors_per_page: u64,
    pages: u64,
    /// Pages of each fragment but the last.
    pages_per_piece: u64,
    /// First sector of each fragment.
    pieces: Vec<u64>,
}

impl Layout {
    /// Iterates over the sectors of `pages` pages from `start` on, as `(first sector, first page, pages)` per fragment.
    pub(crate) fn runs(&self, start: u64, pages: u64) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let end = (start + pages).min(self.pages);
        let mut page = start;
        std::iter::from_fn(move || {
            let piece = (page < end).then(|| page / self.pages_per_piece)?;
            let first = page;
            page = end.min((piece + 1) * self.pages_per_piece);
            let within = (first - piece * self.pages_per_piece) * self.sectors_per_page;
            Some((self.pieces[piece as usize] + within, first, page - first))
        })
    }

    pub(crate) fn sectors_per_page(&self) -> u64 {
        self.sectors_per_page
    }
}

/// Allocator of placements.
#[derive(Debug)]
pub(crate) struct Places<'a> {
    pub(crate) sectors: u64,
    pub(crate) sectors_per_page: u64,
    pub(crate) random: &'a mut Pcg64,
    /// Start of the next file, in sectors.
    pub(crate) next: u64,
}

impl Places<'_> {
    /// Places a file of `pages` pages after the last file, or from a share of the device on. Fragments are separated by
    /// gaps of up to four times their length. At the end of the device, placement wraps around; content is not
    /// modeled, so overlapping files do no harm.
    pub(crate) fn place(&mut self, pages: u64, at: Option<f64>, piece: Option<u64>) -> Layout {
        if let Some(share) = at {
            self.next = (self.sectors as f64 * share) as u64;
        }
        let pages_per_piece = piece.unwrap_or(pages).clamp(1, pages.max(1));
        let length = pages_per_piece * self.sectors_per_page;
        let mut pieces = Vec::new();
        for index in 0..pages.div_ceil(pages_per_piece) {
            if index > 0 {
                self.next +=
                    self.random.next_u64() % (4 * length + 1) / self.sectors_per_page * self.sectors_per_page;
            }
            if self.next + length > self.sectors {
                self.next = 0;
            }
            pieces.push(self.next);
            self.next += length;
        }
        Layout { sectors_per_page: self.sectors_per_page, pages, pages_per_piece, pieces }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::SeedableRng;

    #[test]
    fn runs_cover_the_pages_and_stay_within_pieces() {
        let mut random = Pcg64::seed_from_u64(1);
        let mut places = Places { sectors: 100_000, sectors_per_page: 8, random: &mut random, next: 16 };
        let whole = places.place(100, None, None);
        assert_eq!(whole.runs(10, 20).collect::<Vec<_>>(), [(16 + 80, 10, 20)]);
        let pieces = places.place(100, Some(0.5), Some(16));
        let runs: Vec<_> = pieces.runs(10, 1000).collect();
        assert_eq!(runs.iter().map(|run| run.2).sum::<u64>(), 90);
        assert!(runs.windows(2).all(|pair| pair[0].1 + pair[0].2 == pair[1].1));
        assert!(runs.iter().all(|run| run.0 >= 50_000 && run.2 <= 16));
    }
}
