//! Glossaries of reports.

use crate::section::Glossary;

/// Terms of a simulation.
pub(crate) const SIM: Glossary = &[
    ("full hit", "Every sector of the read was in the cache."),
    (
        "active hit",
        "The missing rest was just being read by the running media transfer or read-ahead: no new positioning.",
    ),
    (
        "near miss",
        "The first missing sector lay shortly after the end of something cached. A longer read-ahead would mend it.",
    ),
    (
        "purged miss",
        "The first missing sector had been cached and was evicted. A better replacement, or a larger cache, would \
         mend it.",
    ),
    ("pure miss", "Neither: the read had nothing to do with what was read before."),
    ("hit rate", "Full and active hits over all reads. Writes are counted apart."),
    (
        "write, absorbed",
        "Acknowledged from the write cache; other writes waited until they were on the medium.",
    ),
    (
        "response",
        "From when the host first wanted a command until its end, with the wait in the host's queue. Time in the \
         device leaves that wait out.",
    ),
    (
        "read seek, write seek",
        "Positioning the head: arm movement and the wait for the first sector to come round.",
    ),
    ("read data, write data", "Sectors passing under the head."),
    ("idle", "The disk neither positions nor transfers."),
    ("p99", "99 % of the commands took no longer."),
    (
        "undominated",
        "No other settings have as high a hit rate and as short a mean and worst response, and one of them better.",
    ),
];

/// Terms of a validation.
pub(crate) const VALIDATE: Glossary = &[
    (
        "free",
        "The simulated drive takes its own times: in a closed loop each request follows a think time after the \
         simulated end of the one before, so that an error shifts all that comes later.",
    ),
    ("anchored", "Each request is issued at the time at which the real drive got it."),
    (
        "rms",
        "Root mean square of the horizontal distance of two distributions: the demerit of Ruemmler & Wilkes (1994). \
         It does not ask which request took which time. In DiskSim's bins it is found from histograms, as DiskSim's \
         own figures were.",
    ),
    (
        "error",
        "Simulated minus measured time of the same request. Median, mean and p90 are of its size, the bias is the \
         mean with its sign: above zero the simulation is slower.",
    ),
    (
        "correlation",
        "1 where long requests are long in the simulation too, 0 where the two have nothing in common.",
    ),
    ("read hit, read miss", "As the simulation sees it: a hit needs no positioning of its own."),
    ("last-end rule", "The simplest guess: a read is a hit if it starts where the last read ended."),
];

/// Terms of a run.
pub(crate) const RUN: Glossary = &[
    ("computing", "Time on cores of the program and all that it started, summed."),
    (
        "waiting for I/O",
        "Time in which a thread neither ran nor waited for a core, and slept in a way that only I/O makes it sleep. \
         Summed over all threads; the share is that of the elapsed time or, where several threads were active at a time, \
         of theirs.",
    ),
    (
        "hidden",
        "Time for which the program would have waited besides: as often as the kernel\u{2019}s own read-ahead would have made \
         it wait, each time for as long as an access took. An estimate.",
    ),
    ("read ahead", "Bytes that were not in memory, and were brought there before the program came to them."),
    ("wasted", "Bytes of those that the program did not come to."),
];

/// Terms of a query.
pub(crate) const QUERY: Glossary = &[
    (
        "phase",
        "A part of the work with its own I/O. Phases are listed in the order in which they began. Their times may add up to \
         more than the whole, as phases on different threads overlap.",
    ),
    ("user, system", "CPU time in the program and in the kernel, including threads that carry out I/O."),
    ("waiting", "Time in which threads that could compute waited for I/O."),
    (
        "bound by I/O, by the CPU",
        "Whether the threads of the phase wait for I/O for longer than they compute. Faster storage helps only a phase that \
         is bound by I/O (Ueda 2013).",
    ),
    ("spilled", "Bytes beyond the memory limit that were written to an unnamed spill file and read again."),
    ("memory", "The largest resident memory of the process (VmHWM) beside the limit."),
];

/// Terms of a probe.
pub(crate) const PROBE: Glossary = &[
    (
        "storage-bound",
        "More requests in flight and better buffers gain nothing, and no core is busy: the storage gives no more.",
    ),
    (
        "CPU-bound",
        "The core that carries the path is busy. A system call runs on its caller's core, so that idle cores do not \
         help one thread (Ueda 2013).",
    ),
    (
        "latency-bound",
        "Neither: the storage waits for requests. More in flight, or better buffers, would help.",
    ),
    ("direct", "Around the page cache (O_DIRECT)."),
    ("cached, cold cache", "Through the page cache, which held everything before a run, or nothing."),
    ("random", "Blocks at random places; without this word one after the other."),
    (
        "read, pread:N, aio:D, uring:D",
        "One thread that reads; N threads that read side by side; D requests in flight by Linux's native asynchronous \
         I/O or by io_uring. uring-sqpoll hands them to a kernel thread that polls.",
    ),
    (
        "mmap, populate",
        "The file is mapped, and its pages are touched; or the kernel maps them all beforehand.",
    ),
    (
        "p50, p99",
        "Time from a request's start to its end: half, and 99 of 100, take no longer. Mappings have none.",
    ),
    (
        "s/GB",
        "CPU seconds, user and system, for 10⁹ bytes. GB/s and MB/s are powers of 1000; KiB and MiB of 1024.",
    ),
    ("2 × depth, best buffers", "Change of the throughput with twice the depth, and with the best buffers."),
];

/// Terms of a mount.
pub(crate) const MOUNT: Glossary = &[
    (
        "access",
        "A read, write or flush that the kernel asked the mount for. What the page cache had is none.",
    ),
    ("response", "From an access's beginning to its answer."),
    (
        "lateness",
        "From the instant when the simulated drive has ended an access to its answer: how late the mount is, or how much \
         longer the backing directory took.",
    ),
    (
        "accuracy",
        "Mean of actual over ideal time of the I/Os of owners with a rate: 1 is exact, up to 1.1 is good.",
    ),
];

/// Terms of a regulated device.
pub(crate) const TOP: Glossary = &[
    (
        "rate",
        "Percent of the device: an I/O is to take 100/rate times what one takes the device alone; or a time for each I/O.",
    ),
    ("ideal", "The time that an I/O is to take."),
    ("accuracy", "Mean of actual over ideal time of the last I/Os: 1 is exact, and up to 1.1 is good."),
    ("CoV", "Standard deviation of the I/O time over its mean: 0 is constant."),
    ("late", "I/Os that the device had not done in time."),
];

/// Terms of programs in virtual time.
pub(crate) const PROGRAMS: Glossary = &[
    (
        "limit",
        "How far ahead of the program the prefetcher may be; `off` is without one, `auto` finds out by itself.",
    ),
    (
        "waits",
        "The program can do nothing, because what it reads is not in memory, or too much of what it wrote is not on the drive.",
    ),
    ("hidden", "Reading that went on while the program computed, wrote or paused."),
    (
        "wasted",
        "Brought into memory by the prefetcher, and evicted before the program came to it: it has to be read again.",
    ),
];

/// Terms of regulated programs.
pub(crate) const REGULATED: Glossary = &[
    (
        "P, rate",
        "What a program asks for, in percent of the device: its I/Os are to take 100/P times what one takes the device.",
    ),
    ("ideal", "That time. It follows the device, not the number of those that use it."),
    (
        "accuracy",
        "Mean of actual over ideal time. 1 is exact; up to 1.1 is good (section 6.2 of the thesis).",
    ),
    ("CoV", "Standard deviation of the I/O time over its mean: 0 is constant."),
    (
        "allowance",
        "How many requests may be in the device, so that a regulated one which comes ends in time.",
    ),
    (
        "formula, thesis, ours",
        "The allowance of the formula alone (section 4.2), with the thesis's correction (5.3), and deadlines in its place.",
    ),
];

/// Terms of jobs of tasks.
pub(crate) const JOBS: Glossary = &[
    ("part", "How much of the file a task computes on."),
    ("mmap", "The file is mapped, and who computes on a part faults it in."),
    ("read", "The whole file is read by one thread, and computed on afterwards."),
    ("blocked-any", "A task for each block of parts reads it, on any of the threads that compute."),
    ("blocked-io", "The same, on a thread that does nothing else and goes before the others."),
];

/// Terms of streams.
pub(crate) const STREAM: Glossary = &[
    (
        "latency",
        "From the scheduled arrival of the latest input that contributed to a record until its arrival at the sink. A \
         source that is late does not shift the arrival, so that its delay is part of the latency.",
    ),
    ("p99", "99 % of the records took no longer."),
    ("cache domain", "Cores that share a cache, between which a hand-over is cheap."),
    ("utilisation", "Share of a core's time that the operators on it take."),
    (
        "watermark",
        "An event time before which no further record is expected. Windows close when it passes their end.",
    ),
    ("shed", "Dropped, and counted, because the source had fallen behind by more than its limit."),
];

/// The words of a reproduction.
pub(crate) const REPRODUCE: Glossary = &[
    ("in virtual time", "Simulated: the same bytes for the same version, on any machine."),
    (
        "calibrated",
        "A parameter of the simulation was chosen so that it meets this published figure; others follow.",
    ),
    ("range over seeds", "The least and the greatest of the repetitions, each with its own random numbers."),
    (
        "difference",
        "Relative deviation from the published figure, or from the nearer end of a published range.",
    ),
];
