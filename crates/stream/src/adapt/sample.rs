//! Counters of all operators at one moment.

use std::sync::Arc;

use crate::counters::Counters;
use crate::replicas::BinCounts;
use crate::shape::Shape;

/// Times of calls that are taken from an operator at once: 1,600 per second at the default period, whose mean over the
/// fast half-life is known to 5 % even if they vary as much as the exponential distribution.
const CALL_TIMES_MAX: usize = 8;

/// Counters of all operators.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sample {
    /// Time, in nanoseconds since the start or the resumption of the stream.
    pub(crate) now_ns: u64,
    /// The operators, in the order of their numbers; all replicas of one are one.
    pub(crate) operators: Vec<OperatorSample>,
    /// For each group of replicas the tuples of each bin since the start.
    pub(crate) bins: Vec<Vec<u64>>,
}

/// Counters of an operator since the start of the stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct OperatorSample {
    pub(crate) tuples_in: u64,
    pub(crate) tuples_out: u64,
    /// Tuples that a source dropped under overload.
    pub(crate) shed: u64,
    /// Time of watermarks, ends and snapshots, in nanoseconds.
    pub(crate) rare_ns: u64,
    /// Calls that were timed.
    pub(crate) sampled: u64,
    /// Time of those calls, in nanoseconds.
    pub(crate) sampled_ns: u64,
    /// Times of some of those since the last sample, in nanoseconds, the newest first.
    pub(crate) call_ns: Vec<u64>,
    /// Scheduled arrival of the latest value of a source, from the start or the resumption; 0 if it was
    /// before.
    pub(crate) arrival_ns: u64,
    /// Time before which no further value of a source is due.
    pub(crate) due_ns: u64,
}

/// Reads counters.
pub(crate) struct Sampler {
    /// For each operator the counters of its replicas, with the calls that had been timed at the last sample.
    operators: Vec<Vec<(Arc<Counters>, u64)>>,
    /// For each group of replicas the counts of its partitions.
    groups: Vec<Vec<BinCounts>>,
    /// Reading of the stream's clock when the stream was started or resumed.
    begin_ns: u64,
}

impl Sampler {
    pub(crate) fn new(shape: &Shape, begin_ns: u64) -> Sampler {
        let mut operators: Vec<Vec<(Arc<Counters>, u64)>> = Vec::new();
        for (outline, number) in shape.operators.iter().zip(shape.logical_numbers()) {
            operators.resize(number + 1, Vec::new());
            operators[number].push((Arc::clone(&outline.counters), 0));
        }
        let groups = shape.groups.iter();
        let counts = groups.map(|group| group.partitions.iter().map(|one| Arc::clone(&one.counts)).collect());
        Sampler { operators, groups: counts.collect(), begin_ns }
    }

    /// Returns a reading of the stream's clock as time since the start or the resumption.
    pub(crate) fn since_begin(&self, clock_ns: u64) -> u64 {
        clock_ns.saturating_sub(self.begin_ns)
    }

    /// Returns the counters at `now_ns`, a time since the start or the resumption.
    pub(crate) fn sample(&mut self, now_ns: u64) -> Sample {
        let bins = |partitions: &Vec<BinCounts>| {
            let tuples = |bin: usize| partitions.iter().map(|counts| counts[bin].get()).sum();
            (0..partitions[0].len()).map(tuples).collect()
        };
        Sample {
            now_ns,
            operators: self.operators.iter_mut().map(|replicas| read_all(replicas, self.begin_ns)).collect(),
            bins: self.groups.iter().map(bins).collect(),
        }
    }
}

/// Returns the counters of all replicas of an operator.
fn read_all(replicas: &mut [(Arc<Counters>, u64)], begin_ns: u64) -> OperatorSample {
    let mut samples = replicas.iter_mut().map(|(counters, seen)| read(counters, seen, begin_ns));
    let mut all = samples.next().unwrap_or_default();
    for one in samples {
        all.tuples_in += one.tuples_in;
        all.tuples_out += one.tuples_out;
        all.rare_ns += one.rare_ns;
        all.sampled += one.sampled;
        all.sampled_ns += one.sampled_ns;
        all.call_ns.extend(one.call_ns);
    }
    all
}

fn read(counters: &Counters, seen: &mut u64, begin_ns: u64) -> OperatorSample {
    let call_ns = counters.samples_since(*seen, CALL_TIMES_MAX).collect();
    *seen = counters.sampled.get();
    OperatorSample {
        // Before the count: a value that is counted meanwhile seems to arrive a little earlier, not to be missing.
        arrival_ns: counters.arrival_ns.get().saturating_sub(begin_ns),
        due_ns: counters.due_ns.get().saturating_sub(begin_ns),
        tuples_in: counters.tuples_in.get(),
        tuples_out: counters.tuples_out.get(),
        shed: counters.shed.get(),
        rare_ns: counters.rare_ns.get(),
        sampled: *seen,
        sampled_ns: counters.sampled_ns.get(),
        call_ns,
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_counters_of_replicas_are_those_of_one_operator() {
        let replicas = [Arc::new(Counters::default()), Arc::new(Counters::default())];
        let with_seen = replicas.iter().map(|counters| (Arc::clone(counters), 0)).collect();
        let counts: BinCounts = (0..3).map(|_| Default::default()).collect();
        let mut sampler = Sampler {
            operators: vec![with_seen],
            groups: vec![vec![Arc::clone(&counts), Arc::clone(&counts)]],
            begin_ns: 0,
        };
        replicas[0].tuples_in.add(3);
        replicas[1].tuples_in.add(4);
        replicas[1].sample(70);
        counts[2].add(5);
        let sample = sampler.sample(0);
        assert_eq!((sample.operators[0].tuples_in, &sample.operators[0].call_ns[..]), (7, &[70][..]));
        assert_eq!(sample.bins, [[0, 0, 10]]);
        assert_eq!(sampler.sample(0).operators[0].call_ns, []);
    }

    #[test]
    fn each_call_is_taken_once_and_the_latest_if_there_are_many() {
        let counters = Arc::new(Counters::default());
        let operators = vec![vec![(Arc::clone(&counters), 0)]];
        let mut sampler = Sampler { operators, groups: Vec::new(), begin_ns: 0 };
        let mut next = |calls: std::ops::Range<u64>| {
            calls.for_each(|call_ns| counters.sample(call_ns));
            sampler.sample(0).operators.remove(0).call_ns
        };
        assert_eq!(next(0..0), []);
        assert_eq!(next(0..3), [2, 1, 0]);
        assert_eq!(next(3..4), [3]);
        assert_eq!(next(4..1_000), [999, 998, 997, 996, 995, 994, 993, 992]);
    }
}
