//! `cargo bench -p sakiyomi-exec --bench tasks`: cost of an empty task on two threads.

use divan::Bencher;
use divan::counter::ItemsCount;
use sakiyomi_exec::executor::{Caller, Lane, Tasks, Threads};

fn main() {
    divan::main();
}

const TASKS: usize = 1_000_000;

#[divan::bench(sample_count = 7, args = [1, 2])]
fn empty(bencher: Bencher, threads: usize) {
    bencher.counter(ItemsCount::new(TASKS)).bench(|| {
        let made = Threads::new(threads).run(|tasks| {
            (0..TASKS).for_each(|_| tasks.task("empty").spawn(|_| ()).forget());
        });
        made.expect("nothing fails");
    });
}

#[divan::bench(sample_count = 7)]
fn in_task_blocks(bencher: Bencher) {
    bencher.counter(ItemsCount::new(TASKS)).bench(|| {
        let nothing = |_, _: &Tasks<'_>| Ok::<(), String>(());
        let made = Threads::new(2).run(|tasks| tasks.each("empty", 48, 0..TASKS, nothing).forget());
        made.expect("nothing fails");
    });
}

/// Each task waits for two predecessors.
#[divan::bench(sample_count = 7, args = [1, 2])]
fn with_dependencies(bencher: Bencher, threads: usize) {
    bencher.counter(ItemsCount::new(TASKS)).bench(|| {
        let made = Threads::new(threads).run(|tasks| {
            let mut last = [tasks.task("first").spawn(|_| ()), tasks.task("first").spawn(|_| ())];
            for index in 0..TASKS {
                let next = tasks.task("next").wait_for(&last[0]).wait_for(&last[1]).spawn(|_| ());
                last[index % 2] = next;
            }
        });
        made.expect("nothing fails");
    });
}

/// A run of one task, for which its caller waits, on threads started for it.
#[divan::bench(args = [1, 2])]
fn run_of_one_task_on_new_threads(bencher: Bencher, threads: usize) {
    let threads = Threads::new(threads);
    bencher.bench(|| threads.run(one_task).expect("nothing fails"));
}

/// Measures a run of one task on persistent threads.
#[divan::bench(args = [1, 2])]
fn run_of_one_task(bencher: Bencher, threads: usize) {
    let executor = Threads::new(threads).start().expect("threads can be started");
    bencher.bench(|| executor.run(one_task).expect("nothing fails"));
}

/// Measures a run of one task on the I/O lane, including waking its thread and the caller.
#[divan::bench]
fn run_of_one_io_task(bencher: Bencher) {
    let executor = Threads::new(2).start().expect("threads can be started");
    bencher.bench(|| executor.run(|tasks| tasks.wait(tasks.task("one").on(Lane::Io(0)).spawn(|_| 1))));
}

fn one_task(tasks: &Caller<'_>) -> i32 {
    tasks.wait(tasks.task("one").spawn(|_| 1)).expect("nothing fails")
}
