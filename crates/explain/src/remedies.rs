//! Remedies for the waits of a program, each with its prediction.

use sakiyomi_drive::fixed::FixedSpec;
use sakiyomi_model::{Bytes, Nanos};

use crate::predict::{Change, PredictError, Prediction, Prefetching, Present, Storage};

/// Read-aheads of the kernel that are considered.
const READ_AHEADS: [Bytes; 2] = [Bytes(1 << 20), Bytes(4 << 20)];
/// Least gain, as a share of the elapsed time, with which something is proposed.
pub const GAIN_MIN_RATIO: f64 = 0.05;

/// Elapsed times that differ by less than a part in this many count as equal.
const STEPS_PER_E: f64 = 40.0;

/// Something that may shorten the elapsed time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Prefetching by `sakiyomi run`.
    Run,
    /// Prefetching by `sakiyomi run` as it has learned from a run before.
    LearnedRun,
    /// A larger read-ahead of the kernel, of all files on this storage.
    ReadAhead(Bytes),
    /// Storage that takes no time: what all remedies together can gain at most.
    NoWaiting,
}

/// A remedy and its prediction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PredictedRemedy {
    /// The remedy.
    pub remedy: Remedy,
    /// The elapsed time with it.
    pub prediction: Prediction,
}

impl PredictedRemedy {
    /// Returns whether it shortens the elapsed time noticeably, whatever is true within the interval of its prediction.
    #[must_use]
    pub fn is_worthwhile(&self, elapsed: Nanos) -> bool {
        let most = elapsed.0 as f64 * (1.0 - GAIN_MIN_RATIO);
        self.remedy != Remedy::NoWaiting
            && self.prediction.elapsed.0 as f64 <= most
            && self.prediction.high <= elapsed
    }
}

/// Predicts all remedies, those that can be applied in ascending order of the elapsed time, and the bound last.
///
/// # Errors
/// If a simulation fails.
pub fn remedies(present: &Present<'_>, read_ahead: Bytes) -> Result<Vec<PredictedRemedy>, PredictError> {
    let larger = READ_AHEADS.into_iter().filter(|&bytes| bytes > read_ahead);
    let mut all: Vec<PredictedRemedy> = Vec::new();
    for remedy in [Remedy::Run, Remedy::LearnedRun].into_iter().chain(larger.map(Remedy::ReadAhead)) {
        all.push(PredictedRemedy { remedy, prediction: present.predict(&remedy.change())? });
    }
    // Of equally good ones the first: `run` concerns one program, and a small read-ahead harms others less.
    all.sort_by_key(|remedy| ((remedy.prediction.elapsed.0.max(1) as f64).ln() * STEPS_PER_E) as u64);
    let bound = Remedy::NoWaiting;
    all.push(PredictedRemedy { remedy: bound, prediction: present.predict(&bound.change())? });
    Ok(all)
}

impl Remedy {
    /// Returns what it changes.
    #[must_use]
    pub fn change(self) -> Change {
        match self {
            Remedy::Run => Change { prefetching: Prefetching::Followed, ..Change::NONE },
            Remedy::LearnedRun => Change { prefetching: Prefetching::Learned, ..Change::NONE },
            Remedy::ReadAhead(bytes) => Change { read_ahead: Some(bytes), ..Change::NONE },
            Remedy::NoWaiting => {
                let instant = FixedSpec { latency: Nanos(1), parallel: 1024, ..FixedSpec::default() };
                let storage = Storage::Fixed(instant);
                Change { storage, metadata: Some(Nanos::ZERO), ..Change::NONE }
            }
        }
    }
}
