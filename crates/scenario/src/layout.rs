//! Where files lie on the device: one behind the other, each in one piece or in many.

use rand_core::Rng;
use rand_pcg::Pcg64;

/// The places of one file.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    sectors_per_page: u64,
    pages: u64,
    /// Every piece but the last has so many pages.
    pages_per_piece: u64,
    /// The first sector of each piece.
    pieces: Vec<u64>,
}

impl Layout {
    /// The sectors of `pages` pages from `start` on, as `(first sector, first page, pages)` for each piece.
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

/// Finds places on a device.
#[derive(Debug)]
pub(crate) struct Places<'a> {
    pub(crate) sectors: u64,
    pub(crate) sectors_per_page: u64,
    pub(crate) random: &'a mut Pcg64,
    /// Where the next file begins.
    pub(crate) next: u64,
}

impl Places<'_> {
    /// A place for so many pages: behind the last file, or from a share of the device on. In pieces, each lies up to
    /// four of its lengths behind the one before. What does not fit goes on at the beginning; content is not modelled,
    /// so that files which meet there do no harm.
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
