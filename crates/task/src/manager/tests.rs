use std::sync::atomic::AtomicU64;

use proptest::prelude::*;

use super::*;

fn cause(failure: &Failure) -> &'static str {
    match failure.cause {
        Cause::Failed(_) => "failed",
        Cause::Panicked(_) => "panicked",
        Cause::Cancelled => "cancelled",
        Cause::NoThread(_) => "no thread",
    }
}

#[test]
fn outputs_are_inputs_of_those_that_wait() {
    for threads in [1, 2, 4] {
        let total = Manager::new(threads).run(|tasks| {
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
    Manager::new(3)
        .run(|tasks| {
            for _ in 0..50 {
                let here = |device| tasks.task("where").on(device).spawn(move |_| name());
                let (io, first, second) =
                    (here(Device::Io), here(Device::Thread(0)), here(Device::Thread(4)));
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
    Manager::new(1)
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
    let failure = Manager::new(2)
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
    let result = Manager::new(2).run(|tasks| {
        let read = tasks.task("read block 3").try_spawn(|_| Err::<u8, _>("no such block"));
        let count = tasks.task("count").with(read).spawn(|byte, _| byte + 1);
        let failure = tasks.wait(count).unwrap_err();
        assert_eq!(failure.to_string(), "the task `read block 3` failed");
        assert_eq!(failure.source().unwrap().to_string(), "no such block");
        // One that is made later, too.
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
    let failure = Manager::new(2)
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
        Manager::new(2).run(|tasks| {
            let slow = |_: &Tasks<'_>| {
                thread::sleep(Duration::from_millis(20));
                ended.fetch_add(1, Ordering::SeqCst);
            };
            tasks.task("slow").on(Device::Io).spawn(slow).forget();
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
    Manager::new(2)
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
        Manager::new(threads).live_max(1).run(|tasks| tree(tasks, 12, &leaves)).unwrap();
        assert_eq!(leaves.into_inner(), 4096);
    }
}

#[test]
fn task_blocks_keep_to_their_number_and_end_together() {
    for threads in [1, 3] {
        let (live, most, done) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        Manager::new(threads)
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
    let failure = Manager::new(2).run(|tasks| {
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
        || Manager::new(2).run(|tasks| tasks.wait(tasks.task("inner").spawn(|_| 3))).unwrap().unwrap();
    let outer = Manager::new(2).run(|tasks| {
        let both = [tasks.task("outer").spawn(move |_| inner()), tasks.task("outer").spawn(move |_| inner())];
        both.map(|one| tasks.wait(one).unwrap())
    });
    assert_eq!(outer.unwrap(), [3, 3]);
}

#[test]
fn a_long_chain_needs_no_stack() {
    let length = 100_000;
    let end = Manager::new(2).run(|tasks| {
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
        let result = Manager::new(threads).live_max(live_max).run(|tasks| {
            let mut handles: Vec<Handle<'_, ()>> = Vec::new();
            for (task, before) in before.iter().enumerate() {
                let before: Vec<usize> =
                    before.iter().filter(|_| task > 0).map(|index| index.index(task)).collect();
                let device = [Device::Any, Device::Io, Device::Thread(0), Device::Thread(1)][devices[task]];
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
