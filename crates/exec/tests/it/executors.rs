//! Persistent threads: many runs, consecutive, concurrent and nested.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread::{self, ThreadId};

use sakiyomi_exec::executor::{Caller, Cause, Executor, Failure, Lane, Run, Threads};

fn started(threads: &Threads) -> Executor<'static> {
    threads.start().expect("threads can be started")
}

/// Returns the thread that runs a task of a lane.
fn thread_of(tasks: &Caller<'_>, lane: Lane) -> ThreadId {
    tasks.wait(tasks.task("who").on(lane).spawn(|_| thread::current().id())).unwrap()
}

#[test]
fn runs_one_after_the_other_are_on_the_same_threads() {
    let executor = started(&Threads::new(3));
    let mut threads = BTreeSet::new();
    for _ in 0..200 {
        let ids = executor.run(|tasks| {
            [Lane::Pinned(0), Lane::Pinned(1), Lane::Pinned(2), Lane::Io(0)]
                .map(|lane| thread_of(tasks, lane))
        });
        threads.insert(format!("{:?}", ids.unwrap()));
    }
    assert_eq!(threads.len(), 1);
}

#[test]
fn tasks_borrow_what_was_there_before_the_scope_and_have_ended_when_it_returns() {
    let (words, ended) = ([String::from("so"), String::from("happy")], AtomicUsize::new(0));
    let lengths = Threads::new(2).scope(|executor| {
        [&words[0], &words[1]].map(|word| {
            let ended = &ended;
            let run = executor.run(|tasks| {
                (0..100).for_each(|_| {
                    tasks.task("count").spawn(|_| ended.fetch_add(1, Ordering::SeqCst)).forget();
                });
                tasks.wait(tasks.task("length").spawn(|_| word.len()))
            });
            assert_eq!(ended.load(Ordering::SeqCst) % 100, 0);
            run.unwrap().unwrap()
        })
    });
    assert_eq!((lengths.unwrap(), ended.into_inner()), ([2, 5], 200));
}

#[test]
fn runs_at_the_same_time_fail_and_are_cancelled_by_themselves() {
    let executor = &started(&Threads::new(2));
    let (cancelled, failed, good) =
        (Executor::start(executor), Executor::start(executor), Executor::start(executor));
    cancelled.each("endless", 2, 0u64.., |_, _| Ok::<(), Failure>(())).forget();
    failed.task("bad").spawn(|_| panic!("bad")).forget();
    let sum = (1..=1000u64).map(|n| good.task("one").spawn(move |_| n)).collect::<Vec<_>>();
    assert_eq!(good.wait(sum).unwrap().iter().sum::<u64>(), 500_500);
    cancelled.cancel();
    good.finish().unwrap();
    assert_eq!(failed.finish().unwrap_err().to_string(), "the task `bad` panicked: bad");
    assert!(matches!(cancelled.finish().unwrap_err().cause, Cause::Cancelled));
}

#[test]
fn many_callers_have_runs_at_the_same_time() {
    let executor = &started(&Threads::new(2).live_max(20));
    thread::scope(|scope| {
        for caller in 0..4u64 {
            scope.spawn(move || {
                for number in 0..100 {
                    let result = executor.run(|tasks| {
                        let parts = (0..50).map(|part| {
                            let lane = [Lane::Compute, Lane::Io(0), Lane::Pinned(1)][part as usize % 3];
                            tasks.task("part").on(lane).spawn(move |_| part * caller + number)
                        });
                        let parts: Vec<_> = parts.collect();
                        tasks.wait(tasks.task("sum").with(parts).spawn(|parts, _| parts.iter().sum::<u64>()))
                    });
                    assert_eq!(result.unwrap().unwrap(), 1225 * caller + 50 * number);
                }
            });
        }
    });
}

#[test]
fn a_run_that_never_runs_out_leaves_others_their_turn() {
    let executor = &started(&Threads::new(2));
    let endless = Executor::start(executor);
    endless.each("endless", 4, 0u64.., |_, _| Ok::<(), Failure>(())).forget();
    for _ in 0..50 {
        // Only the thread that the endless run keeps busy may run it.
        executor.run(|tasks| thread_of(tasks, Lane::Pinned(1))).unwrap();
    }
    drop(endless);
}

#[test]
fn a_caller_that_waits_runs_no_tasks_of_other_runs() {
    let executor = &started(&Threads::new(1));
    let other = Executor::start(executor);
    let by_whom = other.task("by whom").spawn(|_| thread::current().id());
    thread::scope(|scope| {
        let run = move || {
            executor.run(|tasks| {
                (0..100).for_each(|_| {
                    let _ = thread_of(tasks, Lane::Io(0));
                })
            })
        };
        scope.spawn(run).join().unwrap().unwrap();
    });
    // The task is still queued for its own caller.
    assert_eq!(other.wait(by_whom).unwrap(), thread::current().id());
}

#[test]
fn a_run_that_is_dropped_is_cancelled_and_what_has_begun_is_awaited() {
    let executor = started(&Threads::new(2));
    let (begun, ended, queued) =
        (Arc::new(Barrier::new(2)), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let run = Executor::start(&executor);
    let (entered, counts) = (Arc::clone(&begun), Arc::clone(&ended));
    let slow = move |_: &_| {
        entered.wait();
        thread::sleep(std::time::Duration::from_millis(20));
        counts.fetch_add(1, Ordering::SeqCst);
    };
    run.task("slow").on(Lane::Io(0)).spawn(slow).forget();
    begun.wait();
    for lane in [Lane::Io(0), Lane::Pinned(0), Lane::Io(0)] {
        let queued = Arc::clone(&queued);
        run.task("queued").on(lane).spawn(move |_| queued.fetch_add(1, Ordering::SeqCst)).forget();
    }
    drop(run);
    assert_eq!((ended.load(Ordering::SeqCst), queued.load(Ordering::SeqCst)), (1, 0));
    assert_eq!(Arc::strong_count(&queued), 1, "their values were dropped");
}

#[test]
fn a_run_goes_on_on_another_thread() {
    let executor = Arc::new(started(&Threads::new(2)));
    let run: Run<'static, Arc<Executor<'static>>> = Executor::start(Arc::clone(&executor));
    let first = run.task("first").spawn(|_| 1);
    drop(executor);
    let sum = thread::spawn(move || {
        let last = (0..1000).fold(first, |last, _| run.task("next").with(last).spawn(|sum, _| sum + 1));
        let sum = run.wait(last).unwrap();
        run.finish().map(|()| sum)
    });
    assert_eq!(sum.join().unwrap().unwrap(), 1001);
}

#[test]
fn a_run_within_a_task_never_locks_up_whatever_it_binds_to_its_own_thread() {
    for threads in [1, 2, 3] {
        let executor = Arc::new(started(&Threads::new(threads)));
        for outer in [Lane::Compute, Lane::Io(0), Lane::Pinned(0), Lane::Pinned(1)] {
            let inner = Arc::clone(&executor);
            let nested = move |depth: usize| {
                fn run(executor: &Arc<Executor<'static>>, depth: usize) -> usize {
                    let lanes =
                        [Lane::Compute, Lane::Io(0), Lane::Pinned(0), Lane::Pinned(1), Lane::Pinned(2)];
                    let below = |tasks: &Caller<'static>| {
                        let parts = lanes.map(|lane| {
                            let executor = Arc::clone(executor);
                            tasks
                                .task("part")
                                .on(lane)
                                .spawn(move |_| if depth == 0 { 1 } else { run(&executor, depth - 1) })
                        });
                        parts.map(|part| tasks.wait(part).unwrap()).iter().sum()
                    };
                    executor.run(below).unwrap()
                }
                run(&inner, depth)
            };
            let count =
                executor.run(|tasks| tasks.wait(tasks.task("outer").on(outer).spawn(move |_| nested(2))));
            assert_eq!(count.unwrap().unwrap(), 125);
        }
    }
}

#[test]
fn a_lane_has_as_many_tasks_at_a_time_as_threads_and_lanes_do_not_wait_for_each_other() {
    let meet = [Barrier::new(3), Barrier::new(2)];
    Threads::new(1)
        .io_lanes([3, 2])
        .run(|tasks| {
            for (lane, meet) in meet.iter().enumerate() {
                let count = [3, 2][lane];
                (0..count)
                    .for_each(|_| tasks.task("meet").on(Lane::Io(lane)).spawn(|_| meet.wait()).forget());
            }
            // Modulo the number of lanes.
            assert_eq!(
                tasks.wait(tasks.task("name").on(Lane::Io(3)).spawn(|_| thread_name())).unwrap(),
                "sakiyomi-io-1"
            );
        })
        .unwrap();
    let none =
        Threads::new(1).io_lanes([]).run(|tasks| tasks.wait(tasks.task("one").on(Lane::Io(5)).spawn(|_| 1)));
    assert_eq!(none.unwrap().unwrap(), 1);
}

fn thread_name() -> String {
    thread::current().name().unwrap_or_default().to_owned()
}

#[test]
fn threads_that_compute_stay_on_their_cores_and_the_caller_is_left_alone() {
    let usable = sakiyomi_os::affinity::usable_cpus().unwrap();
    let cores: Vec<usize> = usable.iter().copied().collect();
    let executor = started(&Threads::new(3).cores(cores.clone()));
    let cpus = |lane| {
        let ask = |_: &_| sakiyomi_os::affinity::usable_cpus().unwrap();
        executor.run(|tasks| tasks.wait(tasks.task("cpus").on(lane).spawn(ask))).unwrap().unwrap()
    };
    for index in [1, 2] {
        assert_eq!(cpus(Lane::Pinned(index)), [cores[index % cores.len()]].into());
    }
    assert_eq!((cpus(Lane::Pinned(0)), cpus(Lane::Io(0))), (usable.clone(), usable));
}

#[test]
fn a_core_that_is_not_there_is_an_error() {
    let error = Threads::new(2).cores([1 << 20]).start().map(drop).unwrap_err();
    assert_eq!(
        error.to_string(),
        "core 1048576 does not exist, or this process may not use it; name another core for tasks"
    );
    assert!(Threads::new(2).cores([1 << 20]).run(|_| ()).is_err());
}

#[test]
fn the_threads_end_with_their_executor() {
    struct Ends(mpsc::Sender<()>);
    impl Drop for Ends {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }
    thread_local!(static ENDS: RefCell<Option<Ends>> = const { RefCell::new(None) });
    let (ends, ended) = mpsc::channel();
    let executor = started(&Threads::new(2));
    for lane in [Lane::Pinned(1), Lane::Io(0)] {
        let ends = Ends(ends.clone());
        let keep = move |_: &_| ENDS.with(|here| *here.borrow_mut() = Some(ends));
        executor.run(|tasks| tasks.wait(tasks.task("keep").on(lane).spawn(keep))).unwrap().unwrap();
    }
    assert!(ended.try_recv().is_err());
    drop(executor);
    assert_eq!(ended.try_iter().count(), 2);
}

#[test]
fn a_main_that_panics_ends_its_run_and_the_executor_is_as_good_as_before() {
    let executor = started(&Threads::new(2));
    let ran = Arc::new(AtomicUsize::new(0));
    let panics = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        executor.run(|tasks| {
            let ran = Arc::clone(&ran);
            tasks
                .task("late")
                .on(Lane::Pinned(0))
                .spawn(move |_| ran.fetch_add(1, Ordering::SeqCst))
                .forget();
            panic!("the caller");
        })
    }));
    assert!(panics.is_err());
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    assert_eq!(executor.run(|tasks| tasks.wait(tasks.task("one").spawn(|_| 1))).unwrap().unwrap(), 1);
}
