//! The settings to measure, and their order.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use sakiyomi_io::{EngineKind, EngineSpec};

use crate::setting::{Buffers, CacheState, Operation, Setting};

/// A request for measurements.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Engines with their depths.
    pub engines: Vec<EngineSpec>,
    /// Reads, writes, mixes of both.
    pub ops: Vec<Operation>,
    /// Bytes of an operation.
    pub blocks: Vec<usize>,
    /// How the page cache is used.
    pub cache: Vec<CacheState>,
    /// Replaces direct access for mappings, which cannot bypass the page cache.
    pub mapped: CacheState,
    /// The memory of the operations.
    pub buffers: Vec<Buffers>,
    /// Whether offsets are random.
    pub random: bool,
    /// Whether the control runs that verdicts need are also measured.
    pub control_runs: bool,
}

/// The settings to measure: first the requested ones, then the control runs.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The settings, each once.
    pub settings: Vec<Setting>,
    /// Number of requested settings, which come first.
    pub asked: usize,
}

impl Plan {
    /// Plans all distinct and possible combinations, and the control runs of each: twice the depth, and the best
    /// buffers. Mappings do not write.
    #[must_use]
    pub fn new(wanted: &Wanted) -> Plan {
        let mut settings = Vec::new();
        for &op in &wanted.ops {
            for &cache in &wanted.cache {
                for &block in &wanted.blocks {
                    for &engine in
                        wanted.engines.iter().filter(|engine| engine.kind.uses_buffers() || !op.writes())
                    {
                        let random = wanted.random;
                        let buffers = wanted.buffers.iter();
                        let asked =
                            buffers.map(|&buffers| Setting { engine, op, block, cache, random, buffers });
                        asked.for_each(|setting| add(&mut settings, possible(setting, wanted.mapped)));
                    }
                }
            }
        }
        let asked = settings.len();
        for index in 0..if wanted.control_runs { asked } else { 0 } {
            let setting = settings[index];
            [setting.doubled(), setting.with_best_buffers()]
                .into_iter()
                .flatten()
                .for_each(|control| add(&mut settings, control));
        }
        Plan { settings, asked }
    }

    /// Returns the order of a round, in which each setting is measured once. It differs between rounds, so that no
    /// setting always follows the same neighbor.
    #[must_use]
    pub fn round(&self, round: u64, seed: u64) -> Vec<usize> {
        let mut random = Pcg64::seed_from_u64(seed.wrapping_mul(1_000_003).wrapping_add(round));
        let mut order: Vec<usize> = (0..self.settings.len()).collect();
        // Fisher-Yates shuffle.
        for last in (1..order.len()).rev() {
            order.swap(last, (random.next_u64() % (last as u64 + 1)) as usize);
        }
        order
    }
}

fn add(settings: &mut Vec<Setting>, setting: Setting) {
    if !settings.contains(&setting) {
        settings.push(setting);
    }
}

/// Normalizes a setting to what its engine supports, so that equal ones are measured once.
fn possible(setting: Setting, mapped: CacheState) -> Setting {
    let kind = setting.engine.kind;
    let is_mapped = !kind.uses_buffers();
    Setting {
        cache: if is_mapped && setting.cache == CacheState::Direct { mapped } else { setting.cache },
        buffers: match kind {
            EngineKind::Null => Buffers::Ordinary,
            _ if is_mapped => Buffers::Ordinary,
            kind => setting.buffers.for_engine(kind),
        },
        ..setting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(engines: &str, buffers: &[Buffers]) -> Wanted {
        Wanted {
            engines: engines.split(',').map(|engine| engine.parse().unwrap()).collect(),
            ops: vec![Operation::Read],
            blocks: vec![1 << 20],
            cache: vec![CacheState::Direct],
            mapped: CacheState::Cold,
            buffers: buffers.to_vec(),
            random: false,
            control_runs: true,
        }
    }

    fn names(plan: &Plan) -> Vec<String> {
        let name =
            |setting: &Setting| format!("{} {:?} {:?}", setting.engine, setting.cache, setting.buffers);
        plan.settings.iter().map(name).collect()
    }

    #[test]
    fn a_verdict_brings_the_control_runs_that_it_needs() {
        let plan = Plan::new(&wanted("read", &[Buffers::Ordinary]));
        assert_eq!(names(&plan), ["read Direct Ordinary", "pread:2 Direct Ordinary", "read Direct Huge"]);
        assert_eq!(plan.asked, 1);
    }

    #[test]
    fn without_control_runs_nothing_else_is_measured() {
        let wanted = Wanted { control_runs: false, ..wanted("uring:4,read", &[Buffers::Ordinary]) };
        assert_eq!(Plan::new(&wanted).settings.len(), 2);
    }

    #[test]
    fn what_was_asked_for_can_be_a_control_run() {
        let both = [Buffers::HugeRegistered, Buffers::Ordinary];
        let plan = Plan::new(&wanted("uring:4,uring:8", &both));
        assert_eq!((plan.asked, plan.settings.len()), (4, 6));
        let deepest = plan.settings[2].doubled().unwrap();
        assert!(plan.settings[plan.asked..].contains(&deepest));
    }

    #[test]
    fn what_makes_no_difference_is_measured_once() {
        let all = [Buffers::Ordinary, Buffers::Registered, Buffers::Huge, Buffers::HugeRegistered];
        let plan = Plan::new(&wanted("read,mmap:1,null", &all));
        let asked = &names(&plan)[..plan.asked];
        assert_eq!(
            asked,
            ["read Direct Ordinary", "read Direct Huge", "mmap:1 Cold Ordinary", "null Direct Ordinary"]
        );
    }

    #[test]
    fn mappings_are_left_out_of_writes() {
        let ops = vec![Operation::Read, Operation::Write, Operation::Mix { reads_percent: 50 }];
        let plan = Plan::new(&Wanted { ops, ..wanted("mmap:2,uring:4,populate:1", &[Buffers::Ordinary]) });
        let asked = &plan.settings[..plan.asked];
        let mapped = |setting: &&Setting| !setting.engine.kind.uses_buffers();
        assert!(asked.iter().filter(mapped).all(|setting| setting.op == Operation::Read));
        assert_eq!((asked.len(), asked.iter().filter(mapped).count()), (5, 2));
    }

    #[test]
    fn each_round_has_each_once_in_another_order() {
        let plan = Plan::new(&wanted("read,pread:4,aio:8,uring:8,mmap:4", &[Buffers::Huge]));
        let rounds: Vec<Vec<usize>> = (0..4).map(|round| plan.round(round, 7)).collect();
        for round in &rounds {
            let mut sorted = round.clone();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..plan.settings.len()));
        }
        assert!(rounds.windows(2).all(|pair| pair[0] != pair[1]));
        assert_eq!(rounds[2], plan.round(2, 7), "the same seed, the same order");
    }
}
