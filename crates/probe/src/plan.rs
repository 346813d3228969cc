//! Which settings are measured, and in which order.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use sakiyomi_io::{EngineKind, EngineSpec};

use crate::setting::{Buffers, Path, Setting};

/// What somebody wants to know.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Methods with their depths.
    pub methods: Vec<EngineSpec>,
    /// Bytes of a request.
    pub blocks: Vec<usize>,
    /// Around or through the page cache.
    pub paths: Vec<Path>,
    /// What stands for direct access with mappings, which cannot go around the page cache.
    pub mapped: Path,
    /// The memory to read into.
    pub buffers: Vec<Buffers>,
    /// At random places.
    pub random: bool,
    /// Whether what verdicts need besides is measured as well.
    pub rivals: bool,
}

/// What is measured: first what was asked for, then what verdicts need besides.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Each once.
    pub settings: Vec<Setting>,
    /// How many of them were asked for.
    pub asked: usize,
}

impl Plan {
    /// All combinations that differ, and for each the one with twice the depth and the one with the best buffers: its
    /// rivals.
    #[must_use]
    pub fn new(wanted: &Wanted) -> Plan {
        let mut settings = Vec::new();
        for &path in &wanted.paths {
            for &block in &wanted.blocks {
                for &method in &wanted.methods {
                    let buffers = wanted.buffers.iter().map(|&buffers| (path, block, method, buffers));
                    buffers.for_each(|one| add(&mut settings, combined(one, wanted)));
                }
            }
        }
        let asked = settings.len();
        for index in 0..if wanted.rivals { asked } else { 0 } {
            let setting = settings[index];
            [setting.doubled(), setting.with_best_buffers()]
                .into_iter()
                .flatten()
                .for_each(|rival| add(&mut settings, rival));
        }
        Plan { settings, asked }
    }

    /// The order of a round, in which each setting is measured once; another one in every round, so that none is always
    /// behind the same neighbour.
    #[must_use]
    pub fn round(&self, round: u64, seed: u64) -> Vec<usize> {
        let mut random = Pcg64::seed_from_u64(seed.wrapping_mul(1_000_003).wrapping_add(round));
        let mut order: Vec<usize> = (0..self.settings.len()).collect();
        // Fisher and Yates.
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

fn combined((path, block, method, buffers): (Path, usize, EngineSpec, Buffers), wanted: &Wanted) -> Setting {
    let own = method.kind.uses_buffers();
    Setting {
        method,
        block,
        path: if own || path != Path::Direct { path } else { wanted.mapped },
        random: wanted.random,
        // What makes no difference shall not be measured twice.
        buffers: match method.kind {
            EngineKind::Null => Buffers::Ordinary,
            _ if !own => Buffers::Ordinary,
            kind => buffers.for_method(kind),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(methods: &str, buffers: &[Buffers]) -> Wanted {
        Wanted {
            methods: methods.split(',').map(|method| method.parse().unwrap()).collect(),
            blocks: vec![1 << 20],
            paths: vec![Path::Direct],
            mapped: Path::Cold,
            buffers: buffers.to_vec(),
            random: false,
            rivals: true,
        }
    }

    fn names(plan: &Plan) -> Vec<String> {
        let name = |setting: &Setting| format!("{} {:?} {:?}", setting.method, setting.path, setting.buffers);
        plan.settings.iter().map(name).collect()
    }

    #[test]
    fn a_verdict_brings_the_rivals_that_it_needs() {
        let plan = Plan::new(&wanted("read", &[Buffers::Ordinary]));
        assert_eq!(names(&plan), ["read Direct Ordinary", "pread:2 Direct Ordinary", "read Direct Huge"]);
        assert_eq!(plan.asked, 1);
    }

    #[test]
    fn without_rivals_nothing_else_is_measured() {
        let wanted = Wanted { rivals: false, ..wanted("uring:4,read", &[Buffers::Ordinary]) };
        assert_eq!(Plan::new(&wanted).settings.len(), 2);
    }

    #[test]
    fn what_was_asked_for_is_its_own_rival() {
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
