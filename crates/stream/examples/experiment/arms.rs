//! The arms of the experiment: the same operators and arrivals, run in six ways.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sakiyomi_os::affinity::usable_cpus;
use sakiyomi_os::cpu::of_this_process;
use sakiyomi_os::topology::{Cpus, Topology as Machine};
use sakiyomi_stream::adapt::events::{Event, EventKind};
use sakiyomi_stream::adapt::{AdaptSettings, machine};
use sakiyomi_stream::{Report, Settings};

use crate::driver::chain::{SINK, chain, placement, workers};
use crate::driver::figures::bins;
use crate::driver::load::Pattern;
use crate::driver::quiet::Moment;
use crate::run::{Change, Run, SETTLE_NS};
use crate::search::Search;
use crate::{stub, threads};

/// A way to run the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arm {
    OneCore,
    Static,
    Threads,
    Stub,
    Adaptive,
    Oracle,
}

impl Arm {
    pub(crate) const ALL: [Arm; 6] =
        [Arm::OneCore, Arm::Static, Arm::Threads, Arm::Stub, Arm::Adaptive, Arm::Oracle];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Arm::OneCore => "one core",
            Arm::Static => "static",
            Arm::Threads => "threads",
            Arm::Stub => "stub",
            Arm::Adaptive => "adaptive",
            Arm::Oracle => "oracle",
        }
    }

    /// Runs the chain through all phases.
    ///
    /// # Errors
    /// If a thread cannot be started or pinned, or was lost.
    pub(crate) fn run(
        self,
        pattern: &Arc<Pattern>,
        search: &Search,
        seed: u64,
    ) -> Result<Run, Box<dyn Error>> {
        let before = of_this_process();
        let best: Vec<usize> = (0..pattern.phases.len()).map(|phase| search.best_cut(phase)).collect();
        let run = match self {
            Arm::OneCore => placed(pattern, seed, &vec![0; best.len()])?,
            Arm::Static => placed(pattern, seed, &vec![search.static_cut(); best.len()])?,
            Arm::Oracle => placed(pattern, seed, &best)?,
            Arm::Adaptive => adaptive(pattern, seed)?,
            Arm::Threads => threads::run(pattern, seed)?,
            Arm::Stub => stub::run(pattern, seed, &best)?,
        };
        Ok(Run { cpu: of_this_process() - before, ..run })
    }
}

/// The first two CPUs.
pub(crate) fn two_cpus() -> Result<Cpus, sakiyomi_os::Error> {
    Ok(usable_cpus()?.into_iter().take(2).collect())
}

/// Number of cores of a division.
pub(crate) fn cores(cut: usize) -> usize {
    if cut == 0 { 1 } else { 2 }
}

/// Sleeps through the phases, and calls `begin` with the number of each when it begins. Returns what others took of the
/// CPUs.
pub(crate) fn follow<E>(
    pattern: &Pattern,
    start: Instant,
    mut begin: impl FnMut(usize) -> Result<(), E>,
) -> Result<Vec<f64>, E> {
    let sleep_until =
        |at_ns: u64| std::thread::sleep(Duration::from_nanos(at_ns).saturating_sub(start.elapsed()));
    let mut others = Vec::with_capacity(pattern.phases.len());
    for (index, phase) in pattern.phases.iter().enumerate() {
        sleep_until(phase.from_ns);
        begin(index)?;
        let end_ns = pattern.phase_end_ns(index);
        sleep_until((phase.from_ns + SETTLE_NS).min(end_ns));
        let steady = Moment::now();
        sleep_until(end_ns);
        others.push(steady.others_ratio(&Moment::now()));
    }
    Ok(others)
}

/// The chain, cut in each phase where this says.
fn placed(pattern: &Arc<Pattern>, seed: u64, cuts: &[usize]) -> Result<Run, Box<dyn Error>> {
    let settings = Settings::pinned(&two_cpus()?);
    let mut running = chain(pattern, seed)?.start(settings, &workers(cuts[0]))?;
    let start = Instant::now();
    let (mut changes, mut present) = (Vec::new(), cuts[0]);
    let others_ratio = follow(pattern, start, |phase| {
        let cut = cuts[phase];
        if cut != present {
            let before = start.elapsed();
            running.apply(&placement(cut))?;
            let (at, reason) = (start.elapsed(), format!("cut {cut}"));
            let duration_ns = nanos(at - before);
            changes.push(Change { at_ns: nanos(at), duration_ns, cores: cores(cut), reason });
            present = cut;
        }
        Ok::<(), sakiyomi_stream::Error>(())
    })?;
    let report = running.finish()?;
    Ok(Run { cores: cores(cuts[0]), changes, others_ratio, ..of_report(&report) })
}

fn adaptive(pattern: &Arc<Pattern>, seed: u64) -> Result<Run, Box<dyn Error>> {
    let topology = machine::topology(&Machine::of_machine(), &two_cpus()?, &[])?;
    let adaptive = chain(pattern, seed)?.start_adaptive(topology, AdaptSettings::default())?;
    let others_ratio = follow(pattern, Instant::now(), |_| Ok::<(), sakiyomi_stream::Error>(()))?;
    let finished = adaptive.finish()?;
    let changes = finished.events.iter().filter_map(change).collect();
    Ok(Run { cores: 1, changes, others_ratio, ..of_report(&finished.report) })
}

fn change(event: &Event) -> Option<Change> {
    let EventKind::PlanChanged { reason, to, duration_ns, .. } = &event.kind else {
        return None;
    };
    let cut = to.groups.get(1).map_or(0, |second| second.operators[0]);
    Some(Change {
        at_ns: event.at_ns,
        duration_ns: *duration_ns,
        cores: to.cores_used(),
        reason: format!("{reason}, cut {cut}"),
    })
}

fn of_report(report: &Report) -> Run {
    let violations = report.operators.iter().map(|operator| operator.sequence_violations).sum();
    Run { bins: bins(report, SINK), violations, ..Run::default() }
}

pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
