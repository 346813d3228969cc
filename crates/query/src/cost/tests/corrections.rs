//! Corrections fitted to invented jobs, and to the model's own predictions on another machine.

use proptest::prelude::*;

use super::machines::*;
use crate::cost::correction::{
    Correction, Corrections, DeviceCorrections, FACTOR_MAX, FACTOR_MIN, Factor, ObservedJob, ObservedPart,
    PhaseCorrection, Times,
};
use crate::cost::explain::{Analysis, Measured};
use crate::cost::step::{PhaseKind, Step};
use crate::cost::{Model, OperatorCosts, Prediction, Storage, Task};
use crate::phase::Phase;

const KINDS: [PhaseKind; 4] = [
    PhaseKind { step: Step::Divide, is_spilled: false },
    PhaseKind { step: Step::Divide, is_spilled: true },
    PhaseKind { step: Step::EmitPartitions, is_spilled: true },
    PhaseKind { step: Step::Group, is_spilled: false },
];
/// CPU time of each part as the wrong model predicts it.
const CPU_NS: f64 = 300e6;
/// Its waiting time.
const WAITING_NS: f64 = 200e6;

fn times(cpu: f64, waiting: f64) -> Times {
    Times { elapsed_ns: (cpu / 2.0 + waiting) as u64, cpu_ns: cpu as u64 }
}

fn whole(parts: &[ObservedPart], of: fn(&ObservedPart) -> Times) -> Times {
    Times {
        elapsed_ns: parts.iter().map(|part| of(part).elapsed_ns).sum(),
        cpu_ns: parts.iter().map(|part| of(part).cpu_ns).sum(),
    }
}

/// Jobs with one part of each kind, whose true times are those of the model times the factors of their kind and `noise`.
fn jobs(corrections: &Corrections, truth: &[[f64; 2]; 4], noise: &[[f64; 4]]) -> Vec<ObservedJob> {
    let part = |kind: PhaseKind, [cpu, elapsed]: [f64; 2], noise: f64| {
        let Correction { elapsed: elapsed_factor, cpu: cpu_factor } = corrections.of(kind);
        let predicted = times(CPU_NS * cpu_factor.ratio, WAITING_NS);
        let predicted =
            Times { elapsed_ns: (predicted.elapsed_ns as f64 * elapsed_factor.ratio) as u64, ..predicted };
        let measured = times(CPU_NS * cpu, WAITING_NS);
        let scaled = |ns: u64, factor: f64| (ns as f64 * factor) as u64;
        let measured = Times {
            elapsed_ns: scaled(measured.elapsed_ns, elapsed * noise),
            cpu_ns: scaled(measured.cpu_ns, noise),
        };
        ObservedPart { kinds: vec![kind], predicted, measured }
    };
    let job = |noise: &[f64; 4]| {
        let parts: Vec<ObservedPart> =
            (0..4).map(|index| part(KINDS[index], truth[index], noise[index])).collect();
        let (predicted, measured) =
            (whole(&parts, |part| part.predicted), whole(&parts, |part| part.measured));
        ObservedJob { parts, predicted, measured }
    };
    noise.iter().map(job).collect()
}

fn fitted(truth: &[[f64; 2]; 4], noise: &[[f64; 4]]) -> Corrections {
    Corrections::fitted(|corrections| jobs(corrections, truth, noise))
}

/// The largest relative error of the parts of jobs without noise.
fn worst_error(corrections: &Corrections, truth: &[[f64; 2]; 4]) -> f64 {
    let jobs = jobs(corrections, truth, &[[1.0; 4]]);
    let error = |part: &ObservedPart| {
        let of = |predicted: u64, measured: u64| (predicted as f64 / measured as f64 - 1.0).abs();
        of(part.predicted.cpu_ns, part.measured.cpu_ns)
            .max(of(part.predicted.elapsed_ns, part.measured.elapsed_ns))
    };
    jobs.iter().flat_map(|job| &job.parts).map(error).fold(0.0, f64::max)
}

/// Relative noise of measured times.
const NOISE_RATIO: f64 = 0.06;

fn any_truth() -> impl Strategy<Value = [[f64; 2]; 4]> {
    proptest::array::uniform4([0.4..3.0f64, 0.5..2.0f64])
}

fn any_noise() -> impl Strategy<Value = Vec<[f64; 4]>> {
    proptest::collection::vec(proptest::array::uniform4(1.0 - NOISE_RATIO..1.0 + NOISE_RATIO), 2..12)
}

proptest! {
    #[test]
    fn a_model_that_is_wrong_by_a_factor_for_each_phase_is_corrected_to_within_the_noise(
        truth in any_truth(), noise in any_noise(),
    ) {
        let corrections = fitted(&truth, &noise);
        prop_assert_eq!(corrections.fault(), None);
        prop_assert_eq!(corrections.jobs, noise.len() as u64);
        // The elapsed time has the noise of its own factor and that of the CPU time's.
        let error = worst_error(&corrections, &truth);
        prop_assert!(error < (1.0 + NOISE_RATIO) / (1.0 - NOISE_RATIO) * (1.0 + NOISE_RATIO) - 1.0, "{error} {corrections:?}");
        prop_assert!((corrections.whole.cpu.ratio - 1.0).abs() < 2.0 * NOISE_RATIO, "{:?}", corrections.whole);
        let spread = corrections.whole.elapsed.uncertainty_ratio;
        prop_assert!((0.0..4.0 * NOISE_RATIO).contains(&spread), "{spread}");
    }

    #[test]
    fn one_wild_outlier_of_a_kind_does_not_matter(
        truth in any_truth(), mut noise in any_noise(), wild in prop_oneof![0.001..0.1f64, 10.0..1000.0f64],
        kind in 0..4usize,
    ) {
        prop_assume!(noise.len() >= 4);
        noise[0][kind] = wild;
        let error = worst_error(&fitted(&truth, &noise), &truth);
        prop_assert!(error < 3.0 * NOISE_RATIO, "{error}");
    }
}

#[test]
fn factors_are_clamped() {
    let noise = [[1.0; 4]; 5];
    let found = fitted(&[[1e3, 1.0], [0.2, 1.0], [1.0, 1e3], [1.0, 0.2]], &noise);
    let of = |index: usize| found.of(KINDS[index]);
    assert_eq!((of(0).cpu.ratio, of(1).cpu.ratio), (FACTOR_MAX, FACTOR_MIN));
    assert_eq!((of(2).elapsed.ratio, of(3).elapsed.ratio), (FACTOR_MAX, FACTOR_MIN));
    assert_eq!(found.fault(), None);
    let far = Factor { ratio: 2.0 * FACTOR_MAX, ..Factor::default() };
    let whole = Correction { elapsed: far, ..Correction::default() };
    assert!(Corrections { whole, ..found }.fault().is_some());
}

#[test]
fn few_times_correct_half_and_kinds_without_any_have_the_correction_of_their_step_or_of_all() {
    let spilled = PhaseKind { step: Step::Group, is_spilled: true };
    let truth = [[2.0, 1.0]; 4];
    let once = fitted(&truth, &[[1.0; 4]]);
    // All kinds agree, so that the middle is between them and nothing for the whole only.
    assert!((once.of(KINDS[0]).cpu.ratio - 2.0).abs() < 1e-6);
    let single = Corrections::fitted(|corrections| {
        let mut jobs = jobs(corrections, &truth, &[[1.0; 4]]);
        jobs[0].parts.truncate(1);
        jobs
    });
    assert!((single.of(KINDS[0]).cpu.ratio - 2f64.powf(0.875)).abs() < 1e-6, "{single:?}");
    let found = fitted(&[[2.0, 1.0], [2.0, 1.0], [2.0, 1.0], [0.5, 1.0]], &[[1.0; 4]; 3]);
    assert_eq!(found.of(spilled), found.of(KINDS[3]));
    let unknown = found.of(PhaseKind { step: Step::HashJoin, is_spilled: false });
    assert!((unknown.cpu.ratio - 2.0).abs() < 1e-6, "{unknown:?}");
}

#[test]
fn without_jobs_nothing_is_corrected() {
    let none = Corrections::fitted(|_| Vec::new());
    assert_eq!(none, Corrections::default());
    assert_eq!((none.of(KINDS[0]).cpu.ratio, none.uncertainty(none.whole.cpu)), (1.0, None));
}

#[test]
fn times_that_are_too_short_to_be_compared_correct_nothing() {
    let found = Corrections::fitted(|corrections| {
        let mut all = jobs(corrections, &[[3.0, 1.0]; 4], &[[1.0; 4]; 3]);
        for part in all.iter_mut().flat_map(|job| &mut job.parts) {
            part.measured = Times { elapsed_ns: 900_000, cpu_ns: 0 };
        }
        all
    });
    assert_eq!(found.phases, Vec::new());
}

/// Measured figures that are those of a prediction exactly.
fn as_predicted(prediction: &Prediction) -> Measured {
    let phases = prediction.phases.iter().map(|phase| Phase {
        name: phase.records[0].clone(),
        elapsed_ns: phase.elapsed_ns,
        user_ns: phase.user_ns,
        system_ns: phase.system_ns,
        ..Phase::default()
    });
    Measured {
        phases: phases.collect(),
        elapsed_ns: prediction.elapsed_ns,
        user_ns: prediction.user_ns,
        system_ns: prediction.system_ns,
        threads: 2,
    }
}

/// Invented jobs beside the tested ones: other tables, limits and keys.
fn calibration_jobs() -> Vec<(Task, u64)> {
    let tasks = |memory: u64| {
        let tasks = [sort_of(1_000_000), join_of(800_000, 200_000), aggregate_of(1_500_000, 300_000)];
        tasks.map(|task| (task, memory * MIB))
    };
    [tasks(512), tasks(64), tasks(700), tasks(80)].concat()
}

#[test]
fn operators_that_take_longer_than_calibrated_are_predicted_after_the_jobs_of_a_calibration() {
    let device = DeviceSpec::fast().calibrated();
    let (known, real) = (operators(2, &mut || 1.0), operators(2, &mut || 1.7));
    let predicted = |operators: &OperatorCosts, task: &Task, memory: u64| {
        let wrong = model(&device, &known, task.tables.len(), memory, 2);
        let plan = wrong.choose(task).unwrap().plan;
        Model { operators, ..wrong }.predict(task, &plan).unwrap()
    };
    let corrections = Corrections::fitted(|corrections| {
        let corrected = OperatorCosts { corrections: corrections.clone(), ..known.clone() };
        let observed = |(task, memory): &(Task, u64)| {
            let prediction = predicted(&corrected, task, *memory);
            let measured = as_predicted(&predicted(&real, task, *memory));
            Analysis::new(&prediction, measured).observed(&prediction)
        };
        calibration_jobs().iter().map(observed).collect()
    });
    let corrected = OperatorCosts { corrections, ..known.clone() };
    for (task, memory) in [
        (sort_of(6_000_000), 512 * MIB),
        (sort_of(6_000_000), 128 * MIB),
        (join_of(6_000_000, 1_500_000), GIB),
        (aggregate_of(6_000_000, 1_500_000), GIB),
    ] {
        let [before, after, truth] =
            [&known, &corrected, &real].map(|operators| predicted(operators, &task, memory));
        let error = |found: u64, truth: u64| (found as f64 / truth as f64 - 1.0).abs();
        let cpu = |prediction: &Prediction| prediction.user_ns + prediction.system_ns;
        let (wrong, right) = (error(cpu(&before), cpu(&truth)), error(cpu(&after), cpu(&truth)));
        assert!(right < 0.15 && right < wrong / 2.0, "CPU time: {right} instead of {wrong}");
        let right = error(after.elapsed_ns, truth.elapsed_ns);
        assert!(right < 0.15, "elapsed time: {right}");
        // Times are rounded to nanoseconds phase by phase.
        assert!(error(after.comparison.uncorrected_ns, before.elapsed_ns) < 1e-6);
        assert!(error(after.comparison.uncorrected_cpu_ns, cpu(&before)) < 1e-6);
        assert_eq!(after.comparison.remop_ns, before.comparison.remop_ns);
        assert!(before.uncertainty.is_none() && after.uncertainty.is_some());
    }
}

#[test]
fn a_job_on_one_known_device_has_the_corrections_of_that_device_and_others_those_of_all_jobs() {
    let mut devices =
        [DeviceSpec::fast().calibrated(), DeviceSpec::fast().calibrated(), DeviceSpec::fast().calibrated()];
    for (number, costs) in devices.iter_mut().enumerate() {
        costs.device.number = format!("0:{number}");
    }
    let [known, other, unknown] = devices;
    let mut costs = operators(2, &mut || 1.0);
    costs.corrections.jobs = 3;
    costs.device_corrections = [(&known, 1), (&other, 2)]
        .map(|(costs, jobs)| DeviceCorrections {
            device: costs.device.clone(),
            corrections: Corrections { jobs, ..Corrections::default() },
        })
        .to_vec();
    let jobs = |storage: &Storage<'_>| costs.for_devices(&storage.devices()).corrections.jobs;
    assert_eq!(jobs(&Storage::one(&known, 2)), 1);
    assert_eq!(jobs(&Storage::one(&other, 1)), 2);
    assert_eq!(jobs(&Storage::one(&unknown, 1)), 3);
    assert_eq!(jobs(&Storage { spills: vec![&other], ..Storage::one(&known, 1) }), 3);
}

#[test]
fn the_chosen_plan_is_the_best_with_corrections_too() {
    let device = DeviceSpec::fast().calibrated();
    let mut costs = operators(2, &mut || 1.0);
    for (at, step) in
        [Step::Divide, Step::MakeRuns, Step::EmitPartitions, Step::EmitMerged].iter().enumerate()
    {
        for is_spilled in [false, true] {
            let ratio = [0.3, 3.0, 1.5, 0.6][(at + usize::from(is_spilled)) % 4];
            let elapsed = Factor { ratio, ..Factor::default() };
            let correction = Correction { elapsed, cpu: Factor { ratio: 1.0 / ratio, ..Factor::default() } };
            let kind = PhaseKind { step: *step, is_spilled };
            costs.corrections.phases.push(PhaseCorrection { kind, correction });
        }
    }
    costs.corrections.jobs = 8;
    for memory in [64, 128, 1024, 4096] {
        for task in [sort_of(3_000_000), sort_of(20_000_000), join_of(4_000_000, 3_000_000)] {
            let choice = model(&device, &costs, task.tables.len(), memory * MIB, 2).choose(&task).unwrap();
            for rejected in &choice.rejected {
                assert!(rejected.elapsed_ratio > 0.95, "{memory} MiB: {rejected:?} beside {:?}", choice.plan);
            }
        }
    }
}
