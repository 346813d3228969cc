//! The threads of an executor, and their start.

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

/// The threads of an executor: some that compute, and lanes of threads for what waits.
#[derive(Clone, Debug)]
pub struct Threads {
    computing: usize,
    lanes: Vec<usize>,
    cores: Vec<usize>,
    live_max: usize,
}

/// More than the kernel allows a process by default.
const THREADS_MAX: usize = i16::MAX as usize;
/// Tasks that are live at the same time, unless said otherwise: few enough to stay in a core's cache.
const LIVE_MAX: usize = 1 << 10;
/// Nice value of the threads of I/O lanes: a high weight.
const IO_NICE: i32 = -10;
/// Time slice of these threads, so short that they may preempt threads that compute.
const IO_TIME_SLICE: Duration = Duration::from_micros(100);

impl Threads {
    /// `computing` compute threads, at least one and no more than 32,767; the caller of a run is one of them while it
    /// waits. One I/O lane of one thread is added.
    #[must_use]
    pub fn new(computing: usize) -> Threads {
        Threads {
            computing: computing.clamp(1, THREADS_MAX),
            lanes: vec![1],
            cores: Vec::new(),
            live_max: LIVE_MAX,
        }
    }

    /// I/O lanes with this many threads each, in place of one with one: [`Lane::Io`](super::Lane::Io)`(0)` has the
    /// first number. A lane has at least one thread, and there is at least one lane.
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

    /// The threads that compute stay on these cores, each on one: number n of [`Lane::Pinned`](super::Lane::Pinned)
    /// on the nth, counted round. Callers are not moved.
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

    /// Starts the threads, has one run of `main` on them, and ends them.
    ///
    /// # Errors
    /// As [`Executor::run`], or if threads cannot be started.
    pub fn run<'env, R>(&self, main: impl FnOnce(&Caller<'env>) -> R) -> Result<R, Failure> {
        self.scope(|executor| executor.run(main))?
    }

    /// Starts the threads, calls `main` on this one, and ends them. Tasks may borrow what the caller had before.
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
            // Dropped whatever happens, or the scope waits for ever.
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

    /// Starts the threads. Tasks own or share what they need.
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

    /// The activity of a thread.
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
                // It was usable a moment ago; if it has gone offline since, the kernel has chosen another.
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
