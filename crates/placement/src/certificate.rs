//! "Never overflows": ring sizes and a delay bound that hold for every input within declared bounds.
//!
//! Network calculus (Le Boudec and Thiran, *Network Calculus*, 2001) on a tandem of stages. The input is bounded by a
//! burst and a rate: at most `b + r t` tuples arrive in any `t`. Tuples reach stage `k` after a transit of at most
//! `D`. The stage takes at most `C` of CPU time per tuple, is idle for at most `S + q t` within any time `t` in which
//! it has tuples, and sends at most `g` tuples per tuple taken. It therefore behaves as if it took `B = C / (1 - q)`
//! per tuple and stalled for `T = D + S / (1 - q)` in total. `G` is the product of the `g` of the stages before it,
//! and `G B` its time per tuple of the input. Then
//!
//! ```text
//! ring k  <=  G_k (b + r sum over l <= k of (T_l + G_l B_l))      delay  <=  b max (G B) + sum of (T + G B)
//! ```
//!
//! if `r G B <= 1` for each stage: the stages up to `k` together hold no more of the input, and the content of ring
//! `k` stems from it. The `G B` in the sums are the tuple in progress, which leaves its ring when it is done. Outside
//! the bounds the certificate is void. [`graph`] does the same for a placement of any pipeline.

pub mod graph;
pub mod work;

pub use graph::{PlacementCertificate, RingBound};
pub use work::{ReplicaBounds, WorkBounds};

use crate::Error;

/// Upper bounds of arrivals.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ArrivalBounds {
    /// Tuples that may arrive at once, 1 or more.
    pub burst_tuples: f64,
    /// Tuples per second in the long run.
    pub rate_per_s: f64,
}

/// Worst case of a stage, a group of operators on a core.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct StageBounds {
    /// Longest CPU time per tuple taken, including receiving and sending, in nanoseconds.
    pub service_max_ns: f64,
    /// Maximum total idle time, in nanoseconds, between two moments when it has no tuple to take, apart from the
    /// share `stall_ratio`: wake-up, a long preemption, the pause of a relocation.
    pub stall_max_ns: f64,
    /// Long-term share of the time for which it is stalled, below 1: interrupts, short preemptions.
    pub stall_ratio: f64,
    /// Longest transit time of the hop into it, in nanoseconds.
    pub transit_ns: f64,
    /// Maximum tuples sent per tuple taken, 1 or more.
    pub outputs_max: u32,
}

impl StageBounds {
    /// Creates a stage by its longest CPU time per tuple and its longest stall, in nanoseconds, without other stalls
    /// or a transit, that sends at most one tuple per tuple taken.
    #[must_use]
    pub fn new(service_max_ns: f64, stall_max_ns: f64) -> StageBounds {
        StageBounds { service_max_ns, stall_max_ns, stall_ratio: 0.0, transit_ns: 0.0, outputs_max: 1 }
    }

    /// Sets the long-term share of the time for which it is stalled.
    #[must_use]
    pub fn with_stall_ratio(self, stall_ratio: f64) -> StageBounds {
        StageBounds { stall_ratio, ..self }
    }

    /// Sets the transit into it, in nanoseconds.
    #[must_use]
    pub fn with_transit(self, transit_ns: f64) -> StageBounds {
        StageBounds { transit_ns, ..self }
    }

    /// Sets the maximum tuples sent per tuple taken.
    #[must_use]
    pub fn with_outputs(self, outputs_max: u32) -> StageBounds {
        StageBounds { outputs_max, ..self }
    }

    /// Returns `B`: the longest time per tuple taken, in nanoseconds, including its share of the stalls.
    fn tuple_ns(&self) -> f64 {
        self.service_max_ns / (1.0 - self.stall_ratio)
    }

    /// Returns `T`: the longest time, in nanoseconds, for which tuples accumulate before it works at its rate.
    fn pause_ns(&self) -> f64 {
        self.transit_ns + self.stall_max_ns / (1.0 - self.stall_ratio)
    }
}

/// Ring sizes with which no ring of a tandem of stages overflows.
#[derive(Clone, Debug, PartialEq)]
pub struct Certificate {
    /// Required capacity of the ring into each stage in tuples, including the one in progress.
    pub ring_tuples: Vec<u64>,
    /// Longest time from the arrival of a tuple until the last stage has finished it, in nanoseconds.
    pub delay_max_ns: f64,
    /// Guaranteed capacity of the slowest stage, in tuples of the input per second.
    pub capacity_per_s: f64,
    /// The declared rate, in tuples of the input per second.
    pub rate_per_s: f64,
    /// Time for which tuples of the input can accumulate before the tandem works at its capacity, in nanoseconds: the
    /// sum of `T + G B`.
    pub latency_ns: f64,
}

impl Certificate {
    /// Computes the certificate of a tandem of stages.
    ///
    /// # Errors
    /// If a figure is out of range, or a stage is slower than its input.
    pub fn new(arrivals: ArrivalBounds, stages: &[StageBounds]) -> Result<Certificate, Error> {
        check(arrivals, stages)?;
        let per_ns = arrivals.rate_per_s * 1e-9;
        let (mut amplification, mut latency_ns, mut slowest_ns) = (1.0, 0.0, 0.0_f64);
        let mut ring_tuples = Vec::new();
        for (stage, bounds) in stages.iter().enumerate() {
            let service_ns = amplification * bounds.tuple_ns();
            if per_ns * service_ns > 1.0 {
                return Err(Error::Overflow {
                    stage,
                    served_per_s: 1e9 / bounds.tuple_ns(),
                    arriving_per_s: arrivals.rate_per_s * amplification,
                });
            }
            latency_ns += bounds.pause_ns() + service_ns;
            slowest_ns = slowest_ns.max(service_ns);
            let backlog = amplification * (arrivals.burst_tuples + per_ns * latency_ns);
            if !backlog.is_finite() {
                return Err(Error::Value { what: "tuples in a ring", value: backlog, range: "finite" });
            }
            ring_tuples.push(backlog.ceil() as u64);
            amplification *= f64::from(bounds.outputs_max);
        }
        Ok(Certificate {
            ring_tuples,
            delay_max_ns: latency_ns + arrivals.burst_tuples * slowest_ns,
            capacity_per_s: 1e9 / slowest_ns,
            rate_per_s: arrivals.rate_per_s,
            latency_ns,
        })
    }

    /// Returns the backlog that a step of the rate to `rate_per_s` adds to the rings if it takes `reaction_ns` until
    /// a plan with the capacity `capacity_per_s` and stalls that are not longer is live. The faster input accumulates
    /// during the stalls, and then as long as this certificate's capacity is below it:
    ///
    /// ```text
    /// surge  <=  (rate - declared rate)+ sum of (T + G B)  +  (rate - capacity)+ reaction
    /// ```
    ///
    /// # Errors
    /// If a figure is out of range, or the new capacity does not exceed the rate.
    pub fn surge(&self, rate_per_s: f64, reaction_ns: f64, capacity_per_s: f64) -> Result<Surge, Error> {
        at_least("rate after a step in tuples/s", rate_per_s, 0.0)?;
        at_least("reaction time in ns", reaction_ns, 0.0)?;
        if capacity_per_s.is_nan() || capacity_per_s <= rate_per_s {
            let (what, range) = ("capacity after a step in tuples/s", "above the rate");
            return Err(Error::Value { what, value: capacity_per_s, range });
        }
        let stalled = (rate_per_s - self.rate_per_s).max(0.0) * self.latency_ns;
        let overloaded = (rate_per_s - self.capacity_per_s).max(0.0) * reaction_ns;
        let tuples = (stalled + overloaded) * 1e-9;
        Ok(Surge { tuples: tuples.ceil() as u64, drain_ns: tuples / (capacity_per_s - rate_per_s) * 1e9 })
    }
}

/// The backlog that builds up before a new plan is live.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Surge {
    /// Tuples of the input beyond the sizes of the certificate; ring `k` needs `G_k` times this additional capacity.
    pub tuples: u64,
    /// Time that the new plan takes to drain them while it does not stall, in nanoseconds.
    pub drain_ns: f64,
}

/// Returns the rate, in tuples per second, at which to change to a plan for higher rates, if the present plan
/// sustains `held_per_s`, the rate grows by up to `slope_per_s2` tuples per second each second, and a change takes
/// `reaction_ns`. 0 if a change would always come too late.
#[must_use]
pub fn move_up_at_per_s(held_per_s: f64, slope_per_s2: f64, reaction_ns: f64) -> f64 {
    (held_per_s - slope_per_s2 * reaction_ns * 1e-9).max(0.0)
}

impl ArrivalBounds {
    fn check(&self) -> Result<(), Error> {
        at_least("burst in tuples", self.burst_tuples, 1.0)?;
        at_least("declared rate in tuples/s", self.rate_per_s, 0.0)
    }
}

fn check(arrivals: ArrivalBounds, stages: &[StageBounds]) -> Result<(), Error> {
    arrivals.check()?;
    at_least("number of stages", stages.len() as f64, 1.0)?;
    for stage in stages {
        at_least("longest service time in ns", stage.service_max_ns, f64::MIN_POSITIVE)?;
        check_stalls(stage.stall_max_ns, stage.stall_ratio)?;
        at_least("longest transit in ns", stage.transit_ns, 0.0)?;
        at_least("largest number of outputs", f64::from(stage.outputs_max), 1.0)?;
    }
    Ok(())
}

fn check_stalls(stall_max_ns: f64, stall_ratio: f64) -> Result<(), Error> {
    at_least("longest stall in ns", stall_max_ns, 0.0)?;
    if (0.0..1.0).contains(&stall_ratio) {
        return Ok(());
    }
    let (what, range) = ("share of time without work", "0 or more and below 1");
    Err(Error::Value { what, value: stall_ratio, range })
}

fn at_least(what: &'static str, value: f64, least: f64) -> Result<(), Error> {
    if value.is_finite() && value >= least {
        return Ok(());
    }
    let range = match least {
        0.0 => "0 or more",
        1.0 => "1 or more",
        _ => "more than 0",
    };
    Err(Error::Value { what, value, range })
}
