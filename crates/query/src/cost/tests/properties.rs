//! Properties that hold for every machine and task.

use proptest::prelude::*;

use super::machines::*;
use crate::cost::search::Choice;
use crate::cost::shape::Task;
use crate::cost::{CostError, Model, Rejected};

/// Tolerance of elapsed times: a slightly slower plan is chosen if it takes less CPU time.
const CHOICE_TOLERANCE: f64 = 1.05;

fn any_device() -> impl Strategy<Value = DeviceSpec> {
    let bandwidth = (17.0..24.0f64, 0.3..1.5f64).prop_map(|(log, write)| [log.exp(), log.exp() * write]);
    (bandwidth, 10.0..15.0f64, prop_oneof![Just(0.0), 1e5..2e7f64], 1e3..3e4f64, 0.005..0.2f64, 0.0..1.0f64)
        .prop_map(|(bandwidth, latency, seek_ns, op_ns, byte_ns, buffered_byte_ns)| {
            let latency_ns = latency.exp();
            DeviceSpec { bandwidth, latency_ns, seek_ns, op_ns, byte_ns, buffered_byte_ns, writes: true }
        })
}

fn any_task() -> impl Strategy<Value = Task> {
    let rows = || (6.0..19.0f64).prop_map(|log: f64| log.exp() as u64);
    prop_oneof![
        rows().prop_map(sort_of),
        (rows(), rows()).prop_map(|(left, right)| join_of(left, right)),
        (rows(), rows()).prop_map(|(rows, groups)| aggregate_of(rows, groups.min(rows))),
    ]
}

fn any_memory() -> impl Strategy<Value = u64> {
    (32u64..2048).prop_map(|mib| mib * MIB)
}

/// The elapsed time of a choice.
fn elapsed(choice: &Result<Choice, CostError>) -> f64 {
    choice.as_ref().map_or(f64::INFINITY, |choice| choice.prediction.elapsed_ns as f64)
}

fn choose(
    spec: &DeviceSpec,
    cores: usize,
    task: &Task,
    memory: u64,
    threads: usize,
) -> Result<Choice, CostError> {
    let (device, operators) = (spec.calibrated(), operators(cores, &mut || 1.0));
    let found: Model<'_> = model(&device, &operators, task.tables.len(), memory, threads);
    found.choose(task)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn more_memory_never_makes_the_optimum_slower(spec in any_device(), task in any_task(), memory in any_memory()) {
        let (less, more) = (choose(&spec, 4, &task, memory, 2), choose(&spec, 4, &task, 2 * memory, 2));
        prop_assert!(elapsed(&more) <= elapsed(&less) * CHOICE_TOLERANCE);
    }

    #[test]
    fn more_threads_never_make_the_optimum_slower(spec in any_device(), task in any_task(), memory in any_memory()) {
        let (fewer, more) = (choose(&spec, 4, &task, memory, 2), choose(&spec, 4, &task, memory, 4));
        prop_assert!(elapsed(&more) <= elapsed(&fewer) * CHOICE_TOLERANCE);
    }

    #[test]
    fn more_bandwidth_never_makes_the_optimum_slower(spec in any_device(), task in any_task(), memory in any_memory()) {
        let faster = DeviceSpec { bandwidth: spec.bandwidth.map(|bandwidth| 1.7 * bandwidth), ..spec.clone() };
        let (slow, fast) = (choose(&spec, 2, &task, memory, 2), choose(&faster, 2, &task, memory, 2));
        prop_assert!(elapsed(&fast) <= elapsed(&slow) * CHOICE_TOLERANCE);
    }

    #[test]
    fn more_rows_never_make_the_optimum_faster(spec in any_device(), rows in 1000u64..50_000_000, memory in any_memory()) {
        let (fewer, more) = (sort_of(rows), sort_of(rows + rows / 2));
        let (fewer, more) = (choose(&spec, 2, &fewer, memory, 2), choose(&spec, 2, &more, memory, 2));
        prop_assert!(elapsed(&fewer) <= elapsed(&more) * CHOICE_TOLERANCE);
    }

    #[test]
    fn no_phase_is_faster_than_its_device_and_its_cpu(spec in any_device(), task in any_task(), memory in any_memory()) {
        let Ok(choice) = choose(&spec, 2, &task, memory, 2) else { return Ok(()) };
        for phase in &choice.prediction.phases {
            let cpu = (phase.user_ns + phase.system_ns + phase.kernel_threads_ns) as f64 / 2.0;
            prop_assert!(phase.elapsed_ns + 1 >= phase.device_ns && phase.elapsed_ns as f64 + 2.0 >= cpu, "{phase:?}");
            prop_assert!(phase.memory_bytes <= memory, "{} of {memory}", phase.memory_bytes);
        }
        let sum: u64 = choice.prediction.phases.iter().map(|phase| phase.elapsed_ns).sum();
        prop_assert_eq!(sum, choice.prediction.elapsed_ns);
        // No rejected plan is much faster. Few rows are not spilled, whatever the estimates.
        let is_fair = |rejected: &&Rejected| choice.plan.spill.is_some() || rejected.plan.spill.is_none();
        for rejected in choice.rejected.iter().filter(is_fair) {
            prop_assert!(rejected.elapsed_ratio * CHOICE_TOLERANCE >= 1.0, "{rejected:?} beside {:?}", choice.plan);
        }
    }

    #[test]
    fn any_task_is_planned_or_refused(
        rows in any::<u64>(), groups in any::<u64>(), ratio in -1.0..2.0f64, width in prop_oneof![Just(f64::NAN), Just(-1.0), 0.0..1e9f64], memory in any::<u64>(),
    ) {
        let mut task = aggregate_of(1000, groups);
        task.tables[0].rows = rows;
        task.selected_ratio = ratio;
        task.tables[0].columns[0].value_bytes = width;
        let _ = choose(&DeviceSpec::fast(), 2, &task, memory, 2);
        let _ = choose(&DeviceSpec::fast(), 2, &sort_of(rows), memory, 2);
    }
}
