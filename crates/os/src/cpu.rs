//! CPU time of the threads of this process, of the kernel's threads, and of each core.
//!
//! An I/O path may use threads outside of this process: the block layer's workers, a loop device's, io_uring's. An
//! engine that seems cheap because other threads do its work is not, so all of them are measured. The busiest thread
//! can limit the path: it never runs on more than one core.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::mem;
use std::time::{Duration, Instant};

use crate::Error;

/// Returns the CPU time of all threads of this process.
#[must_use]
pub fn of_this_process() -> Duration {
    let process = own_process();
    process.user + process.system
}

/// Returns the CPU time of the calling thread in user mode and in the kernel.
#[must_use]
pub fn user_and_system_of_this_thread() -> (Duration, Duration) {
    let thread = own(libc::RUSAGE_THREAD);
    (thread.user, thread.system)
}

/// Returns the CPU time of all threads of this process in user mode and in the kernel.
#[must_use]
pub fn user_and_system_of_this_process() -> (Duration, Duration) {
    let process = own_process();
    (process.user, process.system)
}

/// Measures CPU time from a point in time on.
#[derive(Debug)]
pub struct Meter {
    threads: BTreeMap<u32, Thread>,
    cores: Vec<Core>,
    process: Process,
    begun: Instant,
}

#[derive(Clone, Copy, Debug, Default)]
struct Process {
    user: Duration,
    system: Duration,
}

#[derive(Clone, Debug)]
struct Thread {
    name: String,
    of_kernel: bool,
    ran: Duration,
    /// Time ready to run without a free core.
    waited: Duration,
}

/// Clock ticks of a core.
#[derive(Clone, Copy, Debug, Default)]
struct Core {
    busy: u64,
    /// Steal time: the host ran other guests.
    stolen: u64,
    all: u64,
}

/// CPU time used between two points in time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usage {
    /// Elapsed time.
    pub elapsed: Duration,
    /// CPU time of this process in user mode.
    pub user: Duration,
    /// CPU time of this process in the kernel, including io_uring's threads.
    pub system: Duration,
    /// CPU time of all kernel threads.
    pub kernel_threads: Duration,
    /// The thread of this process or of the kernel with the longest time on a core or waiting for one.
    pub busiest_thread: Option<Busy>,
    /// Utilization of each core by all processes, 0 to 1.
    pub cores: Vec<f64>,
    /// Steal time as a ratio of the time of all cores, 0 to 1.
    pub stolen_ratio: f64,
}

/// A thread and its demand for CPU time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Busy {
    /// Its name; for kernel workers the name of their work: `kworker (loop0)`.
    pub name: String,
    /// Time on a core, or ready to run while none was free: the time that it would have used on a core of its own.
    pub wanted: Duration,
    /// Whether it is a kernel thread.
    pub of_kernel: bool,
}

impl Meter {
    /// Starts a measurement. Reads a file per kernel thread, which takes some milliseconds that are not counted.
    ///
    /// # Errors
    /// If `/proc` is not mounted.
    pub fn start() -> Result<Meter, Error> {
        let (threads, cores) = threads_and_cores().map_err(unanswered)?;
        Ok(Meter { threads, cores, process: own_process(), begun: Instant::now() })
    }

    /// Returns the CPU time used since the start. A thread that has ended counts only in the times of its process.
    ///
    /// # Errors
    /// If `/proc` is not mounted.
    pub fn stop(&self) -> Result<Usage, Error> {
        let (elapsed, process) = (self.begun.elapsed(), own_process());
        let (threads, cores) = threads_and_cores().map_err(unanswered)?;
        let since = threads.iter().map(|(number, thread)| thread.since(self.threads.get(number)));
        let busiest = since.clone().max_by_key(|thread| thread.ran + thread.waited);
        Ok(Usage {
            elapsed,
            user: process.user.saturating_sub(self.process.user),
            system: process.system.saturating_sub(self.process.system),
            kernel_threads: since.filter(|thread| thread.of_kernel).map(|thread| thread.ran).sum(),
            busiest_thread: busiest.map(Thread::busy),
            cores: self.cores.iter().zip(&cores).map(|(before, after)| before.busy_until(after)).collect(),
            stolen_ratio: stolen_ratio(&self.cores, &cores),
        })
    }
}

impl Thread {
    fn busy(self) -> Busy {
        // io_uring's threads belong to the process, but never leave the kernel.
        let of_kernel = self.of_kernel || self.name.starts_with("iou-");
        Busy { wanted: self.ran + self.waited, name: without_number(&self.name), of_kernel }
    }

    /// Returns the times since `before`; `None` if the thread did not exist then.
    fn since(&self, before: Option<&Thread>) -> Thread {
        let of = |of: fn(&Thread) -> Duration| of(self).saturating_sub(before.map_or(Duration::ZERO, of));
        Thread { ran: of(|thread| thread.ran), waited: of(|thread| thread.waited), ..self.clone() }
    }
}

/// Replaces the name of a kernel worker, which consists of a number and its present or last work
/// (`kworker/u8:7+loop0`), by the work, so that it stays the same between two samples.
fn without_number(name: &str) -> String {
    match (name.strip_prefix("kworker/"), name.find(['+', '-'])) {
        (Some(_), Some(at)) => format!("kworker ({})", &name[at + 1..]),
        (Some(_), None) => "kworker".to_owned(),
        (None, _) => name.to_owned(),
    }
}

fn unanswered(source: io::Error) -> Error {
    Error::System { what: "read CPU times from /proc".to_owned(), source }
}

fn threads_and_cores() -> io::Result<(BTreeMap<u32, Thread>, Vec<Core>)> {
    let mut threads = threads_of_kernel()?;
    threads.extend(own_threads()?);
    Ok((threads, cores(&fs::read_to_string("/proc/stat")?)))
}

fn stolen_ratio(before: &[Core], after: &[Core]) -> f64 {
    let ticks = |pick: fn(&Core) -> u64| {
        let of = |cores: &[Core]| cores.iter().map(pick).sum::<u64>();
        of(after).saturating_sub(of(before))
    };
    share(ticks(|core| core.stolen), ticks(|core| core.all))
}

impl Core {
    fn busy_until(&self, later: &Core) -> f64 {
        share(later.busy.saturating_sub(self.busy), later.all.saturating_sub(self.all))
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// Returns the steal time of each CPU since boot, with a resolution of a clock tick (10 ms); empty if the kernel does
/// not report it.
#[must_use]
pub fn stolen_times() -> BTreeMap<usize, Duration> {
    let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
    let times = |ticks: BTreeMap<usize, u64>| {
        ticks
            .into_iter()
            .map(|(cpu, ticks)| (cpu, Duration::from_nanos(ticks.saturating_mul(tick_ns))))
            .collect()
    };
    fs::read_to_string("/proc/stat").map_or_else(|_| BTreeMap::new(), |stat| times(stolen_ticks(&stat)))
}

fn stolen_ticks(stat: &str) -> BTreeMap<usize, u64> {
    let numbered =
        |line: &str| Some((line.strip_prefix("cpu")?.split(' ').next()?.parse().ok()?, core(line).stolen));
    stat.lines().filter_map(numbered).collect()
}

/// Returns the CPU time of the calling thread so far, in nanosecond resolution. The system call takes some 100 ns.
#[must_use]
pub fn of_this_thread() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

/// Returns user and system time of this process in microsecond resolution, including threads that have ended.
fn own_process() -> Process {
    own(libc::RUSAGE_SELF)
}

/// Returns user and system time of this process or of the calling thread, in microsecond resolution.
fn own(whose: libc::c_int) -> Process {
    // SAFETY: all zeros are a valid `rusage`, which the call fills; it cannot fail for the calling process or thread.
    let usage = unsafe {
        let mut usage: libc::rusage = mem::zeroed();
        libc::getrusage(whose, &mut usage);
        usage
    };
    let span = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    Process { user: span(usage.ru_utime), system: span(usage.ru_stime) }
}

/// Index of a thread's flags among the fields of `/proc/PID/stat` after the name.
const FLAGS_FIELD: usize = 6;

/// Flag of a kernel thread (`PF_KTHREAD`).
const KERNEL_THREAD_FLAG: u64 = 0x0020_0000;

/// Splits `/proc/PID/stat` after the name, which may contain spaces and parentheses: it ends at the last one.
fn fields_after_name(stat: &str) -> Option<impl Iterator<Item = &str>> {
    Some(stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace())
}

fn own_threads() -> io::Result<BTreeMap<u32, Thread>> {
    threads_in("/proc/self/task", |_| true, false)
}

fn threads_of_kernel() -> io::Result<BTreeMap<u32, Thread>> {
    let of_kernel = |directory: &str| {
        let stat = fs::read_to_string(format!("{directory}/stat")).unwrap_or_default();
        let flags =
            fields_after_name(&stat).and_then(|mut fields| fields.nth(FLAGS_FIELD)?.parse::<u64>().ok());
        flags.is_some_and(|flags| flags & KERNEL_THREAD_FLAG != 0)
    };
    threads_in("/proc", of_kernel, true)
}

fn threads_in(
    parent: &str,
    wanted: impl Fn(&str) -> bool,
    of_kernel: bool,
) -> io::Result<BTreeMap<u32, Thread>> {
    let mut threads = BTreeMap::new();
    for entry in fs::read_dir(parent)? {
        let name = entry?.file_name();
        let Some(number) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let directory = format!("{parent}/{number}");
        if !wanted(&directory) {
            continue;
        }
        // The files of a thread that has ended in the meantime no longer exist.
        let Ok(times) = fs::read_to_string(format!("{directory}/schedstat")) else { continue };
        let name = fs::read_to_string(format!("{directory}/comm")).unwrap_or_default();
        let mut times = times.split(' ').map(|nanos| Duration::from_nanos(nanos.parse().unwrap_or(0)));
        let mut time = || times.next().unwrap_or_default();
        let (ran, waited) = (time(), time());
        threads.insert(number, Thread { name: name.trim().to_owned(), of_kernel, ran, waited });
    }
    Ok(threads)
}

/// Returns the cores of `/proc/stat`.
fn cores(stat: &str) -> Vec<Core> {
    let lines = stat.lines().filter(|line| line.starts_with("cpu") && !line.starts_with("cpu "));
    lines.map(core).collect()
}

/// Parses `cpu0 user nice system idle iowait irq softirq steal guest guest_nice`; user and nice already include
/// guests.
fn core(line: &str) -> Core {
    let ticks: Vec<u64> = line.split_ascii_whitespace().skip(1).map_while(|text| text.parse().ok()).collect();
    let at = |index: usize| ticks.get(index).copied().unwrap_or(0);
    let busy = at(0) + at(1) + at(2) + at(5) + at(6);
    Core { busy, stolen: at(7), all: busy + at(3) + at(4) + at(7) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_busy_when_they_are_not_idle() {
        let before =
            cores("cpu  9 9 9 9\ncpu0 100 0 50 800 50 0 0 0 0 0\ncpu1 0 0 0 10 0 0 0 0 0 0\nintr 5\n");
        let after = cores("cpu0 130 0 70 810 70 5 5 10 0 0\ncpu1 0 0 0 10 0 0 0 0 0 0\n");
        assert_eq!(before[0].busy_until(&after[0]), 0.6);
        assert_eq!(before[1].busy_until(&after[1]), 0.0, "no time has passed");
    }

    #[test]
    fn stolen_ticks_are_told_by_the_number_of_the_cpu() {
        let stat = "cpu  9 9 9 9\ncpu0 130 0 70 810 70 5 5 10 0 0\ncpu7 1 0 0 9 0 0 0 0 0 0\nintr 5\n";
        assert_eq!(stolen_ticks(stat), BTreeMap::from([(0, 10), (7, 0)]));
    }

    #[test]
    fn workers_of_the_kernel_are_called_by_what_they_do() {
        let names =
            ["kworker/u8:7+loop0", "kworker/1:0H-kblockd", "kworker/u8:3", "iou-wrk-12"].map(without_number);
        assert_eq!(names, ["kworker (loop0)", "kworker (kblockd)", "kworker", "iou-wrk-12"]);
    }

    #[test]
    fn a_name_may_hold_brackets_and_spaces() {
        let stat = "12 (a) b (c) S 2 0 0 0 -1 2129984 0 0 0 0 7 9 0 0";
        let fields: Vec<&str> = fields_after_name(stat).unwrap().collect();
        assert_eq!((fields[0], fields[FLAGS_FIELD]), ("S", "2129984"));
        assert!(fields_after_name("no name").is_none());
    }

    #[test]
    fn a_thread_that_computes_is_seen() {
        let meter = Meter::start().unwrap();
        let spin = || {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(60) {
                std::hint::spin_loop();
            }
            own_threads().unwrap()
        };
        let name = "spinning-now";
        let own = std::thread::Builder::new().name(name.to_owned()).spawn(spin).unwrap().join().unwrap();
        let thread = own.values().find(|thread| thread.name == name).unwrap();
        assert!(!thread.of_kernel && thread.ran > Duration::from_millis(5));
        let usage = meter.stop().unwrap();
        assert!(usage.elapsed >= Duration::from_millis(60));
        assert!(usage.user + usage.system >= thread.ran, "a thread that has ended still counts");
        assert!(usage.cores.iter().all(|busy| (0.0..=1.0).contains(busy)) && !usage.cores.is_empty());
        assert!(threads_of_kernel().unwrap().values().all(|thread| thread.of_kernel));
    }
}
