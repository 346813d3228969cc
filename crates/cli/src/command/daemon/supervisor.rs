//! The daemon itself: finds the processes that wait for I/O, and has each followed by a worker with the credentials of that
//! process. While it runs it reads `/proc` only, and `/etc/passwd` when it starts a worker.
//!
//! A worker belongs to its user, who can stop it or write in its name. So its pipe is never waited for, and its reports are
//! believed only about the processes that it follows.
//!
//! ```text
//! /proc ──► Selection ──► admit ──► Order::Follow ──► worker of (user, groups) ──► page cache
//!                                   Report::Ended ◄──┘
//! socket ──► DaemonStatus
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::{BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use sakiyomi_model::Nanos;
use sakiyomi_os::process::{Identity, Process, all, memory, newest};
use sakiyomi_os::rights::{Credentials, home_of};
use sakiyomi_os::{cpu, stdio};
use sakiyomi_prefetch::selection::{POLL_PERIOD, Poll, Selection};
use sakiyomi_report::result::{DaemonProcess, DaemonStatus};

use super::protocol::{Order, REPORT_PERIOD, Report, receive, send};
use crate::console::note;
use crate::progress::go_on;

/// Processes that are followed by one worker at a time; each takes threads that count against the limit of its user.
const FOLLOWED_MAX: usize = 16;
/// Workers at a time.
const WORKERS_MAX: usize = 16;
/// Reports that wait to be handled; more hold up the workers that send them.
const REPORTS_MAX: usize = 256;
/// Time without a report after which a worker is replaced.
const SILENCE_TIMEOUT: Duration = REPORT_PERIOD.saturating_mul(6);
/// Time for which a process that cannot be followed is not tried again.
const REFUSED_TIME: Duration = Duration::from_secs(60);
/// Time between two starts of a worker with the same credentials: one that fails at once is not restarted in a loop.
const RESTART_TIME: Duration = Duration::from_secs(10);
/// Time without a process to follow after which a worker is ended.
const WORKER_IDLE_TIMEOUT: Duration = Duration::from_secs(60);
/// Time between two divisions of the memory budget.
const MEMORY_PERIOD: Duration = Duration::from_secs(5);
/// Time for workers to end.
const END_TIMEOUT: Duration = Duration::from_secs(8);
/// Time for a client to take the status.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(1);

/// Settings of a daemon.
pub(super) struct Settings {
    /// Memory budget for data ahead of all processes, in bytes.
    pub(super) memory: Option<u64>,
    /// Control groups whose processes are followed; empty for all processes.
    pub(super) groups: Vec<String>,
    /// Whether starts are learned.
    pub(super) learn: bool,
    /// The socket for status requests, and its path.
    pub(super) socket: Option<(UnixListener, PathBuf)>,
}

enum Event {
    Reported(Credentials, u64, Report),
    /// The worker of this number has ended.
    WorkerGone(Credentials, u64),
    Asked(UnixStream),
}

struct WorkerHandle {
    /// Distinguishes it from earlier workers with the same credentials.
    number: u64,
    child: Child,
    orders: ChildStdin,
    own_cpu_ns: u64,
    reported_at: Instant,
    /// Its part of the memory budget, in bytes.
    memory: u64,
    /// Since when it has had nothing to do.
    idle_since: Option<Instant>,
}

struct FollowedProcess {
    credentials: Credentials,
    /// Whether its descendants are followed with it.
    is_young: bool,
    name: String,
    begun: Instant,
}

struct Supervisor {
    settings: Settings,
    begun: Instant,
    own: Credentials,
    own_program: Option<Identity>,
    selection: Selection,
    /// The ID that was assigned last to a process or thread.
    newest: u32,
    workers: BTreeMap<Credentials, WorkerHandle>,
    started: BTreeMap<Credentials, Instant>,
    count: u64,
    followed: BTreeMap<u32, FollowedProcess>,
    refused: BTreeMap<u32, Instant>,
    status: DaemonStatus,
    /// CPU time of workers that have ended.
    past_cpu_ns: u64,
    memory_at: Instant,
    sender: mpsc::SyncSender<Event>,
}

/// Runs the daemon until SIGTERM or Ctrl-C.
pub(super) fn run(mut settings: Settings) -> Result<ExitCode> {
    let (sender, events) = mpsc::sync_channel(REPORTS_MAX);
    let path = settings.socket.take().map(|(listener, path)| {
        let sender = sender.clone();
        let listen = move || {
            for stream in listener.incoming().flatten() {
                if sender.send(Event::Asked(stream)).is_err() {
                    return;
                }
            }
        };
        drop(thread::Builder::new().name("status".to_owned()).spawn(listen));
        path
    });
    let own = Process::open(std::process::id()).context("cannot read /proc")?;
    let mut supervisor = Supervisor {
        settings,
        begun: Instant::now(),
        own: own.credentials().context("the daemon cannot run as a setuid program")?,
        own_program: own.program_identity().ok(),
        selection: Selection::default(),
        newest: 0,
        workers: BTreeMap::new(),
        started: BTreeMap::new(),
        count: 0,
        followed: BTreeMap::new(),
        refused: BTreeMap::new(),
        status: DaemonStatus { pid: std::process::id(), ..DaemonStatus::default() },
        past_cpu_ns: 0,
        memory_at: Instant::now(),
        sender,
    };
    while go_on().is_ok() {
        supervisor.poll()?;
        let until = Instant::now() + Duration::from_nanos(POLL_PERIOD.0);
        // However many there are, the next poll comes.
        for _ in 0..REPORTS_MAX {
            let Ok(event) = events.recv_timeout(until.saturating_duration_since(Instant::now())) else {
                break;
            };
            supervisor.take(event);
        }
    }
    supervisor.end(&events);
    if let Some(path) = path {
        // The next daemon replaces it in any case.
        let _ = std::fs::remove_file(path);
    }
    Ok(ExitCode::SUCCESS)
}

impl Supervisor {
    /// Polls processes, and starts to follow those that wait.
    fn poll(&mut self) -> Result<()> {
        let now = Nanos(u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX));
        let before = cpu::of_this_thread();
        let newest = newest().context("cannot read /proc")?;
        let present = if self.newest == newest { None } else { Some(all().context("cannot list /proc")?) };
        self.newest = newest;
        let poll = self.selection.next_poll(now, present);
        let processes = match &poll {
            Poll::All => all().context("cannot list /proc")?,
            Poll::These(processes) => processes.clone(),
        };
        for number in processes {
            let Ok(process) = Process::open(number) else {
                self.selection.forget(number);
                continue;
            };
            match process.waits_for_io() {
                Ok(waits) => {
                    let is_young = self.selection.is_young(number);
                    if self.selection.saw(number, waits) {
                        // It may have ended in the meantime.
                        let _ = self.admit(process, is_young);
                    }
                }
                Err(_) => self.selection.forget(number),
            }
        }
        let took = cpu::of_this_thread().saturating_sub(before);
        self.selection.polled(now, &poll, Nanos(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX)));
        let time = Instant::now();
        self.refused.retain(|_, &mut until| until > time);
        if time >= self.memory_at {
            self.memory_at = time + MEMORY_PERIOD;
            self.end_idle_workers(time);
            self.divide_memory();
        }
        Ok(())
    }

    /// Starts to follow a process, if it is to be: one that has just started with its descendants, and from the first
    /// process of its job on; an older one by itself, because its children are noticed as new processes.
    fn admit(&mut self, mut process: Process, is_young: bool) -> std::io::Result<()> {
        let Some(credentials) =
            self.worker_credentials(&process)?.filter(|_| self.is_in_groups(&process).unwrap_or(false))
        else {
            return Ok(());
        };
        // Threads of the kernel have no program.
        process.program_identity()?;
        if self.is_taken(process.number(), &credentials) {
            return Ok(());
        }
        if is_young {
            process = self.first_of_job(process, &credentials)?;
        }
        if self.refused.contains_key(&process.number()) {
            return Ok(());
        }
        let of_worker = self.followed.values().filter(|followed| followed.credentials == credentials).count();
        if of_worker >= FOLLOWED_MAX {
            return Ok(());
        }
        let (number, name) = (process.number(), process.name()?);
        let Some(worker) = self.worker(&credentials) else { return Ok(()) };
        worker.idle_since = None;
        let order = Order::Follow { process: number, name: name.clone(), is_young };
        if send(&mut worker.orders, &order).is_ok() {
            self.followed
                .insert(number, FollowedProcess { credentials, is_young, name, begun: Instant::now() });
            self.divide_memory();
        } else {
            // It does not read its orders. Its end is noticed as that of any worker.
            let _ = worker.child.kill();
        }
        Ok(())
    }

    /// Returns the credentials of the worker that may follow a process: those of the process itself. Root is followed only if
    /// it sees the same files and has all capabilities of a worker, which root of a container has not.
    fn worker_credentials(&self, process: &Process) -> std::io::Result<Option<Credentials>> {
        let credentials = process.credentials()?;
        if credentials.user != 0 {
            return Ok((self.own.user == 0 || credentials.include(&self.own)).then_some(credentials));
        }
        let is_same =
            credentials.include(&Credentials { capabilities: self.own.capabilities, ..credentials.clone() });
        let is_followed = self.own.user == 0 && is_same && process.sees_our_files()?;
        Ok(is_followed.then_some(Credentials { capabilities: self.own.capabilities, ..credentials }))
    }

    /// Returns whether a process with these credentials is followed already: by us, as a descendant too, or by `sakiyomi run`.
    fn is_taken(&self, number: u32, credentials: &Credentials) -> bool {
        /// Process numbers are reused, so that the parents of processes may seem to form a cycle.
        const ANCESTORS_MAX: usize = 64;
        let (mut number, mut is_itself) = (number, true);
        for _ in 0..ANCESTORS_MAX {
            let includes = |followed: &FollowedProcess| {
                followed.credentials == *credentials && (followed.is_young || is_itself)
            };
            if self.followed.get(&number).is_some_and(includes) {
                return true;
            }
            is_itself = false;
            let Ok(process) = Process::open(number) else { return false };
            if self.prefetches_itself(&process) {
                return true;
            }
            match process.status() {
                Ok(status) if status.parent != 0 => number = status.parent,
                _ => return false,
            }
        }
        false
    }

    /// Returns the first process of a job that has just started: the farthest ancestor in the same process group, with the
    /// same credentials, that is new itself.
    fn first_of_job(&self, process: Process, credentials: &Credentials) -> std::io::Result<Process> {
        let mut first = process;
        let of_job = first.group()?;
        loop {
            let parent = first.status()?.parent;
            if !self.selection.is_young(parent) {
                return Ok(first);
            }
            let Ok(mut parent) = Process::open(parent) else { return Ok(first) };
            let is_of_job = parent.group().is_ok_and(|group| group == of_job);
            if !is_of_job
                || !parent.credentials().is_ok_and(|of_parent| of_parent.include(credentials))
                || self.prefetches_itself(&parent)
            {
                return Ok(first);
            }
            first = parent;
        }
    }

    /// Returns whether a process is one of ours: a command that prefetches what it reads, `run` with its program as a
    /// child, or a daemon with its workers.
    fn prefetches_itself(&self, process: &Process) -> bool {
        let is_worker = self.workers.values().any(|worker| worker.child.id() == process.number());
        let program = process.program_identity().ok();
        is_worker || program.zip(self.own_program).is_some_and(|(program, own)| program.is_same(&own))
    }

    fn is_in_groups(&self, process: &Process) -> std::io::Result<bool> {
        if self.settings.groups.is_empty() {
            return Ok(true);
        }
        let of_process = process.control_groups()?;
        Ok(of_process.iter().any(|group| self.settings.groups.iter().any(|wanted| is_below(group, wanted))))
    }

    /// Returns the worker with these credentials, and starts it if there is none.
    fn worker(&mut self, credentials: &Credentials) -> Option<&mut WorkerHandle> {
        let now = Instant::now();
        if !self.workers.contains_key(credentials) {
            let is_too_soon = self
                .started
                .get(credentials)
                .is_some_and(|started| now.duration_since(*started) < RESTART_TIME);
            if is_too_soon {
                return None;
            }
            if self.workers.len() >= WORKERS_MAX && !self.end_idlest_worker() {
                return None;
            }
            self.started.retain(|_, started| now.duration_since(*started) < RESTART_TIME);
            self.started.insert(credentials.clone(), now);
            match self.start_worker(credentials) {
                Ok(worker) => {
                    self.workers.insert(credentials.clone(), worker);
                }
                Err(error) => {
                    self.status.failures += 1;
                    note(&format!("cannot start a worker for user {}: {error}", credentials.user));
                }
            }
        }
        self.workers.get_mut(credentials)
    }

    fn start_worker(&mut self, credentials: &Credentials) -> std::io::Result<WorkerHandle> {
        let mut command = Command::new("/proc/self/exe");
        command.args(["daemon", "start", "--worker"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        // A signal of the terminal is for the daemon only.
        command.process_group(0).current_dir("/");
        // In a user namespace root may not set groups, and need not.
        if *credentials != self.own {
            credentials.apply_to(&mut command);
        }
        // The environment may hold secrets of another user.
        command.env_clear();
        if self.settings.learn {
            command.envs(directories_of_profiles(credentials.user, self.own.user));
        }
        let mut child = command.spawn()?;
        let orders = child.stdin.take().ok_or(std::io::ErrorKind::BrokenPipe)?;
        stdio::set_nonblocking(orders.as_fd())?;
        let reports = child.stdout.take().ok_or(std::io::ErrorKind::BrokenPipe)?;
        self.count += 1;
        let (number, sender, credentials) = (self.count, self.sender.clone(), credentials.clone());
        let listen = move || {
            let mut reports = BufReader::new(reports);
            while let Some(report) = receive(&mut reports) {
                if sender.send(Event::Reported(credentials.clone(), number, report)).is_err() {
                    return;
                }
            }
            let _ = sender.send(Event::WorkerGone(credentials, number));
        };
        thread::Builder::new().name("reports".to_owned()).spawn(listen)?;
        Ok(WorkerHandle {
            number,
            child,
            orders,
            own_cpu_ns: 0,
            reported_at: Instant::now(),
            memory: 0,
            idle_since: None,
        })
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Reported(credentials, number, report) => self.take_report(&credentials, number, report),
            Event::WorkerGone(credentials, number) => {
                if self.workers.get(&credentials).is_some_and(|worker| worker.number == number)
                    && let Some(worker) = self.workers.remove(&credentials)
                {
                    self.on_worker_exit(&credentials, worker);
                }
            }
            Event::Asked(stream) => {
                let status = self.status();
                let answer = move || {
                    let mut stream = stream;
                    let _ = stream.set_write_timeout(Some(CLIENT_TIMEOUT));
                    // A client that went away needs no answer.
                    let _ = serde_json::to_vec(&status).map(|text| stream.write_all(&text));
                };
                drop(thread::Builder::new().name("answer".to_owned()).spawn(answer));
            }
        }
    }

    fn take_report(&mut self, credentials: &Credentials, number: u64, report: Report) {
        let Some(worker) = self.workers.get_mut(credentials).filter(|worker| worker.number == number) else {
            return;
        };
        worker.reported_at = Instant::now();
        let (Report::Refused(process) | Report::Ended(DaemonProcess { pid: process, .. })) = report else {
            if let Report::Cpu(own_cpu_ns) = report {
                worker.own_cpu_ns = own_cpu_ns;
            }
            return;
        };
        if self.followed.get(&process).is_none_or(|followed| followed.credentials != *credentials) {
            return;
        }
        self.followed.remove(&process);
        match report {
            Report::Ended(process) => self.status.end(DaemonProcess { user: credentials.user, ..process }),
            _ => {
                self.status.refused += 1;
                self.refused.insert(process, Instant::now() + REFUSED_TIME);
            }
        }
        self.divide_memory();
    }

    /// Notes that a worker has ended unexpectedly. Its programs continue alone, and are selected again when they wait.
    fn on_worker_exit(&mut self, credentials: &Credentials, mut worker: WorkerHandle) {
        let end = worker.child.wait();
        self.past_cpu_ns += worker.own_cpu_ns;
        self.followed.retain(|_, followed| followed.credentials != *credentials);
        self.status.failures += 1;
        let end = end.map_or_else(|error| error.to_string(), |end| end.to_string());
        note(&format!(
            "the worker for user {} has ended unexpectedly ({end}); its programs continue",
            credentials.user
        ));
    }

    fn status(&self) -> DaemonStatus {
        let elapsed = |begun: Instant| u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let own = u64::try_from(cpu::of_this_process().as_nanos()).unwrap_or(u64::MAX);
        let followed = self.followed.iter().map(|(&pid, followed)| DaemonProcess {
            pid,
            name: followed.name.clone(),
            user: followed.credentials.user,
            elapsed_ns: elapsed(followed.begun),
            ..DaemonProcess::default()
        });
        DaemonStatus {
            elapsed_ns: elapsed(self.begun),
            own_cpu_ns: own
                + self.past_cpu_ns
                + self.workers.values().map(|worker| worker.own_cpu_ns).sum::<u64>(),
            memory_bytes: self.settings.memory,
            workers: self.workers.len() as u64,
            followed: followed.collect(),
            ..self.status.clone()
        }
    }

    /// Divides the memory budget among the workers in proportion to the processes that they follow.
    fn divide_memory(&mut self) {
        let quarter = memory::available().map(|bytes| bytes / 4);
        let Some(all) = [quarter, self.settings.memory].into_iter().flatten().min() else { return };
        let count = self.followed.len().max(1) as u64;
        for (credentials, worker) in &mut self.workers {
            let own =
                self.followed.values().filter(|followed| followed.credentials == *credentials).count() as u64;
            let part = all / count * own;
            // Changes of less than an eighth are not worth a message.
            if own > 0 && part.abs_diff(worker.memory) > worker.memory / 8 {
                worker.memory = part;
                if send(&mut worker.orders, &Order::Memory(part)).is_err() {
                    let _ = worker.child.kill();
                }
            }
        }
    }

    /// Ends the worker that has had nothing to do for the longest time; returns false if all are busy.
    fn end_idlest_worker(&mut self) -> bool {
        let idle = self
            .workers
            .iter()
            .filter_map(|(credentials, worker)| Some((worker.idle_since?, credentials.clone())));
        let Some((_, credentials)) = idle.min() else { return false };
        self.end_worker(&credentials);
        true
    }

    fn end_worker(&mut self, credentials: &Credentials) {
        if let Some(WorkerHandle { mut child, orders, own_cpu_ns, .. }) = self.workers.remove(credentials) {
            drop(orders);
            self.past_cpu_ns += own_cpu_ns;
            let end = move || {
                let until = Instant::now() + END_TIMEOUT;
                while Instant::now() < until {
                    if !matches!(child.try_wait(), Ok(None)) {
                        return;
                    }
                    thread::sleep(Duration::from_millis(100));
                }
                let _ = child.kill();
                let _ = child.wait();
            };
            drop(thread::Builder::new().name("end".to_owned()).spawn(end));
        }
    }

    /// Ends workers that have had nothing to do for some time.
    fn end_idle_workers(&mut self, now: Instant) {
        let busy: BTreeSet<&Credentials> =
            self.followed.values().map(|followed| &followed.credentials).collect();
        let mut over = Vec::new();
        for (credentials, worker) in &mut self.workers {
            if now.duration_since(worker.reported_at) > SILENCE_TIMEOUT {
                // Its end is noticed as that of any worker.
                let _ = worker.child.kill();
            }
            if busy.contains(credentials) {
                worker.idle_since = None;
            } else if now.duration_since(*worker.idle_since.get_or_insert(now)) > WORKER_IDLE_TIMEOUT {
                over.push(credentials.clone());
            }
        }
        over.iter().for_each(|credentials| self.end_worker(credentials));
    }

    /// Ends the workers, and waits until they have saved what they learned.
    fn end(mut self, events: &mpsc::Receiver<Event>) {
        let until = Instant::now() + END_TIMEOUT;
        let mut children: Vec<Child> = Vec::new();
        for (_, WorkerHandle { child, orders, .. }) in std::mem::take(&mut self.workers) {
            drop(orders);
            children.push(child);
        }
        while Instant::now() < until {
            children.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
            if children.is_empty() {
                break;
            }
            // Their reports must not fill the channel.
            let _ = events.recv_timeout(Duration::from_millis(20));
        }
        for mut child in children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Returns the variables by which a worker finds its user's profiles: those of the daemon if it has the same user, otherwise
/// the home directory.
fn directories_of_profiles(user: u32, own_user: u32) -> Vec<(&'static str, OsString)> {
    let own = ["XDG_CACHE_HOME", "HOME"].map(|name| Some((name, std::env::var_os(name)?)));
    let own: Vec<_> = own.into_iter().flatten().filter(|_| user == own_user).collect();
    if own.is_empty() {
        home_of(user).map(|home| ("HOME", home.into_os_string())).into_iter().collect()
    } else {
        own
    }
}

/// Returns whether a control group is this one, or below it. Both are paths from the root of a hierarchy.
fn is_below(group: &str, wanted: &str) -> bool {
    let wanted = wanted.trim_end_matches('/');
    group.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_group_includes_those_below_it_and_no_others() {
        assert!(is_below("/batch", "/batch"));
        assert!(is_below("/batch/nightly", "/batch/"));
        assert!(is_below("/batch", "/"));
        assert!(!is_below("/batches", "/batch"));
        assert!(!is_below("/", "/batch"));
    }
}
