//! Invariants of any program: the prefetch distance stays within its bound, and prefetching does no harm.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngSeed, TestRunner};
use sakiyomi_drive::spec::builtin;
use sakiyomi_model::{Bytes, Nanos};
use sakiyomi_scenario::spec::{
    Access, Distance, DriveChoice, MemorySpec, Pause, PrefetchMethod, PrefetchSpec, ProcessSpec, RunSpec,
    SeekBack,
};
use sakiyomi_scenario::{Outcome, Scenario, run};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const MILLISECOND: u64 = 1_000_000;
/// Maximum excess over the automatic limit.
const PIECE: u64 = MIB;

fn outcome(scenario: &Scenario) -> Outcome {
    let drive = scenario.drive.model.as_ref().map(|name| builtin(name).unwrap().spec());
    run(scenario, drive.as_ref(), 0).unwrap_or_else(|error| panic!("{error}\n{}", scenario.to_toml()))
}

fn with_limit(scenario: &Scenario, limit: Distance) -> Scenario {
    Scenario { prefetch: PrefetchSpec { limit, ..scenario.prefetch.clone() }, ..scenario.clone() }
}

/// Checks that prefetching slows a program down by at most 2 %, plus the time of the initial probe.
fn does_no_harm(scenario: &Scenario) -> Result<(), TestCaseError> {
    let plain = outcome(&with_limit(scenario, Distance::Off)).elapsed;
    let ahead = outcome(&with_limit(scenario, Distance::Auto)).elapsed;
    let allowed = Nanos(plain.0 + plain.0 / 50 + 100 * MILLISECOND);
    prop_assert!(
        ahead <= allowed,
        "alone {:.3} s, with prefetching {:.3} s\n{}",
        plain.as_secs_f64(),
        ahead.as_secs_f64(),
        with_limit(scenario, Distance::Auto).to_toml()
    );
    Ok(())
}

/// Generates log-uniformly distributed sizes.
fn size(from: u64, to: u64) -> impl Strategy<Value = Bytes> {
    let (low, high) = ((from as f64).ln(), (to as f64).ln());
    (low..high).prop_map(|exponent| Bytes(exponent.exp() as u64))
}

fn any_drive() -> impl Strategy<Value = DriveChoice> {
    let fixed = (1u64..50_000, 1u32..64, prop::option::of(1_000_000u64..500_000_000)).prop_map(
        |(latency_us, parallel, bandwidth)| {
            let bandwidth = bandwidth.map_or(String::new(), |rate| format!(",bandwidth={rate}"));
            let fixed = format!("latency={latency_us}us,parallel={parallel}{bandwidth}");
            DriveChoice { fixed: Some(fixed), ..DriveChoice::default() }
        },
    );
    let model = prop::sample::select(vec!["deskstar-7k250", "spinpoint-hd160jj", "scorpio-wd10tpvx"])
        .prop_map(|name| DriveChoice { model: Some(name.to_owned()), ..DriveChoice::default() });
    prop_oneof![fixed, model]
}

fn any_process() -> impl Strategy<Value = ProcessSpec> {
    let pause = (size(64 * KIB, 16 * MIB), 0u64..300)
        .prop_map(|(every, length)| Pause { every, length: Nanos(length * MILLISECOND) });
    let back = (size(MIB, 16 * MIB), 0.1..0.9f64)
        .prop_map(|(every, share)| SeekBack { every, by: Bytes((every.0 as f64 * share) as u64) });
    (
        (size(4 * KIB, 64 * MIB), size(512, MIB), prop::option::of(size(1_000_000, 1_000_000_000))),
        (prop::option::weighted(0.3, pause), prop::option::weighted(0.2, back)),
        (prop::option::weighted(0.3, 0.0..1.0f64), prop::option::weighted(0.2, size(64 * KIB, 4 * MIB))),
        any::<bool>(),
    )
        .prop_map(|((size, call, compute), (pause, back), (output, pieces), cached)| ProcessSpec {
            name: "program".to_owned(),
            size,
            call: Bytes(call.0.min(size.0)),
            compute,
            output_ratio: output.unwrap_or(0.0),
            pieces,
            pause,
            back,
            // Rarely, because a cached file causes no I/O.
            cached: cached && size.0 % 4 == 0,
            ..ProcessSpec::default()
        })
}

fn any_memory() -> impl Strategy<Value = MemorySpec> {
    let windows = prop::sample::select(vec![0, 32 * KIB, 128 * KIB, 128 * KIB, MIB, 8 * MIB]);
    (size(16 * MIB, 1024 * MIB), windows).prop_map(|(size, read_ahead)| MemorySpec {
        size,
        read_ahead: Bytes(read_ahead),
        ..MemorySpec::default()
    })
}

pub(crate) fn any_scenario() -> impl Strategy<Value = Scenario> {
    (any_drive(), any_memory(), any_process(), 1u64..1000).prop_map(|(drive, memory, process, seed)| {
        Scenario {
            name: "any".to_owned(),
            run: RunSpec { seed, ..RunSpec::default() },
            drive,
            queue: Default::default(),
            memory,
            cpu: Default::default(),
            machine: Default::default(),
            job: Vec::new(),
            process: vec![process],
            prefetch: PrefetchSpec::default(),
            regulate: None,
            case: Default::default(),
            vary: Default::default(),
            published: Vec::new(),
        }
    })
}

/// All runs have equal programs, unless PROPTEST_RNG_SEED is set: the goal is that no program at all is
/// harmed, and
/// [`programs_that_were_harmed`] lists the exceptions found.
pub(crate) fn config() -> ProptestConfig {
    let default = ProptestConfig::default();
    let rng_seed = if default.rng_seed == RngSeed::Random { RngSeed::Fixed(2006) } else { default.rng_seed };
    ProptestConfig { cases: default.cases / 4, failure_persistence: None, rng_seed, ..default }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_fixed_limit_is_exceeded_by_one_step_at_most(
        scenario in any_scenario(),
        limit in size(4 * KIB, 64 * MIB),
        step in size(4 * KIB, 32 * MIB),
        reads: bool,
    ) {
        let mut scenario = with_limit(&scenario, Distance::Fixed(limit));
        scenario.prefetch.step = step;
        scenario.prefetch.how = if reads { PrefetchMethod::Read } else { PrefetchMethod::Readahead };
        let longest = outcome(&scenario).processes[0].distances.longest;
        prop_assert!(longest <= limit.0 + step.0.min(limit.0), "{longest}\n{}", scenario.to_toml());
    }

    #[test]
    fn the_automatic_limit_is_exceeded_by_one_piece_at_most(
        scenario in any_scenario(),
        most in size(MIB, 64 * MIB),
        room in size(4 * KIB, 256 * MIB),
    ) {
        let mut scenario = with_limit(&scenario, Distance::Auto);
        scenario.prefetch.most = most;
        scenario.prefetch.room = Some(room);
        let longest = outcome(&scenario).processes[0].distances.longest;
        prop_assert!(longest <= most.0 + PIECE, "{longest}\n{}", scenario.to_toml());
        prop_assert!(longest <= room.0, "{longest} of {room:?}\n{}", scenario.to_toml());
    }

    #[test]
    fn the_time_of_any_program_is_accounted_for(scenario in any_scenario(), limit in size(4 * KIB, 64 * MIB)) {
        for limit in [Distance::Off, Distance::Auto, Distance::Fixed(limit)] {
            let process = &outcome(&with_limit(&scenario, limit)).processes[0];
            let accounted = process.ran + process.queued + process.waited_read + process.waited_write + process.slept;
            prop_assert_eq!(accounted, process.elapsed);
        }
    }

    #[test]
    fn a_cached_file_is_left_alone(scenario in any_scenario()) {
        let mut scenario = scenario;
        scenario.process[0].cached = true;
        scenario.memory.size = Bytes(1 << 30);
        does_no_harm(&scenario)?;
        prop_assert_eq!(outcome(&with_limit(&scenario, Distance::Auto)).processes[0].prefetched_bytes, 0);
    }

    #[test]
    fn a_random_reader_is_not_harmed(scenario in any_scenario(), block in size(4 * KIB, 64 * KIB)) {
        let mut scenario = scenario;
        let process = &mut scenario.process[0];
        process.access = Access::Random;
        (process.size, process.call, process.reads) = (Bytes(1 << 30), block, Some(500));
        does_no_harm(&scenario)?;
    }

    #[test]
    fn a_device_ten_times_slower_than_the_program_does_no_harm(scenario in any_scenario(), rate in size(1_000_000, 100_000_000)) {
        let mut scenario = scenario;
        let fixed = format!("latency=100us,parallel=32,bandwidth={}", rate.0);
        scenario.drive = DriveChoice { fixed: Some(fixed), ..DriveChoice::default() };
        scenario.process[0].compute = Some(Bytes(rate.0 * 10));
        does_no_harm(&scenario)?;
    }

    #[test]
    fn tiny_memory_does_no_harm(scenario in any_scenario(), memory in size(256 * KIB, 8 * MIB)) {
        let mut scenario = scenario;
        scenario.memory.size = memory;
        scenario.memory.read_ahead = Bytes(scenario.memory.read_ahead.0.min(128 * KIB));
        does_no_harm(&scenario)?;
    }

    #[test]
    fn no_program_is_harmed(scenario in any_scenario()) {
        does_no_harm(&scenario)?;
    }
}

/// `xz -1` on storage with a latency of 10 ms: it waits for a twenty-fifth of its time, so the first few accesses would
/// be a large part of that.
#[test]
fn a_program_that_hardly_waits_waits_for_its_first_access_only() {
    let file = "name = 'xz'\n[drive]\nfixed = 'latency=10ms,parallel=64,bandwidth=200MB'\n\
                [memory]\nsize = '512MiB'\nread_ahead = '128KiB'\n\
                [[process]]\nname = 'xz'\nsize = '128MiB'\ncall = '8KiB'\ncompute = '13MB'\n";
    let scenario = Scenario::from_toml(file, "xz").unwrap();
    let waited = |limit| outcome(&with_limit(&scenario, limit)).processes[0].waited_read;
    let (alone, ahead) = (waited(Distance::Off), waited(Distance::Auto));
    assert!(alone > Nanos(250 * MILLISECOND), "{alone:?}");
    assert!(ahead < Nanos(13 * MILLISECOND), "{ahead:?} of {alone:?}");
}

/// Cases found by a search over random programs and over a grid of long ones: a limit that stopped growing while the
/// program still waited, and runs so long that a drive which reorders its queue served their beginning last.
#[test]
fn programs_that_were_harmed_once_are_not_any_more() {
    const FILES: [&str; 5] = [
        "[drive]\nmodel = 'spinpoint-hd160jj'\n[memory]\nsize = '512MiB'\n\
         [[process]]\nname = 'p'\nsize = '1GiB'\ncompute = '50MB'\n",
        "[drive]\nmodel = 'spinpoint-hd160jj'\n[memory]\nsize = '512MiB'\n\
         [[process]]\nname = 'p'\nsize = '64MiB'\ncompute = '50MB'\n",
        "[drive]\nmodel = 'scorpio-wd10tpvx'\n[memory]\nsize = '512MiB'\nread_ahead = '1MiB'\n\
         [[process]]\nname = 'p'\nsize = '64MiB'\ncompute = '100MB'\n",
        "[drive]\nmodel = 'scorpio-wd10tpvx'\n[memory]\nsize = '16777215B'\nread_ahead = '1MiB'\n\
         [[process]]\nname = 'p'\nsize = '20565214B'\ncall = '511B'\ncompute = '81253474B'\n",
        "[drive]\nfixed = 'latency=4131us,parallel=1'\n[memory]\nsize = '1263542B'\nread_ahead = '128KiB'\n\
         [[process]]\nname = 'p'\nsize = '4747743B'\ncall = '156538B'\noutput_ratio = 0.35\n",
    ];
    let harmed = harmed(&FILES);
    assert!(harmed.is_empty(), "{}", harmed.join("\n"));
}

#[test]
#[ignore = "a file in small pieces on a drive that reorders loses a seventh, a program that goes back 3.4 %"]
fn programs_that_are_harmed() {
    const FILES: [&str; 2] = [
        "[drive]\nmodel = 'scorpio-wd10tpvx'\n[memory]\nsize = '5966317B'\nread_ahead = '0B'\n\
         [[process]]\nname = 'p'\nsize = '28891933B'\ncall = '243392B'\npieces = '204372B'\n",
        "[drive]\nfixed = 'latency=100us,parallel=32,bandwidth=2039079'\n[memory]\nsize = '16777215B'\n\
         [[process]]\nname = 'p'\nsize = '4848701B'\ncall = '511B'\ncompute = '20390790B'\n\
         output_ratio = 0.99\nback = { every = '3006944B', by = '2308135B' }\n",
    ];
    let harmed = harmed(&FILES);
    assert!(harmed.is_empty(), "{}", harmed.join("\n"));
}

/// Evaluates changes of the controller over PROPTEST_CASES programs, the same in every run: how many are harmed and by
/// how much, and the total times with and without prefetching.
#[test]
#[ignore = "a search: says what it finds, for PROPTEST_CASES programs"]
#[expect(clippy::print_stdout, reason = "what it finds is what it is for")]
fn a_search_for_programs_that_are_harmed() {
    let config = config();
    let cases = config.cases * 4;
    let mut runner = TestRunner::new(config);
    let (mut found, mut sum) = (0, [0.0, 0.0]);
    for _ in 0..cases {
        let scenario = any_scenario().new_tree(&mut runner).unwrap().current();
        let [alone, ahead] = times(&scenario);
        sum = [sum[0] + ahead.0 as f64 / alone.0.max(1) as f64, sum[1] + 1.0];
        if is_harmed(alone, ahead) {
            found += 1;
            let (alone, ahead) = (alone.as_secs_f64(), ahead.as_secs_f64());
            println!("{alone:.3} s alone, {ahead:.3} s with\n{}", scenario.to_toml());
        }
    }
    println!(
        "{found} of {cases} programs are harmed; on average they take {:.4} of their time",
        sum[0] / sum[1]
    );
}

/// Returns the times of a program without and with prefetching.
fn times(scenario: &Scenario) -> [Nanos; 2] {
    [Distance::Off, Distance::Auto].map(|limit| outcome(&with_limit(scenario, limit)).elapsed)
}

/// Returns whether prefetching takes more than 2 % plus 10 ms longer.
fn is_harmed(alone: Nanos, ahead: Nanos) -> bool {
    ahead.0 > alone.0 + alone.0 / 50 + 10 * MILLISECOND
}

/// Describes the programs that take longer with prefetching.
fn harmed(files: &[&str]) -> Vec<String> {
    let told = |file: &&str| {
        let scenario = Scenario::from_toml(&format!("name = 'harmed'\n{file}"), "harmed").unwrap();
        let [alone, ahead] = times(&scenario);
        is_harmed(alone, ahead)
            .then(|| format!("{:.3} s alone, {:.3} s with\n{file}", alone.as_secs_f64(), ahead.as_secs_f64()))
    };
    files.iter().filter_map(told).collect()
}
