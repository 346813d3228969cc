use super::*;
use proptest::prelude::*;
use std::time::Duration;

#[test]
fn buffers_are_lent_once_and_come_back() {
    let pool = BufferPool::fixed(3, 5000, Memory::Ordinary).unwrap();
    for _ in 0..2 {
        let lent: Vec<Buffer> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!(lent.len(), 3);
    }
}

#[test]
fn a_reserved_buffer_is_there_and_is_the_last_released() {
    let pool = BufferPool::fixed(3, 100, Memory::Ordinary).unwrap();
    let account = pool.account(0).unwrap();
    let reserve = || account.reserve(100);
    let reservations: Vec<Reservation> = std::iter::from_fn(|| reserve().ok()).take(2).collect();
    let taken = pool.take().unwrap();
    assert!(pool.take().is_none() && reserve().is_err(), "the others are reserved");
    let last = taken.index();
    drop(taken);
    let kept: Vec<Buffer> = reservations.into_iter().map(|reservation| reservation.take().unwrap()).collect();
    assert_eq!(kept[0].index(), last);
    drop(reserve().expect("one is free again"));
    assert!(pool.take().is_some(), "a reservation that is dropped is free again");
}

#[test]
fn a_buffer_outlives_its_pool_and_its_account() {
    for pool in [BufferPool::fixed(1, 10, Memory::Huge).unwrap(), BufferPool::with_budget(4096, Memory::Huge)]
    {
        let account = pool.account(10).unwrap();
        let mut buffer = account.reserve(10).unwrap().take().unwrap();
        drop((account, pool));
        assert_eq!(buffer.append(b"0123456789ab"), 10);
        assert_eq!(&buffer[..], b"0123456789");
    }
}

#[test]
fn memory_that_is_not_there_is_refused() {
    let error = BufferPool::fixed(1 << 20, 1 << 30, Memory::Huge).unwrap_err();
    assert!(matches!(error, Error::Memory { .. }), "{error}");
}

#[test]
fn a_guarantee_beyond_the_budget_is_refused() {
    let pool = BufferPool::with_budget(64 << 10, Memory::Ordinary);
    let first = pool.account(40 << 10).unwrap();
    let error = pool.account(32 << 10).unwrap_err();
    assert!(matches!(error, Error::Budget { left: 24576, .. }), "{error}");
    drop(first);
    pool.account(64 << 10).unwrap();
}

#[test]
fn what_is_guaranteed_is_not_lent_to_others() {
    let pool = BufferPool::with_budget(64 << 10, Memory::Ordinary);
    let (first, second) = (pool.account(16 << 10).unwrap(), pool.account(32 << 10).unwrap());
    let held: Vec<Reservation> = std::iter::from_fn(|| first.reserve(16 << 10).ok()).collect();
    assert_eq!(held.len(), 2, "its own and what is nobody's");
    let guaranteed = [second.reserve(16 << 10).unwrap(), second.reserve(16 << 10).unwrap()];
    assert!(second.reserve(4096).is_err());
    drop(guaranteed);
    assert!(first.reserve(4096).is_err(), "it is guaranteed again");
}

#[test]
fn memory_of_one_size_becomes_that_of_another() {
    let pool = BufferPool::with_budget(4 << 20, Memory::Huge);
    let account = pool.account(0).unwrap();
    for size in [64 << 10, 4 << 20, 1 << 20, 4096, 3 << 20, 1 << 20] {
        let buffers: Vec<Buffer> = std::iter::from_fn(|| account.reserve(size).ok())
            .map(|reserved| reserved.take().unwrap())
            .collect();
        assert_eq!(buffers.len(), (4 << 20) / size);
        assert!(pool.resident() <= 4 << 20);
    }
}

#[test]
fn a_thread_that_holds_everything_is_told_so_and_does_not_wait() {
    let pool = BufferPool::with_budget(8192, Memory::Ordinary);
    let account = pool.account(0).unwrap();
    let mut held: Vec<Buffer> = (0..2).map(|_| account.reserve(4096).unwrap().take().unwrap()).collect();
    let since = account.reserve(4096).unwrap_err();
    assert!(!pool.wait_for_release(since, Some(&account)), "all of it is here");
    held[0].send();
    std::thread::scope(|scope| {
        let sent = held.swap_remove(0);
        scope.spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            drop(sent);
        });
        assert!(pool.wait_for_release(since, Some(&account)), "another thread has one");
    });
    assert!(pool.wait_for_release(since, Some(&account)), "it was released before");
}

#[test]
fn memory_within_the_guarantee_of_another_account_is_not_waited_for() {
    let pool = BufferPool::with_budget(16 << 10, Memory::Ordinary);
    let (sort, scan) = (pool.account(12 << 10).unwrap(), pool.account(0).unwrap());
    let mut kept = sort.reserve(4096).unwrap().take().unwrap();
    kept.send();
    let _held = scan.reserve(4096).unwrap();
    let since = scan.reserve(4096).unwrap_err();
    assert!(!pool.wait_for_release(since, Some(&scan)), "a release within a guarantee does not help");
    sort.shrink(4096);
    let _more = scan.reserve(8192).unwrap();
    assert_eq!(sort.unused_guarantee(), 0);
    drop(kept);
    assert_eq!(sort.unused_guarantee(), 4096);
    let (from, to) = (sort, pool.account(0).unwrap());
    from.give(usize::MAX, &to);
    assert_eq!((from.guarantee(), to.guarantee()), (0, 4096));
}

#[test]
fn of_threads_that_wait_for_each_other_one_is_told() {
    let pool = BufferPool::with_budget(8192, Memory::Ordinary);
    let account = pool.account(0).unwrap();
    let start = std::sync::Barrier::new(2);
    let told = std::thread::scope(|scope| {
        let threads = [(); 2].map(|()| {
            scope.spawn(|| {
                let _held = account.reserve(4096).unwrap().take().unwrap();
                start.wait();
                let since = account.reserve(4096).unwrap_err();
                // The thread that gets the error releases its buffer, so that the other continues.
                pool.wait_for_release(since, Some(&account))
            })
        });
        threads.map(|thread| thread.join().unwrap())
    });
    assert!(told.contains(&false), "{told:?}");
}

proptest! {
    #[test]
    fn buffers_do_not_overlap_and_are_aligned(count in 1usize..9, capacity in 1usize..20_000, huge: bool) {
        let memory = if huge { Memory::Huge } else { Memory::Ordinary };
        let pool = BufferPool::fixed(count, capacity, memory).unwrap();
        let mut buffers: Vec<Buffer> = std::iter::from_fn(|| pool.take()).collect();
        fill(&mut buffers)?;
    }

    #[test]
    fn a_class_holds_its_capacity_and_wastes_a_fifth_at_most(capacity in 1usize..100 << 20) {
        let size = class_size(capacity);
        prop_assert!(size >= capacity && size.is_multiple_of(page_size()) && class_size(size) == size);
        prop_assert!(capacity < 32 << 10 || (size - capacity) * 5 <= size, "{capacity} {size}");
    }

    /// For any sequence of requests and releases, the budget holds, guarantees are kept, and buffers do not share
    /// bytes.
    #[test]
    fn a_budget_holds(
        budget in 1usize..80,
        guarantees in prop::collection::vec(0usize..20, 1..5),
        steps in prop::collection::vec((any::<prop::sample::Index>(), 1usize..40_000, any::<bool>()), 1..150),
        huge: bool,
    ) {
        let budget = budget * (64 << 10);
        let memory = if huge { Memory::Huge } else { Memory::Ordinary };
        let pool = BufferPool::with_budget(budget, memory);
        let accounts: Vec<(Account, usize)> = guarantees
            .iter()
            .filter_map(|pages| Some((pool.account(pages * 4096).ok()?, pages * 4096)))
            .collect();
        prop_assume!(!accounts.is_empty());
        let mut buffers: Vec<(usize, Buffer)> = Vec::new();
        for (which, words, takes) in steps {
            if takes || buffers.is_empty() {
                let at = which.index(accounts.len());
                let capacity = words * 16;
                let (account, guarantee) = &accounts[at];
                let used: usize =
                    buffers.iter().filter(|held| held.0 == at).map(|held| class_size(held.1.capacity())).sum();
                let reserved = account.reserve(capacity);
                prop_assert!(reserved.is_ok() || used + class_size(capacity) > *guarantee, "a guarantee");
                buffers.extend(reserved.ok().map(|reserved| (at, reserved.take().unwrap())));
            } else {
                let at = which.index(buffers.len());
                buffers.swap_remove(at);
            }
            prop_assert!(pool.resident() <= budget);
        }
        let mut buffers: Vec<Buffer> = buffers.into_iter().map(|held| held.1).collect();
        fill(&mut buffers)?;
        drop((accounts, buffers));
        prop_assert!(pool.account(budget / 4096 * 4096 / 2).is_ok(), "everything came back");
    }
}

/// Fills each buffer with its own number, and checks the content afterwards.
fn fill(buffers: &mut [Buffer]) -> Result<(), TestCaseError> {
    for (number, buffer) in buffers.iter_mut().enumerate() {
        prop_assert!(buffer.space().as_ptr().addr().is_multiple_of(page_size()));
        buffer.space().fill(number as u8);
        buffer.set_len(buffer.capacity());
    }
    for (number, buffer) in buffers.iter().enumerate() {
        prop_assert!(buffer.iter().all(|&byte| byte == number as u8));
    }
    Ok(())
}

#[test]
fn a_loan_takes_free_memory_and_no_guarantees() {
    let pool = BufferPool::with_budget(1 << 20, Memory::Ordinary);
    drop(pool.account(0).unwrap().take(1 << 20).unwrap().unwrap());
    assert_eq!(pool.resident(), 1 << 20, "kept for the next buffer");
    let account = pool.account_of(1 << 18).unwrap();
    let mut loan = pool.loan();
    assert!(!loan.resize(1 << 20), "a quarter is guaranteed");
    assert!(loan.resize(3 << 18));
    assert_eq!((pool.unclaimed(), loan.bytes()), (0, 3 << 18));
    assert!(pool.resident() <= 1 << 20, "free buffers made room");
    let buffer = account.take(1 << 18).unwrap().unwrap();
    assert!(account.reserve(4096).is_err());
    assert!(loan.resize(1 << 18));
    assert!(account.reserve(1 << 19).is_ok());
    drop((loan, buffer, account));
    assert_eq!(pool.unclaimed(), 1 << 20);
}
