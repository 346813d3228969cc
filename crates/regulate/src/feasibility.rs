//! Which rates can be kept beside any other requests: decided from the profile of the device and the rates alone.
//!
//! An I/O of an owner that arrives at any moment finds a request in progress, whose rest it must wait for; no drive can
//! interrupt one. Its finish is then about normal, with the mean and the variance of that rest and of its own access.
//! If it is early, the reply is held until the ideal time `I`; if not, it is late by the excess. With
//! `a = (m - I) / s`:
//!
//! ```text
//!   accuracy = 1 + ((m - I) Φ(a) + s φ(a)) / I
//!   E[L²]    = ((m - I)² + s²) Φ(a) + (m - I) s φ(a)       L: lateness; CoV from it
//!   p99      = (m + 2.33 s) / I
//! ```
//!
//! Of several owners, each also waits for those whose deadline comes first: for all requests of faster ones, and for
//! `½ (Pj/Pi)²` of those of slower ones. The wait is that of a queue with this load.
//!
//! The request in progress is at most the largest piece of a request and the greatest number of requests in the device that
//! the rates leave room for ([`Limits`]).
//!
//! On a device that serves several requests at once, an I/O waits for no rest but is slower beside others. The same
//! figures follow from the measured times beside each number of others of each size ([`Beside`](crate::Beside)), among
//! which are those of the other owners.

use sakiyomi_model::{Bytes, Op};

use crate::profile::{Beside, Distribution, Moments, PROFILE_DEPTHS, PROFILE_SIZES, Profile};
use crate::rate::{Levels, Share};

/// Limits of the requests in the device while an owner may send a request at any moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Number of requests of up to the smallest piece.
    pub depth: u32,
    /// Largest piece of a request if it is the only one in the device; larger requests are split.
    pub piece: Bytes,
    /// On a device that serves several requests at once, the number of requests of up to each of
    /// [`PROFILE_SIZES`](crate::PROFILE_SIZES).
    pub parallel: Option<[u32; 4]>,
}

impl Limits {
    /// Limits without any rate.
    pub(crate) const NONE: Limits = Limits { depth: u32::MAX, piece: Bytes(u64::MAX), parallel: None };
}

/// When the I/Os of an owner may arrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Arrivals {
    /// At any moment.
    #[default]
    Any,
    /// Each at once after the reply to the previous one: one thread that does nothing else. Until the reply no request
    /// can arrive, so no rest of another request needs to be waited for, and larger rates can be kept.
    BackToBack,
}

/// Owners whose rates are guaranteed, by their shares and arrivals.
#[derive(Clone, Debug, Default)]
pub(crate) struct Owners {
    any: Levels,
    back_to_back: Levels,
}

impl Owners {
    pub(crate) fn add(&mut self, share: Share, arrivals: Arrivals) {
        match arrivals {
            Arrivals::Any => self.any.add(share),
            Arrivals::BackToBack => self.back_to_back.add(share),
        }
    }

    fn levels(&self) -> impl Iterator<Item = Level> {
        let of = |levels: &'_ Levels, arrivals| {
            let levels: Vec<(Share, u32)> = levels.counted().collect();
            levels.into_iter().map(move |(share, count)| Level { share, count: f64::from(count), arrivals })
        };
        of(&self.any, Arrivals::Any).chain(of(&self.back_to_back, Arrivals::BackToBack))
    }
}

/// Owners of the same share and arrivals.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Level {
    share: Share,
    count: f64,
    arrivals: Arrivals,
}

impl Level {
    /// Returns the part of the device's time that `owners` of this level use.
    fn load(&self, owners: f64) -> f64 {
        self.share.part() * owners
    }
}

/// Sizes of pieces that are tried, in descending order. Smaller ones would help little, and cost the others much.
const PIECE_SIZES: [Bytes; 5] =
    [Bytes(1 << 20), Bytes(512 << 10), Bytes(256 << 10), Bytes(128 << 10), Bytes(64 << 10)];
/// Rates are granted up to this part of what the formula allows, whose limit is at most 5 % too high.
const GRANTED_SHARE: f64 = 0.95;
/// Largest sum of all rates, as a share of the device.
const SUM_MAX_SHARE: f64 = 0.95;
/// Standard deviations of a normal distribution below which 99 % of it lie.
const P99_DEVIATIONS: f64 = 2.33;

/// Figures that count as kept.
struct Goal {
    accuracy: f64,
    cov: f64,
    p99: f64,
}

/// Goal for the only owner with a rate.
const GOAL_OF_ONE: Goal = Goal { accuracy: 1.03, cov: 0.06, p99: 1.2 };
/// Goal for each of several.
const GOAL_OF_SEVERAL: Goal = Goal { accuracy: 1.05, cov: 0.08, p99: 1.25 };

/// Returns the widest limits at which the rates of all owners can be kept, if there are any. `error` is the relative
/// error of the profile.
pub(crate) fn limits(profile: &Profile, error: f64, owners: &Owners) -> Option<Limits> {
    let levels: Vec<Level> = owners.levels().collect();
    let sum: f64 = levels.iter().map(|level| level.load(level.count)).sum();
    if levels.is_empty() {
        return Some(Limits::NONE);
    }
    let own = profile.reads[0];
    let ideal = |level: &Level| own.mean / level.share.part() * GRANTED_SHARE * (1.0 - error);
    if let Some(beside) = &profile.beside {
        let ideals: Vec<f64> = levels.iter().map(ideal).collect();
        return parallel_limits(beside, &ideals, levels.iter().map(|level| level.count).sum());
    }
    if sum > SUM_MAX_SHARE {
        return None;
    }
    let smallest = PIECE_SIZES[PIECE_SIZES.len() - 1];
    // So that what was granted can be kept when the others leave, too.
    let is_kept_alone = |level: &Level| {
        let ahead = match level.arrivals {
            Arrivals::Any => profile.random(Op::Read, smallest).rest(),
            Arrivals::BackToBack => Moments::default(),
        };
        reaches(ahead + own, ideal(level), &GOAL_OF_ONE)
    };
    if !levels.iter().all(is_kept_alone) {
        return None;
    }
    let goal = if matches!(levels[..], [Level { count: 1.0, .. }]) { &GOAL_OF_ONE } else { &GOAL_OF_SEVERAL };
    // `is_expected`: a request of a back-to-back owner finds at most one of another owner in the device.
    let is_kept = |rest: Moments, is_expected: bool| {
        levels.iter().all(|level| {
            let found = match level.arrivals {
                Arrivals::BackToBack if is_expected => rest.with_probability(sum - level.load(1.0)),
                _ => rest,
            };
            reaches(queued(found, load_ahead(&levels, level)) + own, ideal(level), goal)
        })
    };
    let rest = |size| profile.random(Op::Read, size).rest();
    let Some(piece) = PIECE_SIZES.into_iter().find(|&size| is_kept(rest(size), false)) else {
        return is_kept(rest(smallest), true).then_some(Limits { depth: 1, piece: smallest, parallel: None });
    };
    let deep = |depth: &u32| {
        let behind = profile.behind(*depth) - own;
        is_kept(Moments { mean: behind.mean.max(0.0), variance: behind.variance.max(0.0) }, false)
    };
    let depth = PROFILE_DEPTHS.into_iter().take(profile.behind.len()).rev().find(deep).unwrap_or(1);
    Some(Limits { depth, piece, parallel: None })
}

/// Returns the widest limits at which all ideal times of `owners` are kept beside the others and each other.
fn parallel_limits(beside: &Beside, ideals: &[f64], owners: f64) -> Option<Limits> {
    let most_with =
        |goal: &Goal| beside.most(|times| ideals.iter().all(|&ideal| reaches_by(times, ideal, goal)));
    // Rates that were granted to several must be kept when the others leave, too.
    let of_one = most_with(&GOAL_OF_ONE)?;
    let most = if owners > 1.0 { most_with(&GOAL_OF_SEVERAL)? } else { of_one };
    // Each owner may have a request in the device beside that of another one.
    let left = f64::from(most[0]) - (owners - 1.0);
    if left < 1.0 {
        return None;
    }
    let parallel = most.map(|most_of_size| (f64::from(most_of_size) * left / f64::from(most[0])) as u32);
    // Splitting requests into pieces below 64 KiB would cost the others too much.
    let largest = parallel.iter().rposition(|&most| most > 0).filter(|&largest| largest > 0)?;
    let piece = PROFILE_SIZES[largest];
    Some(Limits { depth: parallel[0], piece, parallel: Some(parallel) })
}

/// Returns the part of the time in which requests with an earlier deadline than those of an owner are served.
fn load_ahead(levels: &[Level], of: &Level) -> f64 {
    let loads = levels.iter().map(|level| {
        let others = if level == of { level.count - 1.0 } else { level.count };
        let ratio = level.share.part() / of.share.part();
        level.load(others) * if level.share > of.share { 1.0 } else { 0.5 * ratio * ratio }
    });
    loads.sum()
}

/// Returns the wait for a geometric number of rests, as in a queue with this load.
fn queued(rest: Moments, load: f64) -> Moments {
    let idle = 1.0 - load;
    if idle <= 0.0 {
        return Moments { mean: f64::INFINITY, variance: 0.0 };
    }
    let variance = rest.variance / idle + rest.mean * rest.mean * load / (idle * idle);
    Moments { mean: rest.mean / idle, variance }
}

fn reaches(finish: Moments, ideal: f64, goal: &Goal) -> bool {
    if finish.mean.is_infinite() {
        return false;
    }
    let deviation = finish.deviation().max(1.0);
    let excess = finish.mean - ideal;
    let at = excess / deviation;
    let late = excess * normal_distribution(at) + deviation * normal_density(at);
    let square = (excess * excess + deviation * deviation) * normal_distribution(at)
        + excess * deviation * normal_density(at);
    let accuracy = 1.0 + late / ideal;
    let cov = (square - late * late).max(0.0).sqrt() / ideal / accuracy;
    let p99 = (finish.mean + P99_DEVIATIONS * deviation) / ideal;
    accuracy <= goal.accuracy && cov <= goal.cov && p99 <= goal.p99
}

/// Returns whether I/Os with these times, whose replies are held back until their ideal time in ns, reach the goal.
fn reaches_by(times: &Distribution, ideal: f64, goal: &Goal) -> bool {
    let accuracy = times.mean_of(|time| time.max(ideal) / ideal);
    let square = times.mean_of(|time| (time.max(ideal) / ideal).powi(2));
    let cov = (square - accuracy * accuracy).max(0.0).sqrt() / accuracy;
    accuracy <= goal.accuracy && cov <= goal.cov && times.exceeded_with(0.01) / ideal <= goal.p99
}

fn normal_density(x: f64) -> f64 {
    (-x * x / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt()
}

/// Returns the distribution function of the standard normal distribution (Abramowitz and Stegun 26.2.17; the error is
/// below 10⁻⁷).
fn normal_distribution(x: f64) -> f64 {
    /// Coefficients of the polynomial in `t`.
    const POLYNOMIAL_COEFFICIENTS: [f64; 5] =
        [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let t = 1.0 / (1.0 + 0.231_641_9 * x.abs());
    let sum = POLYNOMIAL_COEFFICIENTS.iter().rev().fold(0.0, |sum, coefficient| (sum + coefficient) * t);
    let beyond = normal_density(x) * sum;
    if x >= 0.0 { 1.0 - beyond } else { beyond }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::PROFILE_SIZES;
    use crate::rate::Percent;
    use sakiyomi_model::Sectors;

    /// A drive of the study that the formula comes from: seek, revolution and overhead in ms, KiB per ms.
    struct Model {
        shortest: f64,
        longest: f64,
        revolution: f64,
        overhead: f64,
        rate: f64,
    }

    const MODELS: [Model; 3] = [
        Model { shortest: 1.5, longest: 21.0, revolution: 11.11, overhead: 0.2, rate: 100.0 },
        Model { shortest: 1.0, longest: 15.0, revolution: 8.33, overhead: 0.2, rate: 75.0 },
        Model { shortest: 0.5, longest: 15.0, revolution: 8.33, overhead: 0.1, rate: 220.0 },
    ];

    impl Model {
        fn random(&self, size: Bytes) -> Moments {
            let seek = self.longest - self.shortest;
            let transfer = size.0 as f64 / 1024.0 / self.rate;
            let mean = self.shortest + seek * 8.0 / 15.0 + self.revolution / 2.0 + self.overhead + transfer;
            let variance = seek * seek * (1.0 / 3.0 - 64.0 / 225.0) + self.revolution.powi(2) / 12.0;
            Moments { mean: mean * 1e6, variance: variance * 1e12 }
        }

        fn profile(&self) -> Profile {
            let sizes = PROFILE_SIZES.map(|size| self.random(size));
            Profile {
                capacity: Sectors(1 << 30),
                sector: Bytes(512),
                reads: sizes,
                writes: sizes,
                continuing: Moments::default(),
                by_distance: vec![(0.5, sizes[0])],
                batches: vec![sizes[0]],
                behind: vec![sizes[0].rest() + sizes[0]],
                beside: None,
            }
        }
    }

    fn owners(rates: &[u32], arrivals: Arrivals) -> Owners {
        let mut owners = Owners::default();
        rates.iter().for_each(|&rate| owners.add(Share::of(Percent::new(rate).unwrap()), arrivals));
        owners
    }

    fn highest(profile: &Profile, error: f64, arrivals: Arrivals, is_enough: impl Fn(Limits) -> bool) -> u32 {
        let kept = |rate: &u32| limits(profile, error, &owners(&[*rate], arrivals)).is_some_and(&is_enough);
        (1..=100).take_while(kept).last().unwrap()
    }

    /// The limits of the study (64 KiB: 38 to 44 %, 1 MiB: 28 to 38 %, back to back: 68 to 72 %), of which 95 % are
    /// granted.
    #[test]
    fn one_owner_is_granted_what_the_study_found() {
        for model in MODELS {
            let profile = model.profile();
            let any = highest(&profile, 0.0, Arrivals::Any, |_| true);
            let whole = highest(&profile, 0.0, Arrivals::Any, |limits| limits.piece == Bytes(1 << 20));
            let back_to_back = highest(&profile, 0.0, Arrivals::BackToBack, |_| true);
            assert!((36..=44).contains(&any), "{any}");
            assert!((27..=38).contains(&whole) && whole < any, "{whole}");
            assert!((64..=70).contains(&back_to_back), "{back_to_back}");
        }
    }

    #[test]
    fn several_owners_are_granted_what_the_study_found() {
        let profile = MODELS[0].profile();
        let is_kept = |rates: &[u32], arrivals| limits(&profile, 0.0, &owners(rates, arrivals)).is_some();
        for arrivals in [Arrivals::Any, Arrivals::BackToBack] {
            assert!([&[4; 20][..], &[8; 9], &[30, 20, 10]].iter().all(|rates| is_kept(rates, arrivals)));
            assert!(![&[48, 48][..], &[20; 5]].iter().any(|rates| is_kept(rates, arrivals)));
        }
        assert!(!is_kept(&[45, 25, 12], Arrivals::Any) && is_kept(&[45, 25, 12], Arrivals::BackToBack));
    }

    proptest::proptest! {
        #[test]
        fn what_is_granted_to_several_is_granted_to_any_of_them(
            rates in proptest::collection::vec((1u32..70, proptest::bool::ANY), 1..6), left in 0usize..6,
        ) {
            let profile = MODELS[1].profile();
            let granted = |rates: &[(u32, bool)]| {
                let mut owners = Owners::default();
                for &(rate, any) in rates {
                    let arrivals = if any { Arrivals::Any } else { Arrivals::BackToBack };
                    owners.add(Share::of(Percent::new(rate).unwrap()), arrivals);
                }
                limits(&profile, 0.0, &owners)
            };
            if granted(&rates).is_some() {
                let mut rest = rates.clone();
                rest.remove(left % rates.len());
                proptest::prop_assert!(granted(&rest).is_some(), "{rates:?} without number {left}");
            }
        }
    }

    #[test]
    fn an_uncertain_profile_grants_less() {
        let profile = MODELS[0].profile();
        let highest = |error| highest(&profile, error, Arrivals::Any, |_| true);
        assert!(highest(0.15) < highest(0.05) && highest(0.05) < highest(0.0));
    }

    #[test]
    fn the_normal_distribution_is_that_of_tables() {
        let table = [(0.0, 0.5), (1.0, 0.841_344_7), (-1.0, 0.158_655_3), (2.33, 0.990_096_9)];
        for (x, value) in table {
            assert!((normal_distribution(x) - value).abs() < 1e-6, "{x}");
        }
    }
}
