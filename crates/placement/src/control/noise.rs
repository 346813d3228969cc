//! Index of dispersion of counts, from neighboring samples.

use std::collections::VecDeque;

use super::sample::Sample;

/// Samples of the estimate: its relative error is then about a quarter.
const NOISE_SAMPLES_MAX: usize = 64;

/// Minimum samples of an estimate: with fewer, the 0.1 % quantile is more than three times the true value.
const NOISE_SAMPLES_MIN: usize = 8;

/// Mean of `max(0, -d d')` over the variance of a sample, of neighboring differences `d` and `d'` of normal
/// samples: `2 (sin a + (pi - a) cos a) / pi` with `cos a = 1/2`, minus their correlation (Cho and Saul, *Kernel
/// Methods for Deep Learning*, NIPS 2009, the arc-cosine kernel of degree 1).
const RECTIFIED_RATIO: f64 = 1.218;

/// Estimates below this many times the declared dispersion are ignored: they are within their own noise.
const SIGNIFICANT_RATIO: f64 = 2.0;

/// Samples of a block. Batches at equal intervals make the counts of samples scatter, and those of blocks far less.
const BLOCK_SAMPLES: usize = 8;

/// Estimates the dispersion of counts at a constant rate, in samples and in blocks of samples.
///
/// Neighboring differences of independent samples have a covariance of minus the variance of the sample between
/// them. A step of the rate is in one difference, or in two of the same sign if it falls into a sample, so it adds
/// little. The estimate is therefore kept across windows, which steps end.
#[derive(Clone, Debug)]
pub(super) struct Noise {
    /// The assumed dispersion.
    declared: f64,
    samples: Scatter,
    blocks: Scatter,
    /// Samples of the next block.
    block: Vec<Sample>,
}

impl Noise {
    pub(super) fn new(declared: f64) -> Noise {
        let (samples, blocks) = (Scatter::default(), Scatter::default());
        Noise { declared, samples, blocks, block: Vec::with_capacity(BLOCK_SAMPLES) }
    }

    pub(super) fn add(&mut self, sample: Sample) {
        self.samples.add(sample);
        self.block.push(sample);
        if self.block.len() == BLOCK_SAMPLES {
            let block = self.block.drain(..).reduce(Sample::followed_by);
            block.into_iter().for_each(|block| self.blocks.add(block));
        }
    }

    /// Discards the last samples as neighbors of the next one.
    pub(super) fn interrupt(&mut self) {
        self.samples.last.clear();
        self.blocks.last.clear();
        self.block.clear();
    }

    /// Returns the index of dispersion of the count of a sample, 0 or more.
    pub(super) fn of_sample(&self) -> f64 {
        self.significant(self.samples.dispersion.unwrap_or(0.0))
    }

    /// Returns the index of dispersion of the count of `samples` samples in whole blocks; `None` while too little is
    /// known.
    pub(super) fn of_blocks(&self, samples: usize) -> Option<f64> {
        let dispersion = self.blocks.dispersion.filter(|_| samples >= 2 * BLOCK_SAMPLES)?;
        Some(self.significant(dispersion))
    }

    fn significant(&self, dispersion: f64) -> f64 {
        if dispersion > SIGNIFICANT_RATIO * self.declared { dispersion } else { self.declared }
    }
}

/// Dispersion of samples of one length.
#[derive(Clone, Debug, Default)]
struct Scatter {
    /// At most the last two, the older first.
    last: VecDeque<Sample>,
    /// Variance of the count over one second, and rate, per sample.
    terms: VecDeque<(f64, f64)>,
    /// Index of dispersion; `None` while too little is known.
    dispersion: Option<f64>,
}

impl Scatter {
    fn add(&mut self, sample: Sample) {
        if let (Some(first), Some(middle)) = (self.last.front(), self.last.get(1)) {
            let before = middle.rate_per_s() - first.rate_per_s();
            let after = sample.rate_per_s() - middle.rate_per_s();
            self.terms.push_back(((-before * after).max(0.0) * middle.seconds(), middle.rate_per_s()));
            self.last.pop_front();
        }
        if self.terms.len() > NOISE_SAMPLES_MAX {
            self.terms.pop_front();
        }
        self.last.push_back(sample);
        self.dispersion = self.estimate();
    }

    fn estimate(&self) -> Option<f64> {
        let sum = |of: fn(&(f64, f64)) -> f64| self.terms.iter().map(of).sum::<f64>();
        let rate_per_s = sum(|term| term.1);
        let is_known = self.terms.len() >= NOISE_SAMPLES_MIN && rate_per_s > 0.0;
        is_known.then(|| sum(|term| term.0) / rate_per_s / RECTIFIED_RATIO)
    }
}
