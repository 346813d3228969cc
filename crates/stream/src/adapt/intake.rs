//! Arrivals at the sources, by their scheduled times.
//!
//! A source that cannot keep up emits fewer tuples than arrive, and its counter says nothing about the rate. But each
//! value names its scheduled arrival, and a source that has nothing to emit names the time before which nothing is
//! due: up to the later of the two, its *horizon*, all arrivals have been counted. The rate is that of counts over the
//! progress of the horizon, not of the clock: a source that is behind has it right, of the arrivals that it is
//! processing. How far the horizon is behind the clock says whether there is a backlog.

use sakiyomi_placement::{ArrivalMeter, Error};

use super::estimates::{Figure, Tracked};
use super::sample::Sample;

/// Time after which a source that emits while its horizon stays counts as one whose input is never exhausted, such as
/// a file all of whose tuples are due at the start.
const HORIZON_AGE_MAX_NS: u64 = 50_000_000;

/// Rate of such a source, in relation to what is processed: any rate beyond what the stream can process is as good.
const UNLIMITED_RATE_RATIO: f64 = 2.0;

/// Smallest progress of the horizon, as a share of the time between two samples, that gives a rate: a few tuples within
/// a microsecond say nothing.
const HORIZON_PROGRESS_MIN_RATIO: f64 = 1.0 / 16.0;

/// Counts that show that a rate has changed: those of a twentieth of a second, each of many tuples.
const COUNTS_MIN: f64 = 10.0;

/// All arrivals.
pub(crate) struct Intake {
    sources: Vec<SourceIntake>,
    last_ns: u64,
    /// Estimated number of tuples that have arrived.
    arrived: f64,
    taken: u64,
    shed: u64,
}

struct SourceIntake {
    operator: usize,
    /// The horizon at which the rate was last taken, and the tuples until then.
    horizon_ns: u64,
    tuples: u64,
    /// The clock at that time.
    at_ns: u64,
    per_ns: f64,
    arrived: f64,
    rates: Tracked<ArrivalMeter>,
}

/// Arrivals in a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Arrived {
    /// Estimated number of tuples that have arrived at all sources until now.
    pub(crate) tuples: u64,
    /// Tuples that the sources have taken since the sample before.
    pub(crate) taken: u64,
    /// Tuples that they have dropped since then.
    pub(crate) shed: u64,
    /// How far the source that is most behind is behind the clock, in nanoseconds.
    pub(crate) late_ns: u64,
}

impl Intake {
    pub(crate) fn new(sources: &[usize]) -> Result<Intake, Error> {
        let source = |&operator: &usize| {
            let rates = Tracked::new(ArrivalMeter::new, COUNTS_MIN)?;
            let (horizon_ns, tuples, at_ns) = (0, 0, 0);
            Ok(SourceIntake { operator, horizon_ns, tuples, at_ns, per_ns: 0.0, arrived: 0.0, rates })
        };
        let sources = sources.iter().map(source).collect::<Result<_, Error>>()?;
        Ok(Intake { sources, last_ns: 0, arrived: 0.0, taken: 0, shed: 0 })
    }

    /// Takes a sample, which must not be earlier than the last.
    pub(crate) fn add(&mut self, sample: &Sample) -> Arrived {
        let step_ns = sample.now_ns.saturating_sub(self.last_ns);
        self.last_ns = sample.now_ns;
        let late = self.sources.iter_mut().map(|source| source.add(sample, step_ns)).max();
        self.arrived = self.sources.iter().map(|source| source.arrived).sum();
        let sum = |of: fn(&super::sample::OperatorSample) -> u64| {
            self.sources.iter().map(|source| of(&sample.operators[source.operator])).sum::<u64>()
        };
        let (taken, shed) = (sum(|source| source.tuples_in), sum(|source| source.shed));
        let arrived = Arrived {
            tuples: self.arrived as u64,
            taken: taken.saturating_sub(self.taken),
            shed: shed.saturating_sub(self.shed),
            late_ns: late.unwrap_or(0),
        };
        (self.taken, self.shed) = (taken, shed);
        arrived
    }

    /// Tuples per second that arrive at each source, in the order of the sources.
    pub(crate) fn rates_per_s(&mut self) -> Vec<Figure> {
        let rate = |source: &mut SourceIntake| {
            let measured = source.rates.estimate(|meter| Some(meter.figures()?.rate_per_s));
            measured.map_or(Figure::guess(source.per_ns * 1e9), Figure::from)
        };
        self.sources.iter_mut().map(rate).collect()
    }
}

impl SourceIntake {
    /// Takes a sample `step_ns` after the last one. How far the source is behind, in nanoseconds.
    fn add(&mut self, sample: &Sample, step_ns: u64) -> u64 {
        let (now_ns, counters) = (sample.now_ns, &sample.operators[self.operator]);
        let horizon_ns = counters.arrival_ns.max(counters.due_ns).min(now_ns).max(self.horizon_ns);
        let progress_ns = horizon_ns - self.horizon_ns;
        let tuples = counters.tuples_in.saturating_sub(self.tuples);
        let is_old = now_ns.saturating_sub(self.at_ns) > HORIZON_AGE_MAX_NS;
        let is_enough = progress_ns as f64 >= HORIZON_PROGRESS_MIN_RATIO * step_ns as f64;
        if progress_ns > 0 && (is_enough || is_old) {
            self.per_ns = tuples as f64 / progress_ns as f64;
            (self.horizon_ns, self.tuples, self.at_ns) = (horizon_ns, counters.tuples_in, now_ns);
        } else if is_old && tuples > 0 {
            self.per_ns = UNLIMITED_RATE_RATIO * tuples as f64 / (now_ns - self.at_ns) as f64;
            (self.tuples, self.at_ns) = (counters.tuples_in, now_ns);
        }
        self.arrived += self.per_ns * step_ns as f64;
        self.rates.each(|rates| rates.add(now_ns, self.arrived as u64));
        now_ns - horizon_ns
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::sample::OperatorSample;
    use super::*;

    const MS: u64 = 1_000_000;

    /// Samples every 5 ms of a source that has `tuples` and these times at each.
    fn samples(of: impl Fn(u64) -> (u64, u64, u64)) -> impl Iterator<Item = Sample> {
        (1..100).map(move |number| {
            let now_ns = number * 5 * MS;
            let (tuples_in, arrival_ns, due_ns) = of(now_ns);
            let source = OperatorSample { tuples_in, arrival_ns, due_ns, ..OperatorSample::default() };
            Sample { now_ns, operators: vec![source], ..Sample::default() }
        })
    }

    fn last(of: impl Fn(u64) -> (u64, u64, u64)) -> (Arrived, f64) {
        let mut intake = Intake::new(&[0]).unwrap();
        let last = samples(of).map(|sample| intake.add(&sample)).last().unwrap();
        (last, intake.rates_per_s()[0].value)
    }

    #[test]
    fn a_source_that_keeps_up_has_its_rate_and_is_not_late() {
        // A tuple each microsecond, and the next one is due after the last.
        let (arrived, rate_per_s) = last(|now_ns| (now_ns / 1_000, now_ns - 500, now_ns + 500));
        assert_eq!(arrived.late_ns, 0);
        assert!((rate_per_s / 1e6 - 1.0).abs() < 1e-3, "{rate_per_s}");
        assert_eq!(arrived.taken, 5_000);
    }

    #[test]
    fn a_source_that_takes_a_fourth_of_what_arrives_has_the_rate_of_arrivals() {
        let (arrived, rate_per_s) = last(|now_ns| (now_ns / 4_000, now_ns / 4, 0));
        assert!((rate_per_s / 1e6 - 1.0).abs() < 1e-3, "{rate_per_s}");
        assert_eq!(arrived.late_ns, 99 * 5 * MS / 4 * 3);
        assert!((arrived.tuples as f64 / (99.0 * 5_000.0) - 1.0).abs() < 0.02, "{arrived:?}");
    }

    #[test]
    fn a_source_that_hardly_runs_has_the_rate_of_arrivals() {
        let (_, rate_per_s) = last(|now_ns| (now_ns / 100_000, now_ns / 100, 0));
        // Before the first progress that is enough nothing is known.
        assert!((0.8..1.02).contains(&(rate_per_s / 1e6)), "{rate_per_s}");
    }

    #[test]
    fn a_source_without_arrivals_has_no_rate_and_is_not_late() {
        assert_eq!(last(|_| (0, 0, u64::MAX)), (Arrived::default(), 0.0));
    }

    #[test]
    fn a_source_all_of_whose_tuples_are_due_at_the_start_has_a_higher_rate_than_is_processed() {
        let (arrived, rate_per_s) = last(|now_ns| (now_ns / 1_000, 0, 0));
        assert!(rate_per_s > 1.5e6, "{rate_per_s}");
        assert_eq!(arrived.late_ns, 99 * 5 * MS);
    }
}
