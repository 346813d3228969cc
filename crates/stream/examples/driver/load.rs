//! Loads over time: rate, service times, and the share of tuples that pass a filter in the midst of the chain. The work
//! shifts between the operators before the filter and those behind it, so that the best cut between two cores moves.

use std::ops::Range;
use std::sync::Arc;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

/// Operators of the chain, without source and sink.
pub(crate) const OPERATORS: usize = 8;

/// The operator that drops tuples, counted from 0.
pub(crate) const FILTER: usize = 3;

/// Service times of the paper's experiment: those behind the filter take longer.
const SERVICES_NS: [u64; OPERATORS] = [2_000, 2_000, 2_000, 2_000, 4_000, 4_000, 4_000, 4_000];

/// Shortest and longest service time of a random pattern.
const SERVICE_RANGE_NS: Range<f64> = 800.0..5_000.0;

/// A load, from a time on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Phase {
    /// When it begins.
    pub(crate) from_ns: u64,
    /// Tuples per second.
    pub(crate) rate_per_s: f64,
    /// Share of the tuples that pass the filter.
    pub(crate) passed_ratio: f64,
    /// Service time of each operator.
    pub(crate) services_ns: [u64; OPERATORS],
}

impl Phase {
    /// Work of some operators per tuple of the source.
    pub(crate) fn work_ns(&self, operators: Range<usize>) -> f64 {
        let flow = |operator: usize| if operator > FILTER { self.passed_ratio } else { 1.0 };
        operators.map(|operator| flow(operator) * self.services_ns[operator] as f64).sum()
    }

    /// Share of the busier core's time that operators take if the second core has those from `cut` on.
    pub(crate) fn utilization(&self, cut: usize) -> f64 {
        self.work_ns(0..cut).max(self.work_ns(cut..OPERATORS)) * self.rate_per_s * 1e-9
    }

    /// Whether only the time differs.
    pub(crate) fn has_load_of(&self, other: &Phase) -> bool {
        Phase { from_ns: other.from_ns, ..self.clone() } == *other
    }

    /// The rate at which the busier one of two cores is used by this share if the chain is cut best.
    fn with_share_of_two(self, share: f64) -> Phase {
        let best_ns = (0..=OPERATORS).map(|cut| self.work_ns(0..cut).max(self.work_ns(cut..OPERATORS)));
        let best_ns = best_ns.fold(f64::INFINITY, f64::min);
        Phase { rate_per_s: share / best_ns * 1e9, ..self }
    }

    /// The rate at which a single core is used by this share.
    fn with_share_of_one(self, share: f64) -> Phase {
        Phase { rate_per_s: share / self.work_ns(0..OPERATORS) * 1e9, ..self }
    }
}

/// How tuples of a rate are spaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spacing {
    Constant,
    Poisson,
}

/// Phases one after the other.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pattern {
    /// The first one begins at 0.
    pub(crate) phases: Vec<Phase>,
    pub(crate) end_ns: u64,
    pub(crate) spacing: Spacing,
}

/// Shares that random phases let pass.
const PASSED_RATIOS: [f64; 4] = [0.125, 0.25, 0.5, 1.0];

impl Pattern {
    /// Changes after 2, 3, 4, 5, 6 and 7 units: with units of 5 s at 10, 15, 20, 25, 30 and 35 s. Two loads that need
    /// both cores, and whose best cuts differ, follow each other in both orders, with a load for one core around them.
    pub(crate) fn of_paper(unit_ns: u64) -> Pattern {
        let base = Phase { from_ns: 0, rate_per_s: 0.0, passed_ratio: 0.125, services_ns: SERVICES_NS };
        let low = base.clone().with_share_of_one(0.2);
        let front = Phase { rate_per_s: 110_000.0, ..base.clone() };
        let back = Phase { rate_per_s: 55_000.0, passed_ratio: 1.0, ..base };
        let loads = [&low, &front, &back, &low, &back, &front, &low];
        let begin = |index: usize| if index == 0 { 0 } else { (index as u64 + 1) * unit_ns };
        let phases = loads.iter().enumerate();
        let phases = phases.map(|(index, &load)| Phase { from_ns: begin(index), ..load.clone() }).collect();
        Pattern { phases, end_ns: 8 * unit_ns, spacing: Spacing::Poisson }
    }

    /// Random loads of a random chain that change each `unit_ns`: those of one core, and those of two.
    pub(crate) fn random(seed: u64, unit_ns: u64) -> Pattern {
        let mut random = Pcg64::seed_from_u64(seed);
        let between =
            |random: &mut Pcg64, range: Range<f64>| range.start + unit(random) * (range.end - range.start);
        let services_ns = std::array::from_fn(|_| between(&mut random, SERVICE_RANGE_NS) as u64);
        let phases = (0..8).map(|index| {
            let passed_ratio = PASSED_RATIOS[(unit(&mut random) * PASSED_RATIOS.len() as f64) as usize];
            let base = Phase { from_ns: index * unit_ns, rate_per_s: 0.0, passed_ratio, services_ns };
            if unit(&mut random) < 0.3 {
                base.with_share_of_one(between(&mut random, 0.1..0.35))
            } else {
                base.with_share_of_two(between(&mut random, 0.55..0.72))
            }
        });
        let phases = phases.collect();
        Pattern { phases, end_ns: 8 * unit_ns, spacing: Spacing::Poisson }
    }

    /// One load for a while.
    pub(crate) fn steady(load: &Phase, end_ns: u64, spacing: Spacing) -> Pattern {
        Pattern { phases: vec![Phase { from_ns: 0, ..load.clone() }], end_ns, spacing }
    }

    /// When a phase ends.
    pub(crate) fn phase_end_ns(&self, phase: usize) -> u64 {
        self.phases.get(phase + 1).map_or(self.end_ns, |next| next.from_ns)
    }
}

/// A random number from 0 to 1, without 1.
fn unit(random: &mut Pcg64) -> f64 {
    (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

/// A tuple.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    /// From 0 without gaps.
    pub(crate) number: u64,
    /// Phase in which it was due.
    pub(crate) phase: usize,
}

impl Item {
    /// Whether it passes the filter: of consecutive ones the share of its phase, evenly.
    pub(crate) fn passes(self, pattern: &Pattern) -> bool {
        let ratio = pattern.phases[self.phase].passed_ratio;
        let passed = |items: u64| (items as f64 * ratio) as u64;
        passed(self.number + 1) > passed(self.number)
    }
}

/// Tuples with the times at which they are due; the same ones for the same seed.
pub(crate) struct Schedule {
    pattern: Arc<Pattern>,
    random: Pcg64,
    phase: usize,
    due_ns: f64,
    number: u64,
}

impl Schedule {
    pub(crate) fn new(pattern: &Arc<Pattern>, seed: u64) -> Schedule {
        let (pattern, random) = (Arc::clone(pattern), Pcg64::seed_from_u64(seed));
        let mut schedule = Schedule { pattern, random, phase: 0, due_ns: 0.0, number: 0 };
        schedule.advance();
        schedule
    }

    /// When the next tuple is due; none after the last one.
    pub(crate) fn due_ns(&self) -> Option<u64> {
        (self.phase < self.pattern.phases.len()).then_some(self.due_ns as u64)
    }

    /// Takes the next tuple.
    pub(crate) fn take(&mut self) -> Item {
        let item = Item { number: self.number, phase: self.phase };
        self.number += 1;
        self.advance();
        item
    }

    /// When no tuple is taken any more, whether it is due or not.
    pub(crate) fn end_ns(&self) -> u64 {
        self.pattern.end_ns
    }

    fn advance(&mut self) {
        while let Some(phase) = self.pattern.phases.get(self.phase) {
            let gaps = match self.pattern.spacing {
                Spacing::Constant => 1.0,
                Spacing::Poisson => -(1.0 - unit(&mut self.random)).ln(),
            };
            let (next_ns, end_ns) =
                (self.due_ns + gaps * 1e9 / phase.rate_per_s, self.pattern.phase_end_ns(self.phase) as f64);
            if next_ns < end_ns {
                self.due_ns = next_ns;
                return;
            }
            // The next phase has its own gaps; those of random arrivals have no memory.
            self.due_ns = end_ns;
            self.phase += 1;
        }
    }
}
