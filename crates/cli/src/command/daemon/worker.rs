//! A worker of the daemon: follows processes of one user, with the rights of that user.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use sakiyomi_os::cpu;
use sakiyomi_os::process::Process;
use sakiyomi_prefetch::Limit;
use sakiyomi_prefetch::follow::{FollowerSet, Learning, Options, Summary};
use sakiyomi_prefetch::profile::{Profile, ProfileStore};
use sakiyomi_report::result::DaemonProcess;

use super::protocol::{Order, REPORT_PERIOD, Report, receive, send};
use crate::progress::go_on;

/// Time for loading a profile; after that, the process is followed without.
const PROFILE_TIMEOUT: Duration = Duration::from_secs(2);
/// Time for summaries at the end.
const END_TIMEOUT: Duration = Duration::from_secs(3);

/// Options of the followers; the memory budget comes from the daemon.
const OPTIONS: Options = Options { limit: Limit::AUTO, memory: None, watch_only: false };

/// Events of the control thread.
enum Event {
    Order(Order),
    /// A profile was loaded, by a thread that may have waited for the file system.
    Loaded(u32, Learning, Profile),
    /// The daemon has ended.
    Gone,
}

/// A process that this worker was told to follow.
struct Assigned {
    name: String,
    is_young: bool,
    /// Whether its profile is being loaded.
    is_loading: bool,
    begun: Instant,
}

/// Runs a worker until its standard input ends.
pub(super) fn run() -> Result<ExitCode> {
    // It was started by another name, since the file of the daemon may have been replaced.
    let _ = std::fs::write("/proc/self/comm", "sakiyomi");
    let (sender, events) = mpsc::channel();
    let control = thread::current();
    let orders = sender.clone();
    let listen = move || {
        let mut input = io::stdin().lock();
        while let Some(order) = receive(&mut input) {
            if orders.send(Event::Order(order)).is_err() {
                return;
            }
            control.unpark();
        }
        let _ = orders.send(Event::Gone);
        control.unpark();
    };
    thread::Builder::new().name("orders".to_owned()).spawn(listen).context("cannot start a thread")?;
    let mut worker = Worker {
        set: FollowerSet::new(OPTIONS),
        followed: BTreeMap::new(),
        store: ProfileStore::of_user(),
        sender,
        cpu_at: Instant::now(),
        saving: Vec::new(),
    };
    loop {
        for event in events.try_iter() {
            match event {
                Event::Order(Order::Memory(bytes)) => worker.set.set_memory(bytes),
                Event::Order(Order::Follow { process, name, is_young }) => {
                    worker.prepare(process, name, is_young)
                }
                Event::Loaded(process, learning, profile) => {
                    if worker.followed.get(&process).is_some_and(|assigned| assigned.is_loading) {
                        worker.follow(process, learning, profile);
                    }
                }
                Event::Gone => return worker.end(),
            }
        }
        if go_on().is_err() {
            return worker.end();
        }
        worker.follow_late();
        let pause = worker.set.step();
        worker.report()?;
        thread::park_timeout(pause);
    }
}

struct Worker {
    set: FollowerSet,
    followed: BTreeMap<u32, Assigned>,
    store: Option<ProfileStore>,
    sender: mpsc::Sender<Event>,
    cpu_at: Instant,
    /// Threads that save profiles.
    saving: Vec<JoinHandle<()>>,
}

impl Worker {
    /// Loads the profile of a process's command, which waits for a file system; then the process is followed.
    fn prepare(&mut self, process: u32, name: String, is_young: bool) {
        let is_loading = is_young && self.store.is_some();
        self.followed.insert(process, Assigned { name, is_young, is_loading, begun: Instant::now() });
        let empty = || Profile::new(Vec::new(), PathBuf::new());
        let Some(store) = self.store.clone().filter(|_| is_young) else {
            return self.follow(process, Learning::Never, empty());
        };
        let (sender, control) = (self.sender.clone(), thread::current());
        let load = move || {
            let (learning, profile) = match command_of(process) {
                Some((words, directory)) => (Learning::Auto, store.of_command(&words, &directory)),
                None => (Learning::Never, empty()),
            };
            // If the receiver is gone, so is the need.
            let _ = sender.send(Event::Loaded(process, learning, profile));
            control.unpark();
        };
        if thread::Builder::new().name("profile".to_owned()).spawn(load).is_err() {
            self.follow(process, Learning::Never, Profile::new(Vec::new(), PathBuf::new()));
        }
    }

    fn follow(&mut self, process: u32, learning: Learning, profile: Profile) {
        if let Some(assigned) = self.followed.get_mut(&process) {
            assigned.is_loading = false;
        }
        let descendants = self.followed.get(&process).is_some_and(|followed| followed.is_young);
        if let Err(error) = self.set.follow(process, descendants, learning, profile) {
            let refused = error.kind() == io::ErrorKind::PermissionDenied;
            // The end of the standard output is noticed by the next report.
            let _ = if refused { self.refuse(process) } else { self.report_end(process, Summary::default()) };
        }
    }

    fn refuse(&mut self, process: u32) -> io::Result<()> {
        self.followed.remove(&process);
        send(&mut io::stdout().lock(), &Report::Refused(process))
    }

    /// Follows processes whose profile does not arrive: it may be on a file system that does not answer.
    fn follow_late(&mut self) {
        let is_late = |assigned: &Assigned| assigned.is_loading && assigned.begun.elapsed() > PROFILE_TIMEOUT;
        let late: Vec<u32> = self
            .followed
            .iter()
            .filter(|(_, assigned)| is_late(assigned))
            .map(|(&process, _)| process)
            .collect();
        for process in late {
            self.follow(process, Learning::Never, Profile::new(Vec::new(), PathBuf::new()));
        }
    }

    /// Reports processes that have ended, and now and then the CPU time.
    ///
    /// # Errors
    /// If the daemon no longer exists.
    fn report(&mut self) -> io::Result<()> {
        for (process, summary) in self.set.take_ended() {
            self.report_end(process, summary)?;
        }
        let now = Instant::now();
        if now >= self.cpu_at {
            self.cpu_at = now + REPORT_PERIOD;
            send(&mut io::stdout().lock(), &Report::Cpu(own_cpu_ns()))?;
        }
        Ok(())
    }

    fn report_end(&mut self, process: u32, summary: Summary) -> io::Result<()> {
        let Some(Assigned { name, begun, .. }) = self.followed.remove(&process) else { return Ok(()) };
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let ended = DaemonProcess {
            pid: process,
            name,
            user: sakiyomi_os::rights::user(),
            elapsed_ns: nanos(begun.elapsed()),
            io_wait_ns: summary.io_wait.0,
            io_hidden_ns: summary.io_hidden.map_or(0, |hidden| hidden.0),
            prefetched_bytes: summary.prefetched_bytes,
            wasted_bytes: summary.wasted_bytes,
            replayed_bytes: summary.learned.replayed_bytes,
        };
        if let (Some(store), Some(profile)) = (self.store.clone(), summary.learned.profile) {
            // The home directory may be on a file system that does not answer; a profile that is not saved is learned
            // again.
            let save = move || drop(store.save(&profile));
            self.saving.retain(|saving| !saving.is_finished());
            self.saving.extend(thread::Builder::new().name("profile".to_owned()).spawn(save));
        }
        // Nothing was seen of it.
        if summary.refused > 0 && summary.files == 0 {
            return self.refuse(process);
        }
        send(&mut io::stdout().lock(), &Report::Ended(ended))
    }

    /// Ends following. The programs continue on their own.
    fn end(mut self) -> Result<ExitCode> {
        let set = std::mem::replace(&mut self.set, FollowerSet::new(OPTIONS));
        for (process, summary) in set.finish(END_TIMEOUT) {
            // The daemon may be gone.
            let _ = self.report_end(process, summary);
        }
        let until = Instant::now() + END_TIMEOUT;
        while Instant::now() < until && self.saving.iter().any(|saving| !saving.is_finished()) {
            thread::sleep(Duration::from_millis(5));
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn own_cpu_ns() -> u64 {
    u64::try_from(cpu::of_this_process().as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the command line and the working directory by which the profile of a process is found; `None` if it sees
/// other files than we do, or if they are not UTF-8.
fn command_of(process: u32) -> Option<(Vec<String>, PathBuf)> {
    let process = Process::open(process).ok()?;
    if !process.sees_our_files().ok()? {
        return None;
    }
    let words = process.command_line().ok()?.into_iter();
    let words = words.map(|word| word.into_string().ok()).collect::<Option<Vec<String>>>()?;
    let directory = process.working_directory_path().ok().filter(|directory| directory.to_str().is_some())?;
    Some((words, directory))
}
