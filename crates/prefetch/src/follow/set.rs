//! Several followers on one thread, each of a process, with or without its descendants.
//!
//! They share one memory budget and one CPU budget: each takes the CPU time of the whole thread since its last turn for its
//! own, and rests in proportion to it. A follower ends when its programs have ended, or have not waited for some time.

use std::collections::BTreeMap;
use std::io;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use sakiyomi_model::Nanos;
use sakiyomi_os::process::{Identity, Process, memory};
use sakiyomi_os::rights::Credentials;

use super::learned::Learner;
use super::{Follower, Learning, Options, SLEEP_MAX, Summary};
use crate::profile::Profile;

/// Time without a wait for I/O after which following a process ends: its next wait selects it again.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Time after which following a process ends, so that the memory for its files stays bounded.
const FOLLOWED_MAX_TIME: Duration = Duration::from_secs(3600);
/// Time between two checks of whether a process still waits.
const CHECK_PERIOD: Duration = Duration::from_secs(1);

/// Time between two checks of a program's credentials, which it can change at any time.
pub(super) const SCOPE_PERIOD: Nanos = Nanos(1_000_000_000);

/// The programs that may be followed: those that may do all that this process may, so that no file is opened by credentials
/// that its reader lacks. Programs of ours are left alone: they prefetch themselves.
#[derive(Clone, Debug)]
pub(super) struct Scope {
    descendants: bool,
    credentials: Option<Credentials>,
    own_program: Option<Identity>,
}

impl Scope {
    fn of_this_process() -> Scope {
        let own = Process::open(std::process::id()).ok();
        let credentials = own.as_ref().and_then(|own| own.credentials().ok());
        Scope { descendants: true, credentials, own_program: own.and_then(|own| own.program_identity().ok()) }
    }

    pub(super) fn includes_descendants(&self) -> bool {
        self.descendants
    }

    pub(super) fn includes(&self, process: &Process) -> bool {
        let Some(own) = &self.credentials else { return false };
        let is_allowed = process.credentials().is_ok_and(|credentials| credentials.include(own));
        // Root of a container has a name for other files than we do.
        let sees_same = || own.user != 0 || process.sees_our_files().unwrap_or(false);
        let is_ours = || {
            let program = process.program_identity().ok();
            program.zip(self.own_program).is_some_and(|(program, own)| program.is_same(&own))
        };
        is_allowed && sees_same() && !is_ours()
    }
}

/// Followers that take turns on the calling thread.
pub struct FollowerSet {
    options: Options,
    scope: Scope,
    followers: BTreeMap<u32, Followed>,
    check_at: Instant,
    ended: mpsc::Receiver<(u32, Summary)>,
    end: mpsc::Sender<(u32, Summary)>,
}

struct Followed {
    follower: Follower,
    due: Instant,
    begun: Instant,
    /// Its programs' total waiting time when it was last seen to grow, and that time.
    io_wait: (Nanos, Instant),
}

impl FollowerSet {
    /// Creates an empty set. `options.memory` is the budget of all followers together.
    #[must_use]
    pub fn new(options: Options) -> FollowerSet {
        let (end, ended) = mpsc::channel();
        FollowerSet {
            options,
            scope: Scope::of_this_process(),
            followers: BTreeMap::new(),
            check_at: Instant::now(),
            ended,
            end,
        }
    }

    /// Returns the number of processes that are followed with their descendants.
    #[must_use]
    pub fn len(&self) -> usize {
        self.followers.len()
    }

    /// Returns whether nothing is followed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.followers.is_empty()
    }

    /// Sets the memory budget of all followers together, in bytes.
    pub fn set_memory(&mut self, bytes: u64) {
        self.options.memory = Some(bytes);
        self.share();
    }

    /// Follows a process, and its descendants if `descendants`, with the profile of its command, which may be empty.
    ///
    /// # Errors
    /// If the process does not exist.
    pub fn follow(
        &mut self,
        process: u32,
        descendants: bool,
        learning: Learning,
        profile: Profile,
    ) -> io::Result<()> {
        let mut follower = Follower::new(process, self.options, Learner::new(learning, profile))?;
        follower.scope = Some(Scope { descendants, ..self.scope.clone() });
        let now = Instant::now();
        let followed = Followed { follower, due: now, begun: now, io_wait: (Nanos::ZERO, now) };
        self.followers.insert(process, followed);
        self.share();
        Ok(())
    }

    /// Lets every follower that is due take its turn; returns the pause until the next. The thread is unparked earlier if
    /// a follower has something to do.
    pub fn step(&mut self) -> Duration {
        let woken = Instant::now();
        for followed in self.followers.values_mut() {
            // A reply may have arrived for any of them.
            if woken >= followed.due || followed.follower.has_replies() {
                let pause = followed.follower.step();
                followed.due = Instant::now() + pause;
            }
        }
        if woken >= self.check_at {
            self.check_at = woken + CHECK_PERIOD;
            self.end_idle(woken);
            self.share();
        }
        let now = Instant::now();
        let next = self.followers.values().map(|followed| followed.due.saturating_duration_since(now)).min();
        next.unwrap_or(Duration::from_nanos(SLEEP_MAX.0))
    }

    /// Returns the summaries of followers that have ended.
    pub fn take_ended(&mut self) -> Vec<(u32, Summary)> {
        self.ended.try_iter().collect()
    }

    /// Ends all followers, and returns the summaries of those that end within a time limit: what was learned is examined,
    /// which waits for file systems.
    pub fn finish(mut self, timeout: Duration) -> Vec<(u32, Summary)> {
        let all: Vec<u32> = self.followers.keys().copied().collect();
        all.into_iter().for_each(|process| self.end_one(process));
        let FollowerSet { ended, end, .. } = self;
        drop(end);
        let until = Instant::now() + timeout;
        let next = || ended.recv_timeout(until.saturating_duration_since(Instant::now())).ok();
        std::iter::from_fn(next).collect()
    }

    fn end_idle(&mut self, now: Instant) {
        let mut over = Vec::new();
        for (&process, followed) in &mut self.followers {
            let io_wait = followed.follower.io_wait();
            if io_wait > followed.io_wait.0 {
                followed.io_wait = (io_wait, now);
            }
            let is_idle = now - followed.io_wait.1 > IDLE_TIMEOUT;
            if followed.follower.has_ended() || is_idle || now - followed.begun > FOLLOWED_MAX_TIME {
                over.push(process);
            }
        }
        over.into_iter().for_each(|process| self.end_one(process));
    }

    /// Ends a follower. Its summary is made by another thread, because that may wait for a file system.
    fn end_one(&mut self, process: u32) {
        let Some(followed) = self.followers.remove(&process) else { return };
        let end = self.end.clone();
        let finish = move || drop(end.send((process, followed.follower.finish())));
        // Without a thread its summary is lost, but no program is affected.
        drop(thread::Builder::new().name("summary".to_owned()).spawn(finish));
        self.share();
    }

    /// Divides the memory budget among the followers.
    fn share(&mut self) {
        let count = self.followers.len().max(1) as u64;
        let quarter = memory::available().map(|bytes| bytes / 4);
        let all = [quarter, self.options.memory].into_iter().flatten().min();
        for followed in self.followers.values_mut() {
            followed.follower.options.memory = all.map(|bytes| bytes / count);
        }
    }
}
