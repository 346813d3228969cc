//! Conversion of a trace's byte extents to a drive's sectors.

use sakiyomi_model::{Bytes, Extent, Lba, Op, Sectors};

use crate::error::TraceError;
use crate::record::Record;

/// The drive that a trace runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fit {
    /// Sector size.
    pub sector: Bytes,
    /// Number of addressable sectors.
    pub capacity: Sectors,
    /// Whether to map addresses beyond the end onto the drive, modulo its size, instead of returning an error.
    pub wrap: bool,
}

impl Fit {
    /// Returns the sectors of `record`: its bytes, extended to whole sectors. Empty for a flush. `trace` names the
    /// trace in an error.
    ///
    /// # Errors
    /// [`TraceError::BeyondDrive`], with the record's line, if the extent does not fit.
    pub fn extent(&self, record: &Record, trace: &str) -> Result<Extent, TraceError> {
        if record.op == Op::Flush {
            return Ok(Extent::default());
        }
        let first = record.offset.0 / self.sector.0;
        let sectors = record.end().0.div_ceil(self.sector.0) - first;
        let fits = first.checked_add(sectors).is_some_and(|end| end <= self.capacity.0);
        if fits {
            return Ok(Extent::new(Lba(first), Sectors(sectors)));
        }
        if !self.wrap || sectors > self.capacity.0 {
            return Err(TraceError::BeyondDrive {
                path: trace.to_owned(),
                line: record.line,
                end: record.end(),
                capacity: self.capacity.to_bytes(self.sector),
            });
        }
        // An extent across the end is moved to just before it.
        let wrapped = (first % self.capacity.0).min(self.capacity.0 - sectors);
        Ok(Extent::new(Lba(wrapped), Sectors(sectors)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sakiyomi_model::Nanos;

    fn extent(offset: u64, length: u64, wrap: bool) -> Result<Extent, TraceError> {
        let record = Record::new(Nanos::ZERO, Op::Read, Bytes(offset), Bytes(length));
        Fit { sector: Bytes(4096), capacity: Sectors(100), wrap }.extent(&record, "t.csv")
    }

    #[test]
    fn bytes_are_widened_to_whole_sectors() {
        assert_eq!(extent(4095, 2, false).unwrap(), Extent::new(Lba(0), Sectors(2)));
        assert_eq!(extent(8192, 4096, false).unwrap(), Extent::new(Lba(2), Sectors(1)));
    }

    #[test]
    fn what_does_not_fit_is_refused_or_wrapped() {
        let error = extent(409_600, 512, false).unwrap_err().to_string();
        assert!(error.contains("--wrap"), "{error}");
        assert_eq!(extent(409_600, 512, true).unwrap(), Extent::new(Lba(0), Sectors(1)));
        assert_eq!(extent(99 * 4096, 8192, true).unwrap(), Extent::new(Lba(98), Sectors(2)));
        assert!(extent(0, 4096 * 101, true).is_err(), "longer than the drive");
    }
}
