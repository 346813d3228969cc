//! Runs one function on several threads of a job, and returns the first error.

use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::{Error, Job};

/// Runs `work` for each item on a separate thread, and returns the results in the order of the items. The first error
/// cancels the job, so that the other threads end at their next batch.
pub(crate) fn each<T: Send, R: Send>(
    job: &Job,
    items: Vec<T>,
    work: impl Fn(usize, T) -> Result<R, Error> + Sync,
) -> Result<Vec<R>, Error> {
    let first_error: Mutex<Option<Error>> = Mutex::new(None);
    let failed = |error: Error| {
        let mut first = first_error.lock().unwrap_or_else(PoisonError::into_inner);
        // A real error replaces a cancellation, which is only its consequence.
        let replaces = first.as_ref().is_none_or(|known| matches!(known, Error::Cancelled));
        if replaces {
            *first = Some(error);
        }
        job.cancel();
    };
    let results = thread::scope(|scope| {
        let (work, failed) = (&work, &failed);
        let start = |(index, item)| scope.spawn(move || work(index, item).map_err(failed).ok());
        let threads: Vec<_> = items.into_iter().enumerate().map(start).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, Option<R>>| {
            thread.join().unwrap_or_else(|panic| resume_unwind(panic))
        };
        threads.into_iter().map(join).collect::<Vec<Option<R>>>()
    });
    match first_error.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(results.into_iter().flatten().collect()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;
    use crate::JobOptions;

    #[test]
    fn the_first_error_ends_all_threads_and_is_told() {
        let job = Job::new(JobOptions { threads: 2, ..JobOptions::default() }).unwrap();
        assert_eq!(
            each(&job, vec![3, 1, 2], |index, item| Ok((index, item))).unwrap(),
            [(0, 3), (1, 1), (2, 2)]
        );
        let both = Barrier::new(2);
        let outcome = each(&job, vec![0, 1], |_, item| {
            both.wait();
            if item == 0 {
                return Err(Error::Query("first".to_owned()));
            }
            loop {
                job.check()?;
                thread::yield_now();
            }
            #[expect(unreachable_code)]
            Ok(())
        });
        assert_eq!(outcome.unwrap_err().to_string(), "first");
    }
}
