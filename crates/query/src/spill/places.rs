//! Places of spilled chunks, and their memory: a job that spills terabytes has millions of them.

use super::level::{LEVEL_COUNT, Level};
use crate::job::Reservation;
use crate::sort::chunk::UNIT_BYTES;
use crate::{Error, Job};

/// Purpose that errors name.
const PURPOSE: &str = "keeping the places of spilled rows";

/// A list grows by this part of its length, so that little of its memory is unused.
const GROWTH_PARTS: usize = 8;

/// Minimum places by which a list grows, as many as the first ones of a list of the standard library.
const GROWTH_MIN_PLACES: usize = 4;

/// Places beyond those that are there, for which memory is reserved at once: a run may have only a few.
const PLACES_AHEAD_MIN: usize = 16;

/// Bits of a level.
const LEVEL_BITS: u32 = LEVEL_COUNT.next_power_of_two().trailing_zeros();

/// Maximum number of files of a writer: their numbers and the levels are in the low bits of offsets.
pub(super) const LANES_MAX: usize = UNIT_BYTES >> LEVEL_BITS;

/// Location of a spilled chunk, in few bytes: see [`Place`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spilled {
    /// The offset in the run, a multiple of [`UNIT_BYTES`], plus the file and the level in its low bits.
    start: u64,
    stored: u32,
    checksum: u32,
    bytes: u32,
    rows: u32,
}

/// The parts of a location.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The file, below [`LANES_MAX`].
    pub(super) lane: usize,
    /// Offset in the run, a multiple of [`UNIT_BYTES`].
    pub(super) start: u64,
    /// Bytes on disk, without padding.
    pub(super) stored: u32,
    pub(super) level: Level,
    /// Checksum of the stored bytes.
    pub(super) checksum: u32,
    /// Bytes of its rows.
    pub(super) bytes: u32,
    /// Number of its rows.
    pub(super) rows: u32,
}

impl Spilled {
    pub(super) fn of(place: &Place) -> Spilled {
        let Place { lane, start, stored, level, checksum, bytes, rows } = *place;
        assert!(start.is_multiple_of(UNIT_BYTES as u64) && lane < LANES_MAX, "{place:?}");
        let level = Level::ALL.iter().position(|&other| other == level).expect("a level");
        Spilled { start: start | (lane << LEVEL_BITS | level) as u64, stored, checksum, bytes, rows }
    }

    pub(super) fn place(&self) -> Place {
        let Spilled { start, stored, checksum, bytes, rows } = *self;
        let low = start as usize % UNIT_BYTES;
        let (lane, level) = (low >> LEVEL_BITS, Level::ALL[low % (1 << LEVEL_BITS)]);
        Place { lane, start: start - low as u64, stored, level, checksum, bytes, rows }
    }

    /// Returns the bytes of its rows.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes as usize
    }

    /// Returns the number of its rows.
    pub(crate) fn rows(&self) -> u64 {
        u64::from(self.rows)
    }
}

/// Appends a place to a list, for which [`places_bytes`] suffice.
pub(crate) fn add_place(list: &mut Vec<Spilled>, place: Spilled) {
    if list.len() == list.capacity() {
        list.reserve_exact((list.len() / GROWTH_PARTS).max(GROWTH_MIN_PLACES));
    }
    list.push(place);
}

/// Returns the bytes of the lists of `count` places, unless most lists are short.
pub(crate) fn places_bytes(count: u64) -> usize {
    let parts = GROWTH_PARTS as u64;
    let bytes = count.saturating_mul(size_of::<Spilled>() as u64 * (parts + 1)).div_ceil(parts);
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// Checks that a job has `bytes` for places, before it reads a row.
///
/// # Errors
/// [`Error::Memory`] if it does not.
pub(crate) fn check_spilled_chunks(job: &Job, bytes: usize) -> Result<(), Error> {
    job.reserve(bytes, PURPOSE).map(drop)
}

/// Places of the chunks of a writer, which are in lists of their partitions and runs.
#[derive(Debug)]
pub(super) struct PlaceMemory {
    count: u64,
    reservation: Reservation,
}

impl PlaceMemory {
    /// For no places.
    ///
    /// # Errors
    /// None for no places.
    pub(super) fn new(job: &Job) -> Result<PlaceMemory, Error> {
        Ok(PlaceMemory { count: 0, reservation: job.reserve(0, PURPOSE)? })
    }

    /// Counts one more place.
    ///
    /// # Errors
    /// [`Error::Memory`] if the job has no memory for it.
    pub(super) fn add(&mut self) -> Result<(), Error> {
        self.count += 1;
        let needed = places_bytes(self.count);
        if needed <= self.reservation.bytes() {
            return Ok(());
        }
        let wanted = self.count + (self.count / GROWTH_PARTS as u64).max(PLACES_AHEAD_MIN as u64);
        let ahead = self.reservation.resize(places_bytes(wanted), PURPOSE);
        ahead.or_else(|_| self.reservation.resize(needed, PURPOSE))
    }

    /// Returns the memory of places that will not come.
    pub(super) fn finish(&mut self) {
        // A smaller reservation is never refused.
        let _ = self.reservation.resize(places_bytes(self.count), PURPOSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JobOptions;

    #[test]
    fn the_memory_of_places_is_reserved_and_returned() {
        let job = Job::new(JobOptions { memory: 8 << 20, ..JobOptions::default() }).unwrap();
        let available = job.available();
        let mut places = PlaceMemory::new(&job).unwrap();
        assert_eq!(job.available(), available);
        let mut count = 0;
        let refused = loop {
            count += 1;
            if let Err(refused) = places.add() {
                break refused;
            }
            let reserved = available - job.available();
            assert!((27 * count..=31 * count + 512).contains(&reserved), "{reserved} bytes for {count}");
        };
        assert!(matches!(refused, Error::Memory { .. }), "{refused:?}");
        // The last ones take all there is.
        assert!(job.available() < 27 && places_bytes(count as u64) > available, "{count}");
        drop(places);
        assert_eq!(job.available(), available);
    }

    #[test]
    fn lists_of_places_have_no_more_than_the_reserved_memory() {
        let place = Spilled { start: 0, stored: 1, checksum: 2, bytes: 3, rows: 4 };
        let mut list = Vec::new();
        for count in 1..=20_000 {
            add_place(&mut list, place);
            let places = count + GROWTH_MIN_PLACES as u64;
            assert!(list.capacity() * size_of::<Spilled>() <= places_bytes(places), "{count}");
        }
    }

    #[test]
    fn a_place_has_24_bytes_and_keeps_all_of_its_parts() {
        assert_eq!(size_of::<Spilled>(), 24);
        for (lane, start) in [(0, 0), (LANES_MAX - 1, 1 << 50), (7, 5 * UNIT_BYTES as u64)] {
            for level in Level::ALL {
                let [stored, checksum, bytes, rows] = [1, u32::MAX - 1, u32::MAX, 77];
                let place = Place { lane, start, stored, level, checksum, bytes, rows };
                assert_eq!(Spilled::of(&place).place(), place);
            }
        }
    }
}
