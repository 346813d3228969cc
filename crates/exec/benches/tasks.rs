//! `cargo bench -p sakiyomi-exec --bench tasks`: what a task costs that does nothing, on two threads.

use divan::Bencher;
use divan::counter::ItemsCount;
use sakiyomi_exec::manager::{Manager, Tasks};

fn main() {
    divan::main();
}

const TASKS: usize = 1_000_000;

#[divan::bench(sample_count = 7, args = [1, 2])]
fn empty(bencher: Bencher, threads: usize) {
    bencher.counter(ItemsCount::new(TASKS)).bench(|| {
        let made = Manager::new(threads).run(|tasks| {
            (0..TASKS).for_each(|_| tasks.task("empty").spawn(|_| ()).forget());
        });
        made.expect("nothing fails");
    });
}

#[divan::bench(sample_count = 7)]
fn in_task_blocks(bencher: Bencher) {
    bencher.counter(ItemsCount::new(TASKS)).bench(|| {
        let nothing = |_, _: &Tasks<'_>| Ok::<(), String>(());
        let made = Manager::new(2).run(|tasks| tasks.each("empty", 48, 0..TASKS, nothing).forget());
        made.expect("nothing fails");
    });
}

/// Each waits for two before it.
#[divan::bench(sample_count = 7, args = [1, 2])]
fn with_dependencies(bencher: Bencher, threads: usize) {
    bencher.counter(ItemsCount::new(TASKS)).bench(|| {
        let made = Manager::new(threads).run(|tasks| {
            let mut last = [tasks.task("first").spawn(|_| ()), tasks.task("first").spawn(|_| ())];
            for index in 0..TASKS {
                let next = tasks.task("next").wait_for(&last[0]).wait_for(&last[1]).spawn(|_| ());
                last[index % 2] = next;
            }
        });
        made.expect("nothing fails");
    });
}
