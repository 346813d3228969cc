//! Hits and misses as labeled by the real drive, compared with those of the simulation.

use std::ops::Range;

use sakiyomi_model::{Class, Lba, Op};

use crate::measured::{Label, Measured};
use crate::pairs::{Pairs, pairs};
use crate::replay::Simulated;

/// Confusion matrix of the reads' labels and their prediction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Confusion {
    /// Labeled a hit, predicted a hit.
    pub hits_as_hits: u64,
    /// Labeled a hit, predicted a miss.
    pub hits_as_misses: u64,
    /// Labeled a miss, predicted a hit.
    pub misses_as_hits: u64,
    /// Labeled a miss, predicted a miss.
    pub misses_as_misses: u64,
}

impl Confusion {
    fn add(&mut self, label: Label, taken_for_hit: bool) {
        let count = match (label, taken_for_hit) {
            (Label::Hit, true) => &mut self.hits_as_hits,
            (Label::Hit, false) => &mut self.hits_as_misses,
            (Label::Miss, true) => &mut self.misses_as_hits,
            (Label::Miss, false) => &mut self.misses_as_misses,
        };
        *count += 1;
    }

    /// Returns the number of reads labeled hits.
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.hits_as_hits + self.hits_as_misses
    }

    /// Returns the number of reads labeled misses.
    #[must_use]
    pub fn misses(&self) -> u64 {
        self.misses_as_hits + self.misses_as_misses
    }

    /// Returns the share of correct predictions among the labeled reads; zero if there are none.
    #[must_use]
    pub fn agreement(&self) -> f64 {
        let all = self.hits() + self.misses();
        if all == 0 { 0.0 } else { (self.hits_as_hits + self.misses_as_misses) as f64 / all as f64 }
    }
}

/// Agreement of the simulation with the labels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Agreement {
    /// Predictions by the simulation.
    pub simulated: Confusion,
    /// Predictions by the simplest rule: a read is a hit if it starts where the last read ended.
    pub baseline: Confusion,
    /// Time errors of the reads labeled hits.
    pub hits: Pairs,
    /// Time errors of the reads labeled misses.
    pub misses: Pairs,
}

/// Compares the labels of the reads within `part` with the simulation. Returns `None` unless both labels occur: a
/// constant label carries no information.
#[must_use]
pub fn agreement(measured: &[Measured], simulated: &[Simulated], part: Range<usize>) -> Option<Agreement> {
    let mut last_end: Option<Lba> = None;
    let mut reads: Vec<(Label, &Measured, &Simulated)> = Vec::new();
    let mut baseline = Confusion::default();
    for (index, (request, own)) in measured.iter().zip(simulated).enumerate() {
        if request.op != Op::Read {
            continue;
        }
        let goes_on = last_end.replace(request.extent.end()) == Some(request.extent.start);
        if let Some(label) = request.label.filter(|_| part.contains(&index)) {
            baseline.add(label, goes_on);
            reads.push((label, request, own));
        }
    }
    if baseline.hits() == 0 || baseline.misses() == 0 {
        return None;
    }
    let mut counts = Confusion::default();
    reads.iter().for_each(|(label, _, own)| counts.add(*label, is_hit(own)));
    let times = |wanted: Label| {
        let labeled = reads.iter().filter(move |(label, _, _)| *label == wanted);
        pairs(labeled.map(|(_, request, own)| (request.response, own.response)))
    };
    Some(Agreement { simulated: counts, baseline, hits: times(Label::Hit), misses: times(Label::Miss) })
}

/// Returns whether the simulated drive served a read without positioning.
pub(crate) fn is_hit(simulated: &Simulated) -> bool {
    matches!(simulated.class, Class::Read(class) if class.is_hit())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{read, simulated};
    use proptest::prelude::*;
    use sakiyomi_model::{Nanos, ReadClass};

    fn labeled(start: u64, label: Label) -> Measured {
        Measured { label: Some(label), ..read(start, 8, 10) }
    }

    #[test]
    fn counts_are_kept_by_label() {
        use Label::{Hit, Miss};
        let measured = [labeled(0, Miss), labeled(8, Hit), labeled(16, Miss), labeled(80, Hit)];
        let classes = [ReadClass::PureMiss, ReadClass::FullHit, ReadClass::ActiveHit, ReadClass::NearMiss];
        let simulated: Vec<Simulated> = classes.map(|class| simulated(13, class)).to_vec();
        let found = agreement(&measured, &simulated, 0..4).unwrap();
        let one_of_each =
            Confusion { hits_as_hits: 1, hits_as_misses: 1, misses_as_hits: 1, misses_as_misses: 1 };
        assert_eq!((found.simulated, found.baseline), (one_of_each, one_of_each));
        assert_eq!((found.hits.requests, found.misses.bias_ns), (2, 3.0));
        // The rule uses reads before the part: the read at 8 continues the one at 0.
        let later = agreement(&measured, &simulated, 1..3).unwrap();
        assert_eq!((later.baseline.hits_as_hits, later.baseline.misses_as_hits), (1, 1));
    }

    #[test]
    fn a_write_between_does_not_end_a_run_of_reads() {
        let write = Measured { op: Op::Write, ..read(500, 8, 10) };
        let measured = [labeled(0, Label::Miss), write, labeled(8, Label::Hit)];
        let simulated = [simulated(1, ReadClass::PureMiss); 3];
        assert_eq!(agreement(&measured, &simulated, 0..3).unwrap().baseline.hits_as_hits, 1);
    }

    proptest! {
        #[test]
        fn a_constant_label_says_nothing(hit: bool, count in 0usize..20) {
            let label = if hit { Label::Hit } else { Label::Miss };
            let measured = vec![labeled(0, label); count];
            let simulated = vec![simulated(1, ReadClass::FullHit); count];
            prop_assert!(agreement(&measured, &simulated, 0..count).is_none());
        }

        #[test]
        fn every_labeled_read_is_counted_once(labels in prop::collection::vec(0u8..3, 2..40), hits: u64) {
            let measured: Vec<Measured> = labels
                .iter()
                .map(|label| match label {
                    0 => labeled(0, Label::Hit),
                    1 => labeled(0, Label::Miss),
                    _ => Measured { response: Nanos(3), ..read(0, 8, 10) },
                })
                .collect();
            let class = |index| if hits >> (index % 64) & 1 == 1 { ReadClass::FullHit } else { ReadClass::PureMiss };
            let simulated: Vec<Simulated> = (0..labels.len()).map(|index| simulated(1, class(index))).collect();
            let count = |wanted| labels.iter().filter(|label| **label == wanted).count() as u64;
            match agreement(&measured, &simulated, 0..labels.len()) {
                None => prop_assert!(count(0) == 0 || count(1) == 0),
                Some(found) => {
                    for counts in [found.simulated, found.baseline] {
                        prop_assert_eq!((counts.hits(), counts.misses()), (count(0), count(1)));
                        prop_assert!((0.0..=1.0).contains(&counts.agreement()));
                    }
                    prop_assert_eq!((found.hits.requests, found.misses.requests), (count(0), count(1)));
                }
            }
        }
    }
}
