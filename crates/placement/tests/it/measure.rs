//! Estimated figures compared with the distribution that the samples were drawn from.

use sakiyomi_placement::{ArrivalMeter, Operator, SelectivityMeter, ServiceMeter};

use crate::simulation::{Random, count};

/// Random runs of each kind.
const RUNS: u64 = 200;

/// Time between samples.
const SAMPLE_NS: u64 = 1_000_000;

/// Half-life of samples.
const HALF_LIFE_NS: u64 = 1_000_000_000;

/// Returns a meter with `samples` service times.
fn metered(samples: u64, mut service_ns: impl FnMut(u64) -> f64) -> ServiceMeter {
    let mut meter = ServiceMeter::new(HALF_LIFE_NS).unwrap();
    (0..samples).for_each(|sample| meter.add(sample * SAMPLE_NS, service_ns(sample)));
    meter
}

/// Asserts that nearly all values were within two deviations, but not all of them by a wide margin.
fn assert_confident(errors: &[f64]) {
    let within = errors.iter().filter(|error| error.abs() <= 2.0).count();
    let near = errors.iter().filter(|error| error.abs() <= 0.7).count();
    assert!(within * 100 >= errors.len() * 90, "{within} of {} within two deviations", errors.len());
    assert!(near * 100 <= errors.len() * 70, "{near} of {} within 0.7 deviations", errors.len());
}

#[test]
fn the_mean_service_time_is_as_near_as_its_deviation_says() {
    let mut errors = Vec::new();
    for seed in 0..RUNS {
        let random = &mut Random::new(seed);
        let figures = metered(600, |_| random.exponential(1000.0)).figures().unwrap();
        errors.push((figures.mean_ns.value - 1000.0) / figures.mean_ns.deviation);
        assert!((0.6..1.6).contains(&figures.scv), "seed {seed}: {figures:?}");
        assert!(figures.trimmed_ratio < 0.01, "seed {seed}: {figures:?}");
    }
    assert_confident(&errors);
}

#[test]
fn preempted_samples_do_not_count() {
    for seed in 0..RUNS {
        let random = &mut Random::new(seed);
        let is_constant = seed % 2 == 0;
        let figures = metered(1000, |_| {
            let service_ns =
                if is_constant { random.between(950.0, 1050.0) } else { random.exponential(1000.0) };
            let preempted_ns = if random.below(10) == 0 { random.between(1e5, 5e6) } else { 0.0 };
            service_ns + preempted_ns
        });
        let figures = figures.figures().unwrap();
        let error = (figures.mean_ns.value / 1000.0 - 1.0).abs();
        assert!(error < if is_constant { 0.01 } else { 0.2 }, "seed {seed}: {figures:?}");
        assert!((0.06..0.14).contains(&figures.trimmed_ratio), "seed {seed}: {figures:?}");
        assert_eq!(figures.applied_to(Operator::new(1.0)).service_ns, figures.mean_ns.value);
    }
}

#[test]
fn a_service_time_that_changes_is_followed_in_a_few_half_lives() {
    let meter =
        metered(1000 + 4 * HALF_LIFE_NS / SAMPLE_NS, |sample| if sample < 1000 { 1000.0 } else { 20_000.0 });
    let figures = meter.figures().unwrap();
    assert!((figures.mean_ns.value / 20_000.0 - 1.0).abs() < 0.07, "{figures:?}");
}

#[test]
fn figures_say_how_old_they_are() {
    let meter = metered(100, |_| 1000.0);
    let mean = meter.figures().unwrap().mean_ns;
    assert_eq!(mean.age_ns(100 * SAMPLE_NS), SAMPLE_NS);
    assert!(mean.is_valid(100 * SAMPLE_NS, SAMPLE_NS, 0.01));
    assert!(!mean.is_valid(102 * SAMPLE_NS, SAMPLE_NS, 0.01));
    assert!(metered(7, |_| 1000.0).figures().is_none());
    let mut meter = meter;
    meter.add(0, 5000.0);
    meter.add(200 * SAMPLE_NS, f64::NAN);
    assert_eq!(meter.figures().unwrap().mean_ns, mean);
    assert!(ServiceMeter::new(0).is_err());
}

#[test]
fn the_selectivity_is_as_near_as_its_deviation_says() {
    let mut errors = Vec::new();
    for seed in 0..RUNS {
        let random = &mut Random::new(seed);
        let mut meter = SelectivityMeter::new(HALF_LIFE_NS).unwrap();
        let (mut taken, mut sent) = (0, 0);
        for sample in 0..100 {
            meter.add(sample * 10 * SAMPLE_NS, taken, sent);
            let tuples = 20 + random.below(40) as u64;
            taken += tuples;
            sent += (0..tuples).filter(|_| random.below(10) < 3).count() as u64;
        }
        let selectivity = meter.selectivity().unwrap();
        errors.push((selectivity.value - 0.3) / selectivity.deviation);
    }
    assert_confident(&errors);
}

#[test]
fn a_filter_that_passes_nothing_is_in_doubt_by_a_tuple() {
    let mut meter = SelectivityMeter::new(HALF_LIFE_NS).unwrap();
    assert_eq!(meter.selectivity(), None);
    (0..10).for_each(|sample| meter.add(sample, sample * 100, 0));
    let selectivity = meter.selectivity().unwrap();
    assert!(
        selectivity.value == 0.0 && (selectivity.deviation * 900.0 - 1.0).abs() < 0.01,
        "{selectivity:?}"
    );
    assert!(!selectivity.is_valid(10, 1000, 0.1));
}

#[test]
fn rate_and_dispersion_are_as_near_as_their_deviations_say() {
    for batch in [1, 5] {
        let (mut rates, mut dispersions) = (Vec::new(), Vec::new());
        for seed in 0..RUNS {
            let random = &mut Random::new(seed);
            let mut meter = ArrivalMeter::new(HALF_LIFE_NS).unwrap();
            let mut arrived = 0;
            for sample in 0..200 {
                meter.add(sample * 10 * SAMPLE_NS, arrived);
                // Batches of this size at random: the dispersion equals the size.
                arrived += batch * count(200.0, random);
            }
            let figures = meter.figures().unwrap();
            rates.push((figures.rate_per_s.value - 20_000.0 * batch as f64) / figures.rate_per_s.deviation);
            dispersions.push((figures.dispersion.value - batch as f64) / figures.dispersion.deviation);
            assert!(figures.arrivals().is_ok());
        }
        assert_confident(&rates);
        assert_confident(&dispersions);
    }
}

#[test]
fn a_constant_rate_has_no_dispersion() {
    let mut meter = ArrivalMeter::new(HALF_LIFE_NS).unwrap();
    (0..100).for_each(|sample| meter.add(sample * SAMPLE_NS, sample * 1000));
    let figures = meter.figures().unwrap();
    assert!((figures.rate_per_s.value / 1e6 - 1.0).abs() < 1e-9, "{figures:?}");
    assert!(figures.dispersion.value < 1e-9, "{figures:?}");
    let mut idle = ArrivalMeter::new(HALF_LIFE_NS).unwrap();
    (0..100).for_each(|sample| idle.add(sample * SAMPLE_NS, 7));
    assert!(idle.figures().unwrap().arrivals().is_err());
}

#[test]
fn an_idle_time_leaves_no_figures_until_there_are_samples_again() {
    let idle_ns = 100 * HALF_LIFE_NS;
    let mut service = metered(1000, |_| 1000.0);
    let mut selectivity = SelectivityMeter::new(HALF_LIFE_NS).unwrap();
    let mut arrivals = ArrivalMeter::new(HALF_LIFE_NS).unwrap();
    for sample in 0..100 {
        selectivity.add(sample * SAMPLE_NS, sample * 100, sample * 30 + sample % 3);
        arrivals.add(sample * SAMPLE_NS, sample * 100);
    }
    assert!(selectivity.selectivity().is_some() && arrivals.figures().is_some());
    for sample in 0..20 {
        let now_ns = idle_ns + sample * SAMPLE_NS;
        service.add(now_ns, 20_000.0);
        selectivity.add(now_ns, 10_000 + sample * 100, 3_000 + sample * 60);
        arrivals.add(now_ns, 10_000 + sample * 5_000);
        assert_eq!(service.figures().is_some(), sample >= 7, "{sample}: {:?}", service.figures());
        assert_eq!(
            selectivity.selectivity().is_some(),
            sample >= 3,
            "{sample}: {:?}",
            selectivity.selectivity()
        );
        // The idle time dominates the counts until its weight has decayed to that of the others.
        assert_eq!(arrivals.figures(), None, "{sample}");
    }
}

#[test]
fn late_counts_are_passed_over() {
    let mut meter = SelectivityMeter::new(HALF_LIFE_NS).unwrap();
    for sample in 0..20 {
        meter.add(sample * SAMPLE_NS, sample * 100, sample * 30);
        let late = sample.saturating_sub(3);
        meter.add(late * SAMPLE_NS, late * 100, late * 30 + 1);
    }
    let selectivity = meter.selectivity().unwrap();
    assert!((selectivity.value - 0.3).abs() < 1e-9 && selectivity.samples > 18.0, "{selectivity:?}");
}

#[test]
fn a_figure_that_is_0_without_doubt_has_no_error() {
    let mut meter = ArrivalMeter::new(HALF_LIFE_NS).unwrap();
    (0..100).for_each(|sample| meter.add(sample * SAMPLE_NS, 7));
    let rate_per_s = meter.figures().unwrap().rate_per_s;
    assert_eq!((rate_per_s.value, rate_per_s.error_ratio()), (0.0, 0.0));
    assert!(rate_per_s.is_valid(100 * SAMPLE_NS, HALF_LIFE_NS, 0.1));
}
