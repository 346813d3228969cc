//! The limit of a case: the storage, the CPU, or latency. Judged from figures alone.
//!
//! The storage counts as the limit only if that could have been refuted: throughput must not increase with twice the
//! depth or with better memory, while no core was busy. The CPU is the limit of a path if one of its threads was
//! almost always on its core, or if its threads together occupied all cores. Every other case is limited by waiting:
//! for round trips, or for work that better memory would avoid.

use sakiyomi_io::EngineKind;

use crate::setting::Setting;

/// Smaller relative gains of a control run do not count: the case is storage-bound (docs/explanation/io.md).
const GAIN_MIN_RATIO: f64 = 0.05;

/// Utilization from which a core counts as the limit.
const BUSY_MIN_RATIO: f64 = 0.70;

/// The limiting resource of a case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// More depth and better buffers gain nothing, and no core is busy.
    StorageBound,
    /// The core that runs the path is busy.
    CpuBound,
    /// Neither: a higher depth or better buffers would help.
    LatencyBound,
    /// The measurements do not suffice.
    #[default]
    Undecided,
}

/// A verdict and the reason for it, one sentence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Judgment {
    /// The limiting resource.
    pub verdict: Verdict,
    /// The reason, and what would help.
    pub reason: String,
}

/// The busiest thread of a case.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Busiest {
    /// Share of the time that it was on a core or ready to run.
    pub share: f64,
    /// Its name.
    pub name: String,
    /// Whether it is a kernel thread.
    pub of_kernel: bool,
}

/// The figures that a verdict is based on. Shares are of one core.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// The setting that was measured.
    pub setting: Setting,
    /// The busiest thread.
    pub thread: Busiest,
    /// Utilization of the busiest core by all processes.
    pub core: f64,
    /// CPU time of this process and of kernel threads together.
    pub ours: f64,
    /// Number of cores.
    pub cores: usize,
    /// Relative gain in throughput with twice the depth; `None` if it was not or cannot be measured.
    pub double_depth: Option<f64>,
    /// Relative gain with the best buffers; `None` if these are the best.
    pub better_buffers: Option<f64>,
}

/// Judges a case.
#[must_use]
pub fn judge(evidence: &Evidence) -> Judgment {
    let (verdict, reason) = if evidence.setting.engine.kind == EngineKind::Null {
        (Verdict::CpuBound, "It transfers nothing: this is the cost of measuring.".to_owned())
    } else {
        cpu(evidence)
            .or_else(|| gains(evidence))
            .or_else(|| storage(evidence))
            .unwrap_or_else(|| undecided(evidence))
    };
    Judgment { verdict, reason }
}

fn cpu(evidence: &Evidence) -> Option<(Verdict, String)> {
    let full = evidence.ours / evidence.cores.max(1) as f64;
    let reason = if evidence.thread.share > BUSY_MIN_RATIO {
        let who = if evidence.thread.of_kernel { "A thread of the kernel" } else { "One thread" };
        format!(
            "{who} ({}) keeps a core busy, so no faster storage would help: fewer, larger requests or better buffers \
             cost it less, and work on several threads can use another core.",
            evidence.thread.name
        )
    } else if full > BUSY_MIN_RATIO {
        "All cores are busy: only less work makes it faster.".to_owned()
    } else {
        return None;
    };
    Some((Verdict::CpuBound, reason))
}

fn gains(evidence: &Evidence) -> Option<(Verdict, String)> {
    let gains = |gain: Option<f64>| gain.filter(|&gain| gain >= GAIN_MIN_RATIO);
    let help = match (gains(evidence.double_depth), gains(evidence.better_buffers)) {
        (None, None) => return None,
        (None, Some(_)) => "better buffers help, more in flight does not",
        (Some(_), None) => "more in flight helps",
        (Some(depth), Some(buffers)) if buffers >= depth => {
            "better buffers help most, and more in flight as well"
        }
        (Some(_), Some(_)) => "more in flight helps most, and better buffers as well",
    };
    Some((Verdict::LatencyBound, format!("No core is busy, and the storage can give more: {help}.")))
}

fn storage(evidence: &Evidence) -> Option<(Verdict, String)> {
    evidence.double_depth?;
    if evidence.core > BUSY_MIN_RATIO {
        return None;
    }
    let reason = "Twice the depth and the best buffers gain less than 5 %, and no core is busy: the storage is the limit.";
    Some((Verdict::StorageBound, reason.to_owned()))
}

fn undecided(evidence: &Evidence) -> (Verdict, String) {
    let reason = if evidence.double_depth.is_none() {
        "Whether twice the depth would gain anything was not measured."
    } else {
        "Other processes kept a core busy: measure again on an idle machine."
    };
    (Verdict::Undecided, reason.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setting::{Buffers, CacheState, Operation};
    use proptest::prelude::*;

    fn evidence(thread: f64, core: f64, ours: f64, gains: [Option<f64>; 2]) -> Evidence {
        let engine = "uring:8".parse().unwrap();
        let (op, cache, buffers) = (Operation::Read, CacheState::Direct, Buffers::Ordinary);
        Evidence {
            setting: Setting { engine, op, block: 1 << 20, cache, random: false, buffers },
            thread: Busiest { share: thread, name: "renamed".to_owned(), of_kernel: false },
            core,
            ours,
            cores: 2,
            double_depth: gains[0],
            better_buffers: gains[1],
        }
    }

    fn verdict(thread: f64, core: f64, ours: f64, gains: [Option<f64>; 2]) -> Verdict {
        judge(&evidence(thread, core, ours, gains)).verdict
    }

    #[test]
    fn the_storage_is_the_limit_only_if_nothing_else_gains() {
        assert_eq!(verdict(0.1, 0.2, 0.2, [Some(0.01), None]), Verdict::StorageBound);
        assert_eq!(verdict(0.1, 0.2, 0.2, [Some(-0.1), Some(0.04)]), Verdict::StorageBound);
        assert_eq!(verdict(0.1, 0.2, 0.2, [Some(0.01), Some(0.9)]), Verdict::LatencyBound);
        assert_eq!(verdict(0.1, 0.2, 0.2, [Some(0.06), None]), Verdict::LatencyBound);
        assert_eq!(verdict(0.1, 0.2, 0.2, [None, None]), Verdict::Undecided);
    }

    #[test]
    fn a_busy_thread_is_the_limit_whatever_else_gains() {
        assert_eq!(verdict(0.9, 0.6, 0.9, [Some(0.5), Some(0.5)]), Verdict::CpuBound);
        assert_eq!(
            verdict(0.5, 0.9, 1.8, [Some(0.0), None]),
            Verdict::CpuBound,
            "many threads fill all cores"
        );
    }

    #[test]
    fn a_thread_is_the_kernels_by_what_it_is_and_not_by_its_name() {
        let mut evidence = evidence(0.9, 0.6, 0.9, [None, None]);
        assert!(judge(&evidence).reason.starts_with("One thread (renamed)"));
        evidence.thread.of_kernel = true;
        assert!(judge(&evidence).reason.starts_with("A thread of the kernel (renamed)"));
    }

    #[test]
    fn a_core_that_others_use_decides_nothing() {
        assert_eq!(verdict(0.1, 0.95, 0.2, [Some(0.0), None]), Verdict::Undecided);
        assert_eq!(verdict(0.1, 0.95, 0.2, [Some(0.3), None]), Verdict::LatencyBound);
    }

    proptest! {
        #[test]
        fn storage_bound_means_what_it_promises(
            thread in 0.0..1.0f64, core in 0.0..1.0f64, ours in 0.0..2.0f64, gains: [Option<i8>; 2],
        ) {
            let gains = gains.map(|gain| gain.map(|gain| f64::from(gain) / 100.0));
            let judgment = judge(&evidence(thread, core, ours, gains));
            prop_assert!(judgment.reason.ends_with('.') && !judgment.reason.contains("NaN"));
            if judgment.verdict == Verdict::StorageBound {
                prop_assert!(thread <= BUSY_MIN_RATIO && core <= BUSY_MIN_RATIO && gains[0].is_some());
                prop_assert!(gains.into_iter().flatten().all(|gain| gain < GAIN_MIN_RATIO));
            }
        }
    }
}
