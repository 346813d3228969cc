//! Service times of the uncached accesses of a device: its *profile*.
//!
//! Ideal times and admission are computed from the profile alone. It is measured once, by [`measure()`] on a model of
//! the device or by the caller on a real one, and neither cache hits nor the number or the pattern of other requests
//! move it afterwards. All times are those of one request at a time unless stated otherwise, from its issue to its
//! completion.

mod beside;
mod measure;
mod moments;

use sakiyomi_model::{Bytes, Lba, Nanos, Op, Sectors};

pub(crate) use beside::size_class;
pub use beside::{Beside, DISTRIBUTION_QUANTILES, Distribution};
pub use measure::{Effort, measure, measure_within};
pub use moments::Moments;

/// Request sizes at which service times are measured; the times of other sizes are interpolated.
pub const PROFILE_SIZES: [Bytes; 4] = [Bytes(4 << 10), Bytes(64 << 10), Bytes(256 << 10), Bytes(1 << 20)];

/// Numbers of requests in the device for which times are measured; those of other numbers are interpolated.
pub const PROFILE_DEPTHS: [u32; 6] = [1, 2, 4, 8, 16, 32];

/// The service times of a device.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Number of addressable sectors, the unit of distances.
    pub capacity: Sectors,
    /// Size of a sector.
    pub sector: Bytes,
    /// Reads at random addresses of the whole device, of each of [`PROFILE_SIZES`].
    pub reads: [Moments; 4],
    /// Writes at random addresses, on the medium when they end, of each of [`PROFILE_SIZES`].
    pub writes: [Moments; 4],
    /// Reads of 64 KiB that begin where the previous one ended.
    pub continuing: Moments,
    /// Reads of 4 KiB by the distance from the end of the previous one, as a part of the capacity, in ascending order.
    pub by_distance: Vec<(f64, Moments)>,
    /// Time in which the device completes a batch of random reads of 4 KiB, for each number of [`PROFILE_DEPTHS`].
    pub batches: Vec<Moments>,
    /// Time of a random read of 4 KiB that arrives at any moment while the device has as many others as each of
    /// [`PROFILE_DEPTHS`], and is given no more.
    pub behind: Vec<Moments>,
    /// Times beside others if the device serves several requests at once, and not one after another.
    pub beside: Option<Beside>,
}

impl Profile {
    /// Returns the service time of an access to a random address of the device.
    #[must_use]
    pub fn random(&self, op: Op, size: Bytes) -> Moments {
        let sizes = if op == Op::Write { &self.writes } else { &self.reads };
        at_size(sizes, size)
    }

    /// Returns the service time of an access that continues the previous one of the device.
    #[must_use]
    pub fn continuing(&self, op: Op, size: Bytes) -> Moments {
        if op == Op::Write {
            // The medium has turned on since the previous write ended: as far away as any other address.
            return self.at_distance(op, 0.0, size);
        }
        let [_, _, smaller, larger] = &self.reads;
        let per_byte =
            (larger.mean - smaller.mean).max(0.0) / (PROFILE_SIZES[3].0 - PROFILE_SIZES[2].0) as f64;
        let beyond = size.0 as f64 - PROFILE_SIZES[1].0 as f64;
        Moments {
            mean: (self.continuing.mean + per_byte * beyond).max(0.0),
            variance: self.continuing.variance,
        }
    }

    /// Returns the service time of an access at `distance`, a part of the capacity, from the end of the previous one.
    #[must_use]
    pub fn at_distance(&self, op: Op, distance: f64, size: Bytes) -> Moments {
        let transfer = self.random(op, size) - self.reads[0];
        interpolated(&self.by_distance, distance) + transfer
    }

    /// Returns the service time of an access to `to` if the previous one ended at `from`; of a random one if either is
    /// unknown.
    #[must_use]
    pub fn from_to(&self, from: Option<Lba>, to: Option<Lba>, op: Op, size: Bytes) -> Moments {
        match (from, to) {
            (Some(from), Some(to)) if from == to => self.continuing(op, size),
            (Some(from), Some(to)) => {
                self.at_distance(op, from.0.abs_diff(to.0) as f64 / self.capacity.0.max(1) as f64, size)
            }
            _ => self.random(op, size),
        }
    }

    /// Returns the time in which the device completes `requests` reads of 4 KiB at random addresses.
    #[must_use]
    pub fn batch(&self, requests: u32) -> Moments {
        at_depth(&self.batches, requests)
    }

    /// Returns the time of a random read of 4 KiB that arrives while the device has `others` requests of that kind, at
    /// least one, and is given no more.
    #[must_use]
    pub fn behind(&self, others: u32) -> Moments {
        at_depth(&self.behind, others)
    }

    /// Returns the mean service time of a random read of 4 KiB.
    #[must_use]
    pub fn service(&self) -> Nanos {
        Nanos(self.reads[0].mean as u64)
    }
}

/// Interpolates between the sizes measured; beyond the largest one, time grows with the size as before it.
fn at_size(measured: &[Moments; 4], size: Bytes) -> Moments {
    let size = (size.0 as f64).max(PROFILE_SIZES[0].0 as f64);
    let above = PROFILE_SIZES.iter().position(|&larger| size <= larger.0 as f64).unwrap_or(3).max(1);
    let [low, high] = [above - 1, above].map(|index| PROFILE_SIZES[index].0 as f64);
    measured[above - 1].toward(measured[above], (size - low) / (high - low))
}

/// Interpolates between the depths measured. `measured` may end before the greatest depth, if the device has no room
/// for more.
fn at_depth(measured: &[Moments], depth: u32) -> Moments {
    let Some(last) = measured.len().checked_sub(1) else { return Moments::default() };
    let above = PROFILE_DEPTHS[..=last].iter().position(|&deeper| depth <= deeper).unwrap_or(last);
    let Some(below) = above.checked_sub(1) else { return measured[0] };
    let [low, high] = [below, above].map(|index| f64::from(PROFILE_DEPTHS[index]));
    measured[below].toward(measured[above], (f64::from(depth) - low) / (high - low))
}

fn interpolated(points: &[(f64, Moments)], at: f64) -> Moments {
    let above = points.partition_point(|(distance, _)| *distance < at);
    match (above.checked_sub(1).and_then(|below| points.get(below)), points.get(above)) {
        (Some(&(low, below)), Some(&(high, moments))) => below.toward(moments, (at - low) / (high - low)),
        (Some(&(_, moments)), None) | (None, Some(&(_, moments))) => moments,
        (None, None) => Moments::default(),
    }
}
