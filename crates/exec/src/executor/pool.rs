//! An executor's threads: the active runs, and the choice of the run that a thread serves.
//!
//! Each run has queues of its own, so that its failure, end and caller do not affect other runs. A thread serves one
//! run as long as that has tasks for it, but while others are active only for a turn.

#[cfg(all(test, loom))]
mod model;

use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::place::Home;
use crate::queues::system::now;
use crate::queues::{Found, STOLEN_NS_MIN, Server};
use crate::sleep::{Look, Seat, Sleep};
use crate::sync::{AtomicBool, AtomicUsize, Mutex, Ordering, lock};

/// A run as the threads see it.
pub(super) trait Served {
    type Task;

    /// Returns the seat on which its caller sleeps while it waits.
    fn seat(&self) -> &Arc<Seat>;

    /// Returns the next task for a thread.
    fn find(&self, server: Server, look: Look) -> Option<Found<Self::Task>>;

    /// Returns a task that no other thread may run.
    fn find_only_bound(&self, server: Server, look: Look) -> Option<Found<Self::Task>>;

    /// Runs a task on the run's thread number `index`, and further ones until there are none or, after one of them,
    /// `enough` holds.
    fn serve(&self, server: Server, index: usize, task: Self::Task, enough: impl FnMut() -> bool);
}

/// The threads and the active runs.
pub(super) struct Pool<R> {
    id: usize,
    sleep: Sleep,
    /// Number of compute threads, including the caller, which is number 0 and has no seat here.
    computing: usize,
    /// The thread numbers of each lane.
    lanes: Box<[Range<usize>]>,
    runs: Mutex<Vec<Arc<R>>>,
    /// Incremented whenever `runs` changes.
    version: AtomicUsize,
    /// Number of active runs.
    active: AtomicUsize,
    /// Whether a thread of a lane was refused a higher priority.
    pub(super) refused: AtomicBool,
}

/// Tasks that a thread runs before it considers other runs, if there are any.
const TURN_TASKS: usize = 16;

/// Length of the first nap of a thread that has stolen tasks too short for that. Looking again at once would slow down
/// the thread that makes them; and so would waking this thread, which takes as long as several short tasks.
const NAP_MIN: Duration = Duration::from_micros(50);
/// Length of a nap after several, each twice as long as the one before. Longer tasks that follow wait as long.
const NAP_MAX: Duration = Duration::from_micros(800);

static POOLS: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(1);

impl<R: Served> Pool<R> {
    /// Makes a pool of `computing` threads, the first of which is the caller of a run, and of lanes with these numbers
    /// of threads.
    pub(super) fn new(computing: usize, lanes: &[usize]) -> Pool<R> {
        let mut next = computing;
        let lanes: Box<[Range<usize>]> = lanes
            .iter()
            .map(|&threads| {
                let lane = next..next + threads;
                next = lane.end;
                lane
            })
            .collect();
        Pool {
            id: POOLS.fetch_add(1, Ordering::Relaxed),
            sleep: Sleep::new(computing - 1, next - computing),
            computing,
            lanes,
            runs: Mutex::new(Vec::new()),
            version: AtomicUsize::new(1),
            active: AtomicUsize::new(0),
            refused: AtomicBool::new(false),
        }
    }

    pub(super) fn computing(&self) -> usize {
        self.computing
    }

    pub(super) fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// Returns the number of threads, including the caller.
    pub(super) fn threads(&self) -> usize {
        self.lanes.last().map_or(self.computing, |lane| lane.end)
    }

    /// Returns the role and number of all threads except the caller.
    pub(super) fn servers(&self) -> impl Iterator<Item = (Server, usize)> + '_ {
        let computing = (1..self.computing).map(|index| (Server::Computes(index), index));
        let lanes = self.lanes.iter().enumerate();
        computing.chain(
            lanes.flat_map(|(lane, threads)| threads.clone().map(move |index| (Server::Lane(lane), index))),
        )
    }

    /// Makes a run active.
    pub(super) fn add(&self, run: Arc<R>) {
        let mut runs = lock(&self.runs);
        runs.push(run);
        self.changed(runs.len());
    }

    pub(super) fn remove(&self, run: &R) {
        let mut runs = lock(&self.runs);
        runs.retain(|other| !std::ptr::eq(&**other, run));
        self.changed(runs.len());
    }

    /// Must be called under the lock of `runs`.
    fn changed(&self, active: usize) {
        self.active.store(active, Ordering::Relaxed);
        self.version.fetch_add(1, Ordering::Relaxed);
    }

    /// Wakes a thread after a task was added.
    pub(super) fn wake_for_any(&self, run: &R) {
        self.sleep.wake_any(run.seat());
    }

    /// Wakes a thread, other than the caller, after a task pinned to it was added.
    pub(super) fn wake_thread(&self, index: usize) {
        self.sleep.wake_one_of(index - 1..index);
    }

    /// Wakes a thread of a lane after a task was added to it.
    pub(super) fn wake_lane(&self, lane: usize) {
        let threads = &self.lanes[lane];
        self.sleep.wake_one_of(threads.start - 1..threads.end - 1);
    }

    pub(super) fn close(&self) {
        self.sleep.close();
    }

    /// Wakes the caller of a run to check its condition again.
    pub(super) fn wake_caller(&self, run: &R) {
        self.sleep.wake_caller(run.seat());
    }

    /// The main loop of a thread.
    pub(super) fn serve(&self, server: Server, index: usize) {
        let _home = Home::enter(self.id, server, index);
        let mut known = Known::new();
        let mut nap = None;
        while let Some((run, found)) =
            self.sleep.next_idle(index - 1, nap, |look| known.find(self, server, look))
        {
            let (mut done, is_stolen, begun) = (0, found.is_stolen, now());
            self.serve_run(&run, server, index, found, || {
                done += 1;
                done >= TURN_TASKS && self.active.load(Ordering::Relaxed) > 1
            });
            let is_short = is_stolen && now() - begun < done as u64 * STOLEN_NS_MIN;
            nap = is_short.then(|| nap.map_or(NAP_MIN, |nap| (2 * nap).min(NAP_MAX)));
        }
    }

    fn serve_run(
        &self,
        run: &R,
        server: Server,
        index: usize,
        found: Found<R::Task>,
        enough: impl FnMut() -> bool,
    ) {
        if found.has_stolen_more {
            self.wake_for_any(run);
        }
        run.serve(server, index, found.task, enough);
    }

    /// Serves a run on its caller's thread until `enough` holds; a change that makes it true must wake the caller. Runs
    /// only tasks of this run, even if others are active: those may take long, and may need locks that this caller
    /// holds. A caller that is a thread of the executor still runs the tasks pinned to it.
    pub(super) fn serve_until(&self, run: &R, enough: impl Fn() -> bool) {
        let home = Home::within(self.id);
        let home_seat = home.map(|(_, index)| index - 1);
        let mut known = Known::new();
        while !enough() {
            let found = self.sleep.next_of_run(run.seat(), home_seat, &enough, |look| {
                let own = run.find(Server::Computes(0), look).map(|found| (None, found));
                own.or_else(|| {
                    let (run, found) = known.find_only_bound(self, home?.0, look)?;
                    Some((Some(run), found))
                })
            });
            match (found, home) {
                (None, _) => return,
                (Some((None, found)), _) => {
                    self.serve_run(run, Server::Computes(0), 0, found, &enough);
                }
                (Some((Some(other), found)), Some((server, index))) => {
                    self.serve_run(&other, server, index, found, || true);
                }
                (Some((Some(_), _)), None) => unreachable!("only a thread of the executor looks for those"),
            }
        }
    }
}

/// A thread's cached list of the active runs, which avoids taking the lock.
struct Known<R> {
    runs: Vec<Arc<R>>,
    version: usize,
    /// The run at which the search begins.
    first: usize,
}

impl<R: Served> Known<R> {
    fn new() -> Known<R> {
        Known { runs: Vec::new(), version: 0, first: 0 }
    }

    fn find(&mut self, pool: &Pool<R>, server: Server, look: Look) -> Option<(Arc<R>, Found<R::Task>)> {
        self.first_of(pool, look, |run| run.find(server, look))
    }

    fn find_only_bound(
        &mut self,
        pool: &Pool<R>,
        server: Server,
        look: Look,
    ) -> Option<(Arc<R>, Found<R::Task>)> {
        self.first_of(pool, look, |run| run.find_only_bound(server, look))
    }

    /// Returns the first task found, starting after the run in which one was found last.
    fn first_of<T>(
        &mut self,
        pool: &Pool<R>,
        look: Look,
        find: impl Fn(&R) -> Option<Found<T>>,
    ) -> Option<(Arc<R>, Found<T>)> {
        // The last look takes the lock: a thread that adds a run after it sees that this thread sleeps.
        if look == Look::Last || self.version != pool.version.load(Ordering::Relaxed) {
            let runs = lock(&pool.runs);
            self.version = pool.version.load(Ordering::Relaxed);
            self.runs.clone_from(&runs);
        }
        let count = self.runs.len();
        let found = (0..count).find_map(|step| {
            let which = (self.first + step) % count;
            find(&self.runs[which]).map(|found| (which, found))
        });
        if let Some((which, found)) = found {
            self.first = which + 1;
            return Some((Arc::clone(&self.runs[which]), found));
        }
        if look == Look::Last {
            // The thread may sleep for long, and the runs may end meanwhile.
            mem::take(&mut self.runs);
            self.version = 0;
        }
        None
    }
}
