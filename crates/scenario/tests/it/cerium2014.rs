//! The published experiment (Kohagura & Kono, Ryukyu 2014, tables 5 to 7), whose ranking of methods must be reproduced;
//! and invariants of any job of tasks.

use proptest::prelude::*;
use sakiyomi_drive::spec::builtin;
use sakiyomi_model::Nanos;
use sakiyomi_scenario::{JobRun, Outcome, Scenario, run};

const METHODS: &str = include_str!("../../../../scenarios/cerium2014-methods.toml");
const CACHED: &str = include_str!("../../../../scenarios/cerium2014-cached.toml");
const SECOND: &str = include_str!("../../../../scenarios/cerium2014-second-run.toml");

/// Share of the file's size, large enough for proportional times.
const SHARE: f64 = 0.25;

fn with(text: &str, settings: &[(&str, &str)]) -> Scenario {
    let mut scenario = Scenario::from_toml(text, "cerium2014").unwrap_or_else(|error| panic!("{error}"));
    for (key, value) in settings {
        scenario.set(key, value).unwrap_or_else(|error| panic!("{error}"));
    }
    scenario
}

fn outcome(scenario: &Scenario) -> Outcome {
    let drive = scenario.drive.model.as_ref().map(|name| builtin(name).unwrap().spec());
    run(scenario, drive.as_ref(), 0).unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the elapsed time in seconds, scaled to the whole file.
fn seconds(method: &str, part: &str, threads: u32) -> f64 {
    let threads = threads.to_string();
    let settings = [
        ("job.wc.size", "250MB"),
        ("job.wc.method", method),
        ("job.wc.part", part),
        ("job.wc.threads", &threads),
    ];
    outcome(&with(METHODS, &settings)).elapsed.as_secs_f64() / SHARE
}

#[test]
fn on_one_thread_the_methods_come_in_the_published_order_but_for_one_pair() {
    for part in ["128KiB", "16KiB"] {
        let at = |method| seconds(method, part, 1);
        let (io, any, mmap, read) = (at("blocked-io"), at("blocked-any"), at("mmap"), at("read"));
        assert!(io <= any && any < read && io < mmap && mmap < read, "{part}: {io} {any} {mmap} {read}");
        // Published: 13.3 before 15.4 s with short parts, and 18.5 before 20.2 s with long ones; the latter is not
        // reproduced.
        assert!(part == "128KiB" || any < mmap, "{any} {mmap}");
        // Sequential: either the drive or the core is idle at any time.
        assert!(read > 1.8 * io);
    }
}

#[test]
fn with_long_parts_several_threads_of_a_mapping_are_in_each_others_way() {
    for threads in [4, 8, 12] {
        let at = |method| seconds(method, "128KiB", threads);
        let others = [at("blocked-io"), at("blocked-any"), at("read")];
        assert!(others.iter().all(|&time| at("mmap") > 1.5 * time), "{threads}: {} {others:?}", at("mmap"));
        assert!(others[1..].iter().all(|&time| others[0] < time), "{threads}: {others:?}");
    }
}

#[test]
fn with_short_parts_and_several_threads_the_drive_decides() {
    for threads in [4, 12] {
        let at = |method| seconds(method, "16KiB", threads);
        let io = at("blocked-io");
        assert!(
            ["mmap", "blocked-any"].iter().all(|method| (at(method) / io - 1.0).abs() < 0.03),
            "{threads}"
        );
        // Published: 11.4 s, limited by the drive.
        assert!((io / 11.4 - 1.0).abs() < 0.05, "{io}");
    }
}

#[test]
fn in_memory_reading_first_is_the_slowest() {
    let at = |method: &str| outcome(&with(CACHED, &[("job.wc.method", method)])).elapsed.as_secs_f64();
    let (mmap, read, io) = (at("mmap"), at("read"), at("blocked-io"));
    assert!((mmap / 0.878 - 1.0).abs() < 0.01, "{mmap}: the compute rate comes from there");
    // Published: 1.469 and 0.866 s.
    assert!(read > 1.4 * mmap && (io / mmap - 1.0).abs() < 0.1, "{mmap} {read} {io}");
}

/// Returns the second run of an experiment scaled to a hundredth.
fn second(settings: &[(&str, &str)]) -> JobRun {
    let small = [("memory.size", "140MB"), ("job.wc.size", "100MB"), ("job.wc.block", "4")];
    let small = [small.as_slice(), &[("memory.page", "4KiB")], settings].concat();
    outcome(&with(SECOND, &small)).jobs[0].runs[1]
}

#[test]
fn a_buffer_beside_the_page_cache_takes_the_gain_of_a_second_run() {
    let size = 100_000_000;
    let papers = second(&[]);
    assert!(papers.fetched_bytes >= size, "nothing is left of what was in memory: {papers:?}");
    let pool = second(&[("job.wc.buffer", "pool")]);
    assert_eq!(pool.fetched_bytes, 0);
    assert!(pool.elapsed < papers.elapsed / 5);
    let first = second(&[("job.wc.order", "cached-first")]);
    assert!(first.fetched_bytes < size * 7 / 10, "{first:?}");
    let mapped = second(&[("job.wc.method", "mmap")]);
    assert_eq!(mapped.fetched_bytes, 0);
    let small = second(&[("job.wc.size", "60MB")]);
    assert_eq!(small.fetched_bytes, 0, "both fit");
}

#[test]
fn what_is_cached_goes_first_where_a_file_is_larger_than_memory() {
    let large = [("job.wc.buffer", "pool"), ("job.wc.size", "200MB")];
    assert!(second(&large).fetched_bytes >= 200_000_000, "read in order it evicts itself");
    let first = second(&[large.as_slice(), &[("job.wc.order", "cached-first")]].concat());
    assert!(first.fetched_bytes < 80_000_000, "{first:?}");
}

#[test]
fn an_urgent_thread_for_io_is_not_held_up_by_those_that_compute() {
    // Without read-ahead the drive is idle while data waits to be copied.
    let busy = [
        ("cpu.cores", "1"),
        ("memory.read_ahead", "0"),
        ("job.wc.threads", "4"),
        ("job.wc.size", "50MB"),
        ("job.wc.copy", "400MB"),
        ("job.wc.compute", "130MB"),
    ];
    let urgent = outcome(&with(METHODS, &busy)).elapsed;
    let other =
        outcome(&with(METHODS, &[busy.as_slice(), &[("job.wc.io_urgent", "false")]].concat())).elapsed;
    assert!(urgent < other, "{urgent} {other}");
}

#[test]
fn a_mapping_in_linux_is_read_ahead_of() {
    let linux = [
        ("memory.kernel", "linux"),
        ("memory.read_ahead", "128KiB"),
        ("memory.fault", "128KiB"),
        ("job.wc.threads", "1"),
        ("job.wc.method", "mmap"),
        ("job.wc.size", "50MB"),
    ];
    let run = outcome(&with(METHODS, &linux)).jobs[0].runs[0];
    assert!(run.elapsed < run.reading.max(run.computed) * 11 / 10, "{run:?}");
}

#[test]
fn jobs_and_programs_share_a_drive() {
    let mut scenario = with(METHODS, &[("job.wc.size", "50MB")]);
    let alone = outcome(&scenario);
    let text = "name = 'x'\n[drive]\nfixed = 'latency=1ms'\n[[process]]\nname = 'rival'\nsize = '50MB'\n";
    scenario.process = Scenario::from_toml(text, "rival").unwrap().process;
    let together = outcome(&scenario);
    assert_eq!(together.processes[0].read_bytes, 50_000_000);
    assert!(together.jobs[0].runs[0].elapsed > alone.jobs[0].runs[0].elapsed);
}

#[test]
fn what_cannot_be_is_refused_in_a_sentence() {
    let error = |key: &str, value: &str| {
        let mut scenario = with(METHODS, &[]);
        match scenario.set(key, value) {
            Err(error) => error.to_string(),
            Ok(()) => scenario.check().unwrap_err().to_string(),
        }
    };
    assert!(error("job.wc.method", "blocked").contains("expected one of mmap, read, blocked-any"));
    assert!(error("job.wc.color", "red").contains("unknown key; valid keys: name, size"));
    assert!(error("job.cw.part", "16KiB").contains("no job is called `cw`"));
    assert!(error("process.wc.size", "1GB").contains("no process is called `wc`"));
    assert_eq!(error("job.wc.part", "5000"), "job.0.part: one page or more, and whole pages (memory.page)");
    assert_eq!(error("job.wc.threads", "0"), "job.0.threads: at least 1");
    assert_eq!(error("job.wc.threads", "1001"), "job.threads: 1000 at most, those of all jobs together");
    assert!(error("job.wc.block", "600000").contains("1048576 parts under way at most"));
    assert!(error("job.wc.size", "14GB").starts_with("job.0.buffer: it leaves nothing of memory.size"));
    let mut read = with(METHODS, &[("job.wc.method", "read")]);
    read.set("job.wc.order", "cached-first").unwrap();
    assert!(read.check().unwrap_err().to_string().contains("takes the file as it lies"));
    let none = Scenario::from_toml("name = 'x'\n[drive]\nfixed = 'latency=1ms'\n", "x.toml").unwrap_err();
    assert!(none.to_string().contains("write a [[process]] or a [[job]]"), "{none}");
}

fn any_job() -> impl Strategy<Value = Scenario> {
    let names = (
        prop::sample::select(vec!["mmap", "read", "blocked-any", "blocked-io"]),
        prop::sample::select(vec!["file", "pool"]),
        prop::sample::select(vec!["linux", "xnu"]),
        prop::sample::select(vec!["model = 'deskstar-p7k500'", "fixed = 'latency=2ms,parallel=4'"]),
    );
    let sizes = (1u64..6_000_000, 1u64..40, 1u32..20, 1u32..5, 1u32..3);
    let machine = (1u32..5, 1u32..6, 1u64..8_000_000, 0u64..2_000_000, any::<[bool; 4]>());
    (names, sizes, machine).prop_map(
        |(
            (method, buffer, kernel, drive),
            (size, part, block, blocks, runs),
            (cores, threads, memory, ahead, [copies, computes, cached_first, cached]),
        )| {
            let buffers = match (method, buffer) {
                ("mmap", _) => 0,
                ("read", _) | (_, "file") => size,
                _ => size.min(part * 4096 * u64::from(block * blocks)),
            };
            let memory = (memory + 4096 * 16).max(buffers + 4096 * 16 + 1);
            let order = if cached_first && method != "read" { "cached-first" } else { "file" };
            let rates = [("copy", copies), ("compute", computes)]
                .map(|(key, is_there)| if is_there { format!("{key} = '50MB'\n") } else { String::new() });
            let text = format!(
                "name = 'any'\n[drive]\n{drive}\n[memory]\nkernel = '{kernel}'\nsize = {memory}\nread_ahead = {}\n\
                 [cpu]\ncores = {cores}\n[[job]]\nname = 'j'\nsize = {size}\nmethod = '{method}'\npart = {}\n\
                 block = {block}\nblocks = {blocks}\nthreads = {threads}\nbuffer = '{buffer}'\norder = '{order}'\n\
                 runs = {runs}\ncached = {cached}\n{}",
                ahead.min(memory),
                part * 4096,
                rates.concat()
            );
            Scenario::from_toml(&text, "any").unwrap_or_else(|error| panic!("{error}\n{text}"))
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn all_is_read_and_computed_on_once_and_no_faster_than_can_be(scenario in any_job()) {
        let outcome = outcome(&scenario);
        let job = &scenario.job[0];
        prop_assert_eq!(outcome.jobs[0].runs.len() as u32, job.runs);
        for run in &outcome.jobs[0].runs {
            prop_assert_eq!(run.computed_bytes, job.size.0);
            let buffered = outcome.jobs[0].method != sakiyomi_scenario::spec::ReadMethod::Mmap;
            prop_assert_eq!(run.read_bytes, if buffered { job.size.0 } else { 0 });
            prop_assert!(run.elapsed >= run.reading);
            let workers = u64::from(job.threads.min(scenario.cpu.cores));
            prop_assert!(run.elapsed * workers >= run.computed);
            prop_assert!(run.elapsed * u64::from(scenario.cpu.cores) >= run.computed + run.copied);
            // The time of every thread is accounted for, except for an idle I/O thread, up to rounding.
            let accounted = run.computed + run.copied + run.queued + run.waited + run.idle;
            prop_assert!(accounted <= run.elapsed * (u64::from(job.threads) + 1));
            prop_assert!(accounted >= run.elapsed * u64::from(job.threads));
        }
        prop_assert_eq!(outcome.elapsed, outcome.jobs[0].runs.iter().map(|run| run.elapsed).sum::<Nanos>());
        prop_assert_eq!(&outcome, &self::outcome(&scenario), "same seed, same outcome");
    }
}
