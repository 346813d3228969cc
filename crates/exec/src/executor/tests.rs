use std::error::Error;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn cause(failure: &Failure) -> &'static str {
    match failure.cause {
        Cause::Failed(_) => "failed",
        Cause::Panicked(_) => "panicked",
        Cause::Cancelled => "cancelled",
        Cause::NoThread(_) | Cause::NoCore(_) => "no thread",
    }
}

#[test]
fn outputs_are_inputs_of_those_that_wait() {
    for threads in [1, 2, 4] {
        let total = Threads::new(threads).run(|tasks| {
            let parts: Vec<_> = (0..100u64).map(|part| tasks.task("part").spawn(move |_| part)).collect();
            let sum = tasks.task("sum").with(parts).spawn(|parts, _| parts.into_iter().sum::<u64>()).share();
            let half = tasks.task("half").with(sum.clone()).spawn(|sum, _| *sum / 2);
            let both = tasks.task("both").with((sum, half)).spawn(|(sum, half), _| *sum + half);
            tasks.wait(both)
        });
        assert_eq!(total.unwrap().unwrap(), 4950 + 2475);
    }
}

#[test]
fn each_device_runs_what_is_its_own() {
    let name = || thread::current().name().unwrap_or_default().to_owned();
    let caller = name();
    Threads::new(3)
        .run(|tasks| {
            for _ in 0..50 {
                let here = |device| tasks.task("where").on(device).spawn(move |_| name());
                let (io, first, second) = (here(Lane::Io(0)), here(Lane::Pinned(0)), here(Lane::Pinned(4)));
                assert_eq!(tasks.wait(io).unwrap(), "sakiyomi-io");
                assert_eq!(tasks.wait(first).unwrap(), caller);
                assert_eq!(tasks.wait(second).unwrap(), "sakiyomi-1");
            }
        })
        .unwrap();
}

#[test]
fn urgent_tasks_are_first_and_the_others_last() {
    let order = Mutex::new(Vec::new());
    Threads::new(1)
        .run(|tasks| {
            for priority in [Priority::Low, Priority::Normal, Priority::High, Priority::Low, Priority::High] {
                let order = &order;
                let note = move |_: &Tasks<'_>| order.lock().unwrap().push(priority);
                tasks.task("note").priority(priority).spawn(note).forget();
            }
        })
        .unwrap();
    assert!(order.into_inner().unwrap().is_sorted_by(|first, next| first >= next));
}

#[test]
fn a_panic_ends_what_depends_on_it_and_nothing_else() {
    let run = AtomicUsize::new(0);
    let failure = Threads::new(2)
        .run(|tasks| {
            let bad = tasks.task("bad").spawn(|_| panic!("seven is {}", 7));
            let next = tasks.task("next").wait_for(&bad).spawn(|_| run.fetch_add(1000, Ordering::SeqCst));
            let last = tasks.task("last").with(next).spawn(|_, _| run.fetch_add(1000, Ordering::SeqCst));
            let others: Vec<_> =
                (0..50).map(|_| tasks.task("other").spawn(|_| run.fetch_add(1, Ordering::SeqCst))).collect();
            let all = tasks.task("all").with(others).spawn(|_, _| ());
            tasks.wait(all).unwrap();
            drop((bad, last));
        })
        .unwrap_err();
    assert_eq!(failure.to_string(), "the task `bad` panicked: seven is 7");
    assert_eq!(run.into_inner(), 50);
}

#[test]
fn an_error_reaches_who_waits_with_the_name_of_its_task() {
    let result = Threads::new(2).run(|tasks| {
        let read = tasks.task("read block 3").try_spawn(|_| Err::<u8, _>("no such block"));
        let count = tasks.task("count").with(read).spawn(|byte, _| byte + 1);
        let failure = tasks.wait(count).unwrap_err();
        assert_eq!(failure.to_string(), "the task `read block 3` failed");
        assert_eq!(failure.source().unwrap().to_string(), "no such block");
        // The error also reaches a task that is made later.
        let broken = tasks.task("broken").try_spawn(|_| Err::<u8, _>("broken"));
        let order = tasks.task("order").wait_for(&broken).spawn(|_| ());
        tasks.wait(broken).unwrap_err();
        tasks.wait(order).unwrap_err();
    });
    result.expect("the caller was given each failure");
}

#[test]
fn a_cancelled_run_ends_without_running_the_rest() {
    let run = AtomicUsize::new(0);
    let failure = Threads::new(2)
        .run(|tasks| {
            let first = tasks.task("first").spawn(|tasks| tasks.cancel());
            for _ in 0..100 {
                let late = tasks.task("late").wait_for(&first);
                late.spawn(|_| run.fetch_add(1, Ordering::SeqCst)).forget();
            }
        })
        .unwrap_err();
    assert_eq!((cause(&failure), run.into_inner()), ("cancelled", 0));
}

#[test]
fn a_caller_that_panics_waits_for_tasks_that_borrow_from_it() {
    let ended = AtomicUsize::new(0);
    let result = catch_unwind(AssertUnwindSafe(|| {
        Threads::new(2).run(|tasks| {
            let slow = |_: &Tasks<'_>| {
                thread::sleep(Duration::from_millis(20));
                ended.fetch_add(1, Ordering::SeqCst);
            };
            tasks.task("slow").on(Lane::Io(0)).spawn(slow).forget();
            thread::sleep(Duration::from_millis(5));
            panic!("the caller");
        })
    }));
    assert!(result.is_err());
    assert_eq!(ended.into_inner(), 1);
}

#[test]
fn the_callers_tasks_are_bounded() {
    let (live, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    Threads::new(2)
        .live_max(10)
        .run(|tasks| {
            for _ in 0..1000 {
                most.fetch_max(1 + live.fetch_add(1, Ordering::SeqCst), Ordering::SeqCst);
                tasks.task("one").spawn(|_| live.fetch_sub(1, Ordering::SeqCst)).forget();
            }
        })
        .unwrap();
    assert!(most.into_inner() <= 11);
}

#[test]
fn tasks_that_make_tasks_go_beyond_the_bound_and_never_lock_up() {
    fn tree<'env>(tasks: &Tasks<'env>, depth: u32, leaves: &'env AtomicU64) {
        if depth == 0 {
            leaves.fetch_add(1, Ordering::SeqCst);
            return;
        }
        for _ in 0..2 {
            tasks.task("branch").spawn(move |tasks| tree(tasks, depth - 1, leaves)).forget();
        }
    }
    for threads in [1, 3] {
        let leaves = AtomicU64::new(0);
        Threads::new(threads).live_max(1).run(|tasks| tree(tasks, 12, &leaves)).unwrap();
        assert_eq!(leaves.into_inner(), 4096);
    }
}

#[test]
fn task_blocks_keep_to_their_number_and_end_together() {
    for threads in [1, 3] {
        let (live, most, done) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        Threads::new(threads)
            .run(|tasks| {
                let all = tasks.each("block", 4, 0..500, |_, _| {
                    most.fetch_max(1 + live.fetch_add(1, Ordering::SeqCst), Ordering::SeqCst);
                    done.fetch_add(1, Ordering::SeqCst);
                    live.fetch_sub(1, Ordering::SeqCst);
                    Ok::<(), String>(())
                });
                let check = tasks.task("check").wait_for(&all).spawn(|_| done.load(Ordering::SeqCst));
                assert_eq!(tasks.wait(check).unwrap(), 500);
            })
            .unwrap();
        assert!(most.into_inner() <= 4);
    }
}

#[test]
fn task_blocks_end_with_the_first_that_fails() {
    let done = AtomicUsize::new(0);
    let failure = Threads::new(2).run(|tasks| {
        let all = tasks.each("block", 2, 0.., |item, _| {
            done.fetch_add(1, Ordering::SeqCst);
            if item == 50 { Err(format!("item {item}")) } else { Ok(()) }
        });
        let failure = tasks.wait(all).unwrap_err();
        assert_eq!(failure.source().unwrap().to_string(), "item 50");
        tasks.each("empty", 3, 0..0, |_: i32, _| Ok::<(), String>(())).forget();
    });
    drop(failure);
    assert!(done.into_inner() <= 60);
}

#[test]
fn a_run_inside_a_task_is_one_of_its_own() {
    let inner =
        || Threads::new(2).run(|tasks| tasks.wait(tasks.task("inner").spawn(|_| 3))).unwrap().unwrap();
    let outer = Threads::new(2).run(|tasks| {
        let both = [tasks.task("outer").spawn(move |_| inner()), tasks.task("outer").spawn(move |_| inner())];
        both.map(|one| tasks.wait(one).unwrap())
    });
    assert_eq!(outer.unwrap(), [3, 3]);
}

#[test]
fn a_long_chain_needs_no_stack() {
    let length = 100_000;
    let end = Threads::new(2).run(|tasks| {
        let mut last = tasks.task("first").spawn(|_| 0);
        for _ in 0..length {
            last = tasks.task("next").with(last).spawn(|number, _| number + 1);
        }
        tasks.wait(last)
    });
    assert_eq!(end.unwrap().unwrap(), length);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(50))]
    #[test]
    fn no_task_begins_before_those_that_it_waits_for_have_ended(
        before in prop::collection::vec(prop::collection::vec(any::<prop::sample::Index>(), 0..4), 1..60),
        devices in prop::collection::vec(0..4usize, 60),
        threads in 1..4usize,
        live_max in 1..20usize,
    ) {
        let ended: Vec<AtomicBool> = before.iter().map(|_| AtomicBool::new(false)).collect();
        let ended = &ended;
        let result = Threads::new(threads).live_max(live_max).run(|tasks| {
            let mut handles: Vec<Handle<'_, ()>> = Vec::new();
            for (task, before) in before.iter().enumerate() {
                let before: Vec<usize> =
                    before.iter().filter(|_| task > 0).map(|index| index.index(task)).collect();
                let device = [Lane::Compute, Lane::Io(0), Lane::Pinned(0), Lane::Pinned(1)][devices[task]];
                let mut builder = tasks.task("one").on(device);
                for &other in &before {
                    builder = builder.wait_for(&handles[other]);
                }
                handles.push(builder.spawn(move |_| {
                    assert!(before.iter().all(|&other| ended[other].load(Ordering::SeqCst)));
                    ended[task].store(true, Ordering::SeqCst);
                }));
            }
        });
        prop_assert!(result.is_ok(), "{:?}", result);
        prop_assert!(ended.iter().all(|ended| ended.load(Ordering::SeqCst)));
    }
}

#[test]
fn what_a_task_is_besides_its_function_fits_in_two_cache_lines() {
    // Plus the fields of `Arc` and a lock. Larger tasks, freed by other threads, contend for the C library's heap.
    assert!(size_of::<tasks::Core<'_>>() + 3 * size_of::<usize>() + size_of::<usize>() <= 128);
}

/// Panics when it is dropped, and counts that.
struct Fragile<'a>(&'a AtomicUsize);

impl Drop for Fragile<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
        if !thread::panicking() {
            panic!("fragile");
        }
    }
}

#[test]
fn what_panics_when_it_is_dropped_fails_its_task_and_nothing_hangs() {
    for threads in [1, 2] {
        let dropped = AtomicUsize::new(0);
        // Unused outputs, whichever thread drops the last reference.
        let failure = Threads::new(threads).run(|tasks| {
            for _ in 0..100 {
                tasks.task("output").spawn(|_| Fragile(&dropped)).forget();
            }
        });
        if let Err(failure) = failure {
            assert_eq!(failure.to_string(), "the task `output` panicked: fragile");
        }
        // Values that a function owns, whether it is run or not.
        let failure = Threads::new(threads)
            .run(|tasks| {
                let held = Fragile(&dropped);
                let run = tasks.task("run").spawn(move |_| {
                    let _held = &held;
                });
                tasks.wait(run).unwrap_err()
            })
            .expect("the caller was given it");
        assert_eq!(failure.to_string(), "the task `run` panicked: fragile");
        let failure = Threads::new(threads)
            .run(|tasks| {
                let bad = tasks.task("bad").try_spawn(|_| Err::<(), _>("bad"));
                let held = Fragile(&dropped);
                let spared = tasks.task("spared").wait_for(&bad).spawn(move |_| drop(held));
                tasks.wait(bad).unwrap_err();
                spared.forget();
            })
            .unwrap_err();
        assert_eq!(failure.to_string(), "the task `spared` panicked: fragile");
        assert_eq!(dropped.into_inner(), 102);
    }
}

#[test]
fn a_panic_whose_payload_panics_when_it_is_dropped_is_one_like_others() {
    static DROPPED: AtomicUsize = AtomicUsize::new(0);
    let failure = Threads::new(2)
        .run(|tasks| {
            let odd = |_: &Tasks<'_>| std::panic::panic_any(Fragile(&DROPPED));
            tasks.task("odd").spawn(odd).forget();
        })
        .unwrap_err();
    assert_eq!(failure.to_string(), "the task `odd` panicked: a panic message that is not text");
}

#[test]
fn a_task_may_make_tasks_while_what_it_holds_is_dropped() {
    struct Last<'t, 'env>(&'t Tasks<'env>, &'env AtomicUsize);
    impl Drop for Last<'_, '_> {
        fn drop(&mut self) {
            let made = self.1;
            self.0.task("made in drop").spawn(move |_| made.fetch_add(1, Ordering::SeqCst)).forget();
        }
    }
    let made = AtomicUsize::new(0);
    let failure = Threads::new(2)
        .run(|tasks| {
            for index in 0..100 {
                let made = &made;
                let task = tasks.task("one").spawn(move |tasks| {
                    let _last = Last(tasks, made);
                    assert!(index % 2 == 0, "every other one");
                });
                task.forget();
            }
        })
        .unwrap_err();
    assert_eq!((cause(&failure), made.into_inner()), ("panicked", 100));
}

#[test]
fn items_that_panic_end_their_task_blocks_and_no_others() {
    for panicking in [0, 1, 3, 50] {
        let done = AtomicUsize::new(0);
        let result = catch_unwind(AssertUnwindSafe(|| {
            Threads::new(2).run(|tasks| {
                let items = (0..100).inspect(|&item| assert!(item != panicking, "item {item}"));
                let all = tasks.each("block", 4, items, |_, _| {
                    done.fetch_add(1, Ordering::SeqCst);
                    Ok::<(), String>(())
                });
                tasks.wait(all).unwrap_err().to_string()
            })
        }));
        // The caller's thread takes the first items.
        if let Ok(result) = result {
            assert_eq!(result.unwrap(), format!("the task `block` panicked: item {panicking}"));
            assert!(panicking >= 4);
        } else {
            assert!(panicking < 4);
        }
        assert!(done.into_inner() <= panicking);
    }
}

#[test]
fn a_failure_that_the_caller_was_not_given_is_the_runs() {
    let failure = Threads::new(1)
        .run(|tasks| {
            let given = tasks.task("given").try_spawn(|_| Err::<(), _>("first"));
            tasks.task("lost").try_spawn(|_| Err::<(), _>("second")).forget();
            let depends = tasks.task("depends").wait_for(&given).spawn(|_| ());
            tasks.wait(given).unwrap_err();
            tasks.wait(depends).unwrap_err();
        })
        .unwrap_err();
    assert_eq!(failure.to_string(), "the task `lost` failed");
}

#[test]
fn one_side_of_a_diamond_that_fails_ends_what_needs_both() {
    for threads in [1, 2, 3] {
        let ran = AtomicUsize::new(0);
        let failure = Threads::new(threads)
            .run(|tasks| {
                let top = tasks.task("top").spawn(|_| 7).share();
                let left = tasks.task("left").with(top.clone()).try_spawn(|_, _| Err::<u8, _>("left"));
                let right = tasks.task("right").with(top).spawn(|top, _| {
                    ran.fetch_add(1, Ordering::SeqCst);
                    *top + 1
                });
                let bottom = tasks.task("bottom").with((left, right)).spawn(|(left, right), _| {
                    ran.fetch_add(100, Ordering::SeqCst);
                    left + right
                });
                tasks.wait(bottom).unwrap_err()
            })
            .expect("the caller was given it");
        assert_eq!((failure.to_string().as_str(), ran.into_inner()), ("the task `left` failed", 1));
    }
}

#[test]
fn one_waits_for_a_hundred_thousand_that_wait_for_one() {
    for fails in [false, true] {
        let ran = AtomicUsize::new(0);
        let result = Threads::new(2).live_max(usize::MAX).run(|tasks| {
            let first = tasks.task("first").on(Lane::Io(0)).try_spawn(|_| {
                thread::sleep(Duration::from_millis(20));
                if fails { Err("first") } else { Ok(1) }
            });
            let first = first.share();
            let many: Vec<_> = (0..100_000)
                .map(|_| {
                    tasks.task("one of many").with(first.clone()).spawn(|one, _| {
                        ran.fetch_add(1, Ordering::Relaxed);
                        *one
                    })
                })
                .collect();
            let sum = tasks.task("sum").with(many).spawn(|many, _| many.into_iter().sum::<usize>());
            tasks.wait(sum).map_err(|failure| failure.to_string())
        });
        let wanted = if fails { Err("the task `first` failed".to_owned()) } else { Ok(100_000) };
        assert_eq!(result.expect("the caller was given what failed"), wanted);
        assert_eq!(ran.into_inner(), if fails { 0 } else { 100_000 });
    }
}

/// The end of a long chain.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ends {
    Well,
    First,
    Cancelled,
}

#[test]
fn a_chain_of_which_all_live_needs_no_stack_however_it_ends() {
    const LENGTH: usize = 100_000;
    for ends in [Ends::Well, Ends::First, Ends::Cancelled] {
        let (held, ran, gate) = (AtomicUsize::new(0), AtomicUsize::new(0), Barrier::new(2));
        let result = Threads::new(2).live_max(usize::MAX).run(|tasks| {
            let first = tasks.task("first").on(Lane::Io(0)).try_spawn(|_| {
                gate.wait();
                gate.wait();
                if ends == Ends::First { Err("first") } else { Ok(Counted::new(&held)) }
            });
            gate.wait();
            let last = (0..LENGTH).fold(first, |last, _| {
                tasks.task("next").with(last).spawn(|counted, _| {
                    ran.fetch_add(1, Ordering::Relaxed);
                    counted
                })
            });
            if ends == Ends::Cancelled {
                tasks.cancel();
            }
            gate.wait();
            last.forget();
        });
        match ends {
            Ends::Well => result.unwrap(),
            Ends::First => assert_eq!(result.unwrap_err().to_string(), "the task `first` failed"),
            Ends::Cancelled => assert_eq!(cause(&result.unwrap_err()), "cancelled"),
        }
        assert_eq!(ran.into_inner(), if ends == Ends::Well { LENGTH } else { 0 });
        assert_eq!(held.into_inner(), 0);
    }
}

/// A value that is counted while it exists.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(count: &'a AtomicUsize) -> Counted<'a> {
        count.fetch_add(1, Ordering::SeqCst);
        Counted(count)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn what_tasks_hold_is_bounded_by_those_that_live() {
    const LIVE_MAX: usize = 50;
    for threads in [1, 2] {
        let (there, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Threads::new(threads)
            .live_max(LIVE_MAX)
            .run(|tasks| {
                let mut last = tasks.task("first").spawn(|_| Counted::new(&there));
                for _ in 0..20_000 {
                    let held = Counted::new(&there);
                    most.fetch_max(there.load(Ordering::SeqCst), Ordering::SeqCst);
                    last = tasks.task("next").with(last).spawn(move |before, _| {
                        drop(before);
                        held
                    });
                }
                last.forget();
            })
            .unwrap();
        assert_eq!(there.into_inner(), 0);
        // Besides the live tasks: the value being passed on, and those held by the caller.
        assert!(most.into_inner() <= LIVE_MAX + 3);
    }
}

#[test]
fn a_run_is_cancelled_from_a_thread_that_is_none_of_its_own() {
    let failure = Threads::new(2)
        .run(|tasks| {
            let endless = tasks.each("endless", 3, 0.., |_: u64, _| Ok::<(), String>(()));
            thread::scope(|scope| {
                let tasks: &Tasks<'_> = tasks;
                scope.spawn(move || tasks.cancel());
            });
            endless.forget();
        })
        .unwrap_err();
    assert_eq!(cause(&failure), "cancelled");
}

#[test]
fn tasks_made_by_a_thread_that_is_none_of_the_runs_are_run() {
    let ran = AtomicUsize::new(0);
    Threads::new(2)
        .run(|tasks| {
            thread::scope(|scope| {
                for _ in 0..3 {
                    let (tasks, ran): (&Tasks<'_>, _) = (tasks, &ran);
                    scope.spawn(move || {
                        for _ in 0..1000 {
                            tasks.task("one").spawn(|_| ran.fetch_add(1, Ordering::SeqCst)).forget();
                        }
                    });
                }
            });
        })
        .unwrap();
    assert_eq!(ran.into_inner(), 3000);
}

#[test]
fn a_thread_that_is_held_up_keeps_only_what_is_bound_to_it() {
    let (gate, order) = (Barrier::new(2), Mutex::new(Vec::new()));
    Threads::new(3)
        .run(|tasks| {
            tasks.task("hold up").on(Lane::Pinned(1)).spawn(|_| gate.wait()).forget();
            let bound: Vec<_> = (0..10)
                .map(|index| {
                    tasks.task("bound").on(Lane::Pinned(1)).spawn({
                        let order = &order;
                        move |_| order.lock().unwrap().push(index)
                    })
                })
                .collect();
            for _ in 0..100 {
                tasks.wait(tasks.task("other").spawn(|_| ())).unwrap();
            }
            assert!(order.lock().unwrap().is_empty());
            gate.wait();
            tasks.wait(tasks.task("all").with(bound).spawn(|_, _| ())).unwrap();
        })
        .unwrap();
    assert_eq!(order.into_inner().unwrap(), (0..10).collect::<Vec<_>>());
}

#[test]
fn what_is_urgent_goes_before_what_a_task_made_active() {
    let order = Mutex::new(Vec::new());
    Threads::new(1)
        .run(|tasks| {
            let note = |text: &'static str| {
                let order = &order;
                move |_: &Tasks<'_>| order.lock().unwrap().push(text)
            };
            let first = tasks.task("first").spawn(move |tasks| {
                tasks.task("urgent").priority(Priority::High).spawn(note("urgent")).forget();
                tasks.task("low").priority(Priority::Low).spawn(note("low")).forget();
                tasks.task("bound").on(Lane::Pinned(0)).spawn(note("bound")).forget();
            });
            tasks.task("next").wait_for(&first).spawn(note("next")).forget();
        })
        .unwrap();
    assert_eq!(order.into_inner().unwrap(), ["bound", "urgent", "next", "low"]);
}

#[test]
fn the_caller_waits_for_many_and_for_what_is_shared() {
    let failure = Threads::new(2)
        .run(|tasks| {
            let shared = tasks.task("shared").on(Lane::Io(0)).spawn(|_| 2).share();
            let later = tasks.task("later").wait_for(&shared).wait_for(&vec![shared.clone()]).spawn(|_| 3);
            assert_eq!(tasks.wait((shared.clone(), later)).map(|(two, three)| *two * three).unwrap(), 6);
            assert_eq!(*tasks.wait(shared).unwrap(), 2);
            let bad = |name: &'static str| tasks.task(name).try_spawn(move |_| Err::<(), _>(name));
            let both = vec![bad("one"), bad("other")];
            assert_eq!(tasks.wait(both).unwrap_err().to_string(), "the task `one` failed");
        })
        .unwrap_err();
    // Failures that the caller did not receive are returned by the run.
    assert_eq!(failure.to_string(), "the task `other` failed");
}
