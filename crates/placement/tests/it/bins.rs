//! Division of bins among replicas.

use sakiyomi_placement::Bins;

use crate::simulation::Random;

/// Random divisions.
const RUNS: u64 = 500;

fn loads(random: &mut Random, bins: usize) -> Vec<f64> {
    // A few bins have most of the load, as is common for keys.
    (0..bins).map(|_| random.exponential(1.0) * if random.below(10) == 0 { 8.0 } else { 1.0 }).collect()
}

fn busiest(bins: &Bins, loads: &[f64]) -> f64 {
    bins.load_of(loads).into_iter().fold(0.0, f64::max)
}

/// Returns the least load of the busiest replica over all divisions.
fn by_trial(loads: &[f64], load_of: &mut Vec<f64>, bin: usize) -> f64 {
    if bin == loads.len() {
        return load_of.iter().copied().fold(0.0, f64::max);
    }
    let mut best = f64::INFINITY;
    for replica in 0..load_of.len() {
        load_of[replica] += loads[bin];
        best = best.min(by_trial(loads, load_of, bin + 1));
        load_of[replica] -= loads[bin];
    }
    best
}

#[test]
fn the_busiest_replica_has_no_more_than_graham_s_bound() {
    for seed in 0..RUNS / 5 {
        let random = &mut Random::new(seed);
        let (bins, replicas) = (1 + random.below(7), 1 + random.below(3));
        let loads = loads(random, bins);
        let divided = Bins::divided(&loads, replicas).unwrap();
        let best = by_trial(&loads, &mut vec![0.0; replicas], 0);
        let bound = best * (4.0 / 3.0 - 1.0 / (3.0 * replicas as f64)) + 1e-9;
        assert!(busiest(&divided, &loads) <= bound, "seed {seed}: {divided:?} of {loads:?}");
    }
}

#[test]
fn a_replica_that_is_added_takes_its_share_and_little_else_moves() {
    for seed in 0..RUNS {
        let random = &mut Random::new(seed);
        let replicas = 1 + random.below(7);
        let loads: Vec<f64> = (0..256).map(|_| random.between(0.5, 1.5)).collect();
        let before = Bins::divided(&loads, replicas).unwrap();
        let after = before.redivided(&loads, replicas + 1, 0.05).unwrap();
        let mean = loads.iter().sum::<f64>() / (replicas + 1) as f64;
        assert!(busiest(&after, &loads) <= mean * 1.05, "seed {seed}: {:?}", after.load_of(&loads));
        let moved = before.moved(&after);
        let load: f64 = moved.iter().map(|&(bin, _)| loads[bin]).sum();
        assert!(moved.iter().all(|&(_, to)| to == replicas), "seed {seed}: {moved:?}");
        assert!(load <= mean * 1.05, "seed {seed}: {load} of {mean}");
    }
}

#[test]
fn bins_of_a_replica_that_ends_move_and_others_stay() {
    for seed in 0..RUNS {
        let random = &mut Random::new(seed);
        let replicas = 2 + random.below(6);
        let loads: Vec<f64> = (0..256).map(|_| random.between(0.5, 1.5)).collect();
        let before = Bins::divided(&loads, replicas).unwrap();
        let after = before.redivided(&loads, replicas - 1, 0.05).unwrap();
        assert!(after.replica_of().iter().all(|&replica| replica < replicas - 1));
        let is_ended = |&(bin, _): &(usize, usize)| before.replica_of()[bin] == replicas - 1;
        assert!(before.moved(&after).iter().all(is_ended), "seed {seed}");
        let mean = loads.iter().sum::<f64>() / (replicas - 1) as f64;
        assert!(busiest(&after, &loads) <= mean * 1.05, "seed {seed}: {:?}", after.load_of(&loads));
    }
}

#[test]
fn moving_never_makes_the_busiest_busier() {
    for seed in 0..RUNS {
        let random = &mut Random::new(seed);
        let (bins, replicas) = (1 + random.below(64), 1 + random.below(8));
        let before = Bins::divided(&loads(random, bins), replicas).unwrap();
        let loads = loads(random, bins);
        let after = before.redivided(&loads, replicas, 0.0).unwrap();
        assert!(busiest(&after, &loads) <= busiest(&before, &loads) + 1e-9, "seed {seed}");
        assert!((1.0 / replicas as f64 - 1e-9..=1.0).contains(&after.max_share(&loads)), "seed {seed}");
        let kept = before.redivided(&loads, replicas, 1e9).unwrap();
        assert!(before.moved(&kept).is_empty(), "seed {seed}: nothing is too much");
    }
}

#[test]
fn bins_without_loads_are_divided_by_number() {
    for replicas in 1..9 {
        let bins = Bins::divided(&[0.0; 256], replicas).unwrap();
        let on = |bins: &Bins, replica| bins.replica_of().iter().filter(|&&other| other == replica).count();
        let numbers: Vec<usize> = (0..replicas).map(|replica| on(&bins, replica)).collect();
        let (most, fewest) = (numbers.iter().max().unwrap(), numbers.iter().min().unwrap());
        assert!(most - fewest <= 1, "{numbers:?}");
        let fewer = bins.redivided(&[0.0; 256], 1 + replicas / 2, 0.1).unwrap();
        let numbers: Vec<usize> = (0..fewer.replicas()).map(|replica| on(&fewer, replica)).collect();
        let (most, fewest) = (numbers.iter().max().unwrap(), numbers.iter().min().unwrap());
        assert!(most - fewest <= 1, "{numbers:?}");
    }
}

#[test]
fn a_hot_bin_does_not_keep_other_replicas_from_being_relieved() {
    // Bin 0 exceeds a replica's limit; replicas 1 and 2 share the rest unevenly.
    let before = Bins::divided(&[10.0, 9.0, 9.0, 0.1, 0.1, 0.1], 3).unwrap();
    let mut loads = [200.0, 0.0, 0.0, 0.0, 0.0, 0.0];
    let on_1: Vec<usize> = (1..6).filter(|&bin| before.replica_of()[bin] == 1).collect();
    assert!(on_1.len() > 1, "{before:?}");
    on_1.iter().for_each(|&bin| loads[bin] = 60.0);
    let after = before.redivided(&loads, 3, 0.1).unwrap();
    assert_eq!(after.replica_of()[0], before.replica_of()[0]);
    let mut load_of = after.load_of(&loads);
    load_of.sort_by(f64::total_cmp);
    assert!(load_of[1] <= 120.0 && load_of[0] >= 60.0, "{load_of:?} of {loads:?}: {before:?}, {after:?}");
}

#[test]
fn loads_out_of_range_are_refused() {
    assert!(Bins::divided(&[1.0, -1.0], 2).is_err());
    assert!(Bins::divided(&[1.0], 0).is_err());
    let bins = Bins::divided(&[1.0, 2.0], 2).unwrap();
    assert!(bins.redivided(&[1.0], 2, 0.1).is_err());
    assert!(bins.redivided(&[1.0, 2.0], 2, f64::NAN).is_err());
}
