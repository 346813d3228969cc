//! A pool to which any number of threads submit jobs that handle their own completion.

use std::fmt;
use std::io;
use std::sync::PoisonError;

use super::system::{Arc, JoinHandle, thread};
use super::{Shared, next};

/// Work for a thread of a [`JobPool`].
pub trait Job: Send + 'static {
    /// Runs the job. It must not submit to its own pool, which may be full.
    fn perform(self);
}

/// Threads that run jobs in the order of submission. Dropping it runs the jobs that are left.
pub struct JobPool<J: Job> {
    shared: Arc<Shared<J>>,
    threads: Vec<JoinHandle<()>>,
    queue_max: usize,
}

impl<J: Job> JobPool<J> {
    /// Creates a pool of `threads` threads with a queue of at most `queue_max` jobs; neither may be 0.
    ///
    /// # Errors
    /// If a thread cannot be started.
    pub fn new(name: &str, threads: usize, queue_max: usize) -> io::Result<JobPool<J>> {
        debug_assert!(threads > 0 && queue_max > 0, "a pool that can do nothing");
        let shared = Arc::new(Shared::new(threads));
        let mut pool = JobPool { shared, threads: Vec::new(), queue_max };
        for _ in 0..threads {
            let shared = Arc::clone(&pool.shared);
            // If a thread cannot be started, dropping `pool` ends those already started.
            let thread = thread::Builder::new().name(name.to_owned()).spawn(move || serve(&shared))?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }

    /// Queues a job; blocks while the queue is full.
    pub fn submit(&self, job: J) {
        let mut state = self.shared.lock();
        while state.todo.len() >= self.queue_max {
            state.blocked += 1;
            state = self.shared.room.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.blocked -= 1;
        }
        state.todo.push_back(job);
        let sleeping = state.awake < self.threads.len();
        drop(state);
        if sleeping {
            self.shared.work.notify_one();
        }
    }
}

/// Main loop of a thread.
fn serve<J: Job>(shared: &Shared<J>) {
    while let Some(job) = next(shared) {
        job.perform();
    }
}

impl<J: Job> Drop for JobPool<J> {
    fn drop(&mut self) {
        self.shared.lock().stopping = true;
        self.shared.work.notify_all();
        // A job may have been the last owner of the pool: its thread then ends by itself and must not be joined.
        let own = thread::current().id();
        for thread in self.threads.drain(..).filter(|thread| thread.thread().id() != own) {
            // If a job panicked, that has been reported.
            let _ = thread.join();
        }
    }
}

impl<J: Job> fmt::Debug for JobPool<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JobPool").field("threads", &self.threads.len()).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    /// A job that sleeps, then counts itself.
    struct Sleep(Duration, Arc<AtomicUsize>);

    impl Job for Sleep {
        fn perform(self) {
            std::thread::sleep(self.0);
            self.1.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn submitters_wait_for_room_and_every_job_is_performed() {
        let performed = Arc::new(AtomicUsize::new(0));
        let pool = JobPool::new("test", 3, 2).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        pool.submit(Sleep(Duration::from_micros(100), Arc::clone(&performed)));
                        assert!(pool.shared.lock().todo.len() <= 2, "the queue is bounded");
                    }
                });
            }
        });
        drop(pool);
        assert_eq!(performed.load(Ordering::SeqCst), 300, "those that were left as well");
    }

    /// A job that owns the pool that runs it.
    struct LastOwner(mpsc::Receiver<Arc<JobPool<LastOwner>>>, mpsc::Sender<()>);

    impl Job for LastOwner {
        fn perform(self) {
            drop(self.0.recv().unwrap());
            self.1.send(()).unwrap();
        }
    }

    #[test]
    fn a_job_may_be_the_last_owner_of_its_pool() {
        let pool = Arc::new(JobPool::new("test", 2, 4).unwrap());
        let ((give, take), (tell, told)) = (mpsc::channel(), mpsc::channel());
        pool.submit(LastOwner(take, tell));
        give.send(pool).unwrap();
        told.recv_timeout(Duration::from_secs(20)).unwrap();
    }
}
