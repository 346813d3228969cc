//! Configuration and start of an executor's threads.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use sakiyomi_os::affinity;

use super::Executor;
use super::failure::Failure;
use super::pool::Pool;
use super::run::Caller;
use crate::queues::Server;
use crate::sync::Ordering;

/// The threads of an executor: compute threads, and lanes of threads for tasks that block.
#[derive(Clone, Debug)]
pub struct Threads {
    computing: usize,
    lanes: Vec<usize>,
    cores: Vec<usize>,
    live_max: usize,
}

/// Maximum number of threads: more than the kernel allows a process by default.
const THREADS_MAX: usize = i16::MAX as usize;
/// Default limit of live tasks: few enough to stay in a core's cache.
const LIVE_MAX: usize = 1 << 10;
/// Nice value of the threads of I/O lanes: a high weight.
const IO_NICE: i32 = -10;
/// Time slice of these threads, short enough to preempt compute threads.
const IO_TIME_SLICE: Duration = Duration::from_micros(100);

impl Threads {
    /// Configures `computing` compute threads, 1 to 32,767, one of which is the caller of a run while it waits, and one
    /// I/O lane with one thread.
    #[must_use]
    pub fn new(computing: usize) -> Threads {
        Threads {
            computing: computing.clamp(1, THREADS_MAX),
            lanes: vec![1],
            cores: Vec::new(),
            live_max: LIVE_MAX,
        }
    }

    /// Replaces the I/O lanes by lanes with these numbers of threads; [`Lane::Io`](super::Lane::Io)`(0)` is the first
    /// one. A lane has at least one thread, and there is at least one lane.
    ///
    /// ```
    /// use sakiyomi_exec::executor::{Failure, Lane, Threads};
    /// // One thread reads files one after the other; four write.
    /// Threads::new(2).io_lanes([1, 4]).run(|tasks| {
    ///     let read = tasks.task("read").on(Lane::Io(0)).spawn(|_| vec![7; 512]);
    ///     let write = tasks.task("write").on(Lane::Io(1)).with(read).spawn(|bytes, _| bytes.len());
    ///     tasks.wait(write)
    /// })??;
    /// # Ok::<(), Failure>(())
    /// ```
    #[must_use]
    pub fn io_lanes(mut self, threads: impl IntoIterator<Item = usize>) -> Threads {
        let lanes = threads.into_iter().map(|threads| threads.clamp(1, THREADS_MAX)).take(THREADS_MAX);
        self.lanes = lanes.collect();
        if self.lanes.is_empty() {
            self.lanes.push(1);
        }
        self
    }

    /// Pins each compute thread to one of these cores: number n of [`Lane::Pinned`](super::Lane::Pinned) to the nth,
    /// modulo their number. Callers are not pinned.
    #[must_use]
    pub fn cores(mut self, cores: impl IntoIterator<Item = usize>) -> Threads {
        self.cores = cores.into_iter().collect();
        self
    }

    /// Sets the limit of live tasks that a run's caller may have made, at least one.
    #[must_use]
    pub fn live_max(mut self, tasks: usize) -> Threads {
        self.live_max = tasks.max(1);
        self
    }

    /// Starts the threads, runs `main` on them as one run, and ends them.
    ///
    /// # Errors
    /// Returns the errors of [`Executor::run`], or an error if threads cannot be started.
    pub fn run<'env, R>(&self, main: impl FnOnce(&Caller<'env>) -> R) -> Result<R, Failure> {
        self.scope(|executor| executor.run(main))?
    }

    /// Starts the threads, calls `main` on this one, and ends them. Tasks may borrow all values that the caller had
    /// before.
    ///
    /// ```
    /// use sakiyomi_exec::executor::{Failure, Threads};
    /// let texts = [String::from("so"), String::from("happy")];
    /// let lengths = Threads::new(2).scope(|executor| {
    ///     let length = |text| executor.run(|tasks| tasks.wait(tasks.task("length").spawn(move |_| str::len(text))));
    ///     Ok::<_, Failure>([length(&texts[0])??, length(&texts[1])??])
    /// })??;
    /// assert_eq!(lengths, [2, 5]);
    /// # Ok::<(), Failure>(())
    /// ```
    ///
    /// # Errors
    /// If threads cannot be started.
    pub fn scope<'env, R>(&self, main: impl FnOnce(&Executor<'env>) -> R) -> Result<R, Failure> {
        self.check_cores()?;
        thread::scope(|scope| {
            // Dropped in any case; otherwise the scope would wait forever.
            let executor = self.executor();
            for (server, index) in executor.pool.servers() {
                let serve = self.life(&executor, server, index);
                thread::Builder::new()
                    .name(name(server))
                    .spawn_scoped(scope, serve)
                    .map_err(Failure::no_thread)?;
            }
            Ok(main(&executor))
        })
    }

    /// Starts the threads. Tasks own or share their data.
    ///
    /// # Errors
    /// If threads cannot be started.
    pub fn start(&self) -> Result<Executor<'static>, Failure> {
        self.check_cores()?;
        let mut executor = self.executor();
        let pool = Arc::clone(&executor.pool);
        for (server, index) in pool.servers() {
            let serve = self.life(&executor, server, index);
            let started = thread::Builder::new().name(name(server)).spawn(serve);
            executor.threads.push(started.map_err(Failure::no_thread)?);
        }
        Ok(executor)
    }

    fn executor<'env>(&self) -> Executor<'env> {
        let pool = Arc::new(Pool::new(self.computing, &self.lanes));
        Executor { pool, live_max: self.live_max, threads: Vec::new() }
    }

    fn check_cores(&self) -> Result<(), Failure> {
        if self.cores.is_empty() {
            return Ok(());
        }
        let usable =
            affinity::usable_cpus().map_err(|error| Failure::no_thread(std::io::Error::other(error)))?;
        self.cores
            .iter()
            .find(|&core| !usable.contains(core))
            .map_or(Ok(()), |&core| Err(Failure::no_core(core)))
    }

    /// Returns the main function of a thread.
    fn life<'env>(
        &self,
        executor: &Executor<'env>,
        server: Server,
        index: usize,
    ) -> impl FnOnce() + Send + use<'env> {
        let pool = Arc::clone(&executor.pool);
        let core = if self.cores.is_empty() { None } else { Some(self.cores[index % self.cores.len()]) };
        move || {
            let _pinned = match server {
                // The core was usable a moment ago; if it has gone offline since, the kernel has chosen another.
                Server::Computes(_) => core.and_then(|core| affinity::pin(&[core].into()).ok()),
                Server::Lane(_) => None,
            };
            let is_refused = matches!(server, Server::Lane(_))
                && sakiyomi_os::priority::latency_nice(IO_NICE, IO_TIME_SLICE).is_err();
            if is_refused {
                pool.refused.store(true, Ordering::Relaxed);
            }
            pool.serve(server, index);
        }
    }
}

fn name(server: Server) -> String {
    match server {
        Server::Computes(index) => format!("sakiyomi-{index}"),
        Server::Lane(0) => "sakiyomi-io".to_owned(),
        Server::Lane(lane) => format!("sakiyomi-io-{lane}"),
    }
}
