//! Parallel processing of many items, as many at a time as there are cores.

use std::sync::{Mutex, PoisonError};

use anyhow::Result;
use sakiyomi_exec::executor::Threads;

use crate::console::Common;
use crate::progress::Progress;

/// Returns the results of `items`, in order. The first failure, or Ctrl-C, ends it. `what` is the name of the items
/// in the progress bar, such as "combinations".
pub(crate) fn each<T: Sync, R: Send>(
    items: &[T],
    what: &str,
    common: &Common,
    work: impl Fn(&T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let mut progress = Progress::new(Some(items.len() as u64), common.quiet);
    let mut show = |done: usize| progress.set(done as u64, || format!("{done} of {} {what}", items.len()));
    show(0)?;
    let outcomes = Mutex::new((show, Vec::with_capacity(items.len())));
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(items.len());
    let end = Threads::new(threads).run(|tasks| {
        let all = tasks.each("item", threads.max(1), items.iter().enumerate(), |(index, item), _| {
            let outcome = work(item);
            let mut outcomes = outcomes.lock().unwrap_or_else(PoisonError::into_inner);
            let (show, outcomes) = &mut *outcomes;
            let outcome = show(outcomes.len() + 1).map_err(anyhow::Error::from).and(outcome);
            // An error here prevents further items from being started; the original error is in the outcome.
            let end = if outcome.is_err() { Err("an item failed") } else { Ok(()) };
            outcomes.push((index, outcome));
            end
        });
        tasks.wait(all)
    });
    let (_, mut outcomes) = outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
    if outcomes.iter().all(|(_, outcome)| outcome.is_ok()) {
        // Threads that could not be started, or an item that panicked.
        end??;
    }
    outcomes.sort_by_key(|(index, _)| *index);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::console::Color;

    #[test]
    fn results_are_in_the_items_order_and_the_first_failure_ends_it_with_its_own_error() {
        let common = Common { json: false, quiet: true, color: Color::Never };
        let items: Vec<u32> = (0..1000).collect();
        let doubled = each(&items, "items", &common, |item| Ok(2 * item)).unwrap();
        assert!(doubled.into_iter().eq((0..1000).map(|item| 2 * item)));
        assert!(each(&[], "items", &common, |item: &u32| Ok(*item)).unwrap().is_empty());
        let begun = AtomicUsize::new(0);
        let failed = each(&items, "items", &common, |item| {
            begun.fetch_add(1, Ordering::Relaxed);
            anyhow::ensure!(*item != 3, "item {item}");
            std::thread::yield_now();
            Ok(())
        });
        assert_eq!(failed.unwrap_err().to_string(), "item 3");
        assert!(begun.into_inner() < 1000);
        let panicked = each(&items, "items", &common, |item| {
            assert_ne!(*item, 5, "five");
            Ok(())
        });
        assert!(panicked.unwrap_err().to_string().starts_with("the task `item` panicked"));
    }
}
