//! Glossaries of reports.

use crate::section::Glossary;

/// Terms of a simulation.
pub(crate) const SIM: Glossary = &[
    ("full hit", "Every sector of the read was in the cache."),
    (
        "active hit",
        "The missing sectors were being read by the running media transfer or read-ahead, so no new \
         positioning was needed.",
    ),
    (
        "near miss",
        "The first missing sector lay shortly after the end of cached data. A longer read-ahead would have \
         made the read a hit.",
    ),
    (
        "purged miss",
        "The first missing sector had been cached and was evicted. Another replacement policy or a larger \
         cache would have made the read a hit.",
    ),
    ("pure miss", "The read misses and has no relation to earlier reads."),
    ("hit rate", "Full and active hits as a share of all reads. Writes are counted separately."),
    (
        "write, absorbed",
        "A write that was acknowledged from the write cache. Other writes waited until they were on the \
         medium.",
    ),
    (
        "response",
        "Time from a command's arrival at the host until its completion, including the wait in the host's \
         queue. Time in the device excludes that wait.",
    ),
    ("read seek, write seek", "Positioning of the head: seek and rotational latency."),
    ("read data, write data", "Transfer: sectors pass under the head."),
    ("idle", "The disk neither positions nor transfers."),
    ("p99", "99 % of the commands took at most this long."),
    (
        "undominated",
        "Pareto-optimal: no other settings are at least as good in hit rate, mean response and worst \
         response, and better in one of them.",
    ),
];

/// Terms of a validation.
pub(crate) const VALIDATE: Glossary = &[
    (
        "free",
        "The simulated drive determines the times: in a closed loop, each request follows a think time \
         after the simulated completion of the previous one, so that an error shifts all later requests.",
    ),
    ("anchored", "Each request is issued at its measured time."),
    (
        "rms",
        "Root mean square of the horizontal distance between two distributions: the demerit of Ruemmler & \
         Wilkes (1994). It does not compare single requests. In DiskSim's bins, it is computed from \
         histograms, as DiskSim's own figures were.",
    ),
    (
        "error",
        "Simulated minus measured time of the same request. Median, mean and p90 are of absolute values; \
         the bias is the mean with its sign, and is positive if the simulation is slower.",
    ),
    (
        "correlation",
        "1 if requests that are long in the measurement are long in the simulation too, 0 if they are \
         unrelated.",
    ),
    ("read hit, read miss", "Classification by the simulation: a hit needs no positioning of its own."),
    ("last-end rule", "The simplest prediction: a read is a hit if it starts where the previous read ended."),
];

/// Terms of a run.
pub(crate) const RUN: Glossary = &[
    ("computing", "CPU time of the program and all its descendants, summed."),
    (
        "waiting for I/O",
        "Time in which a thread neither ran nor waited for a core, and was in a sleep that only I/O causes. \
         Summed over all threads; the percentage is of the elapsed time or, if several threads were active \
         at a time, of their total time.",
    ),
    (
        "hidden",
        "Estimate of the additional time for which the program would have waited: as often as the \
         kernel\u{2019}s own read-ahead would have made it wait, each time for the duration of an access.",
    ),
    (
        "read ahead",
        "Bytes that were not in memory, and were read into the page cache before the program reached them.",
    ),
    ("wasted", "Prefetched bytes that the program did not reach."),
];

/// Terms of an explanation.
pub(crate) const EXPLAIN: Glossary = &[
    (
        "critical path",
        "The chain of activities on which the elapsed time depended: of several threads or processes, at each moment \
         the one for which the others waited. Its times add up to the elapsed time.",
    ),
    ("waiting for a core", "Ready to run, while all cores that the thread may use were occupied."),
    ("metadata", "Opening, looking up, listing, creating, renaming and closing files."),
    ("mapping", "Access to pages of a mapped file that were not in memory."),
    ("write-back", "Writing threads are slowed down while too much written data is not yet on storage."),
    (
        "predicted",
        "Elapsed time of the recorded program in virtual time, with the change. The interval has the errors of the \
         model on this recording, and what the recording leaves open.",
    ),
];

/// Terms of the waits of a process.
pub(crate) const WAITS: Glossary = &[
    (
        "waiting for I/O",
        "Time in which a thread neither ran nor waited for a core, and was in a sleep that only I/O causes. \
         Summed over all threads. Threads are looked at once a millisecond, so that waits that are much shorter count \
         for the file that was waited for before.",
    ),
    ("looks", "The number of times that a thread was found waiting for this file."),
];

/// Terms of a query.
pub(crate) const QUERY: Glossary = &[
    (
        "phase",
        "A part of the work with its own I/O. Phases are listed in the order of their starts. Their times \
         may add up to more than the whole, because phases on different threads overlap.",
    ),
    ("user, system", "CPU time in the program and in the kernel, including I/O threads."),
    ("waiting", "Time in which compute threads waited for I/O."),
    (
        "bound by I/O, by the CPU",
        "Whether the threads of the phase wait for I/O for longer than they compute. Faster storage helps \
         only a phase that is bound by I/O (Ueda 2013).",
    ),
    ("spilled", "Bytes beyond the memory limit that were written to an unnamed spill file and read back."),
    ("memory", "Peak resident memory of the process (VmHWM), and the limit."),
];

/// Terms of a probe.
pub(crate) const PROBE: Glossary = &[
    (
        "storage-bound",
        "More requests in flight and better buffers gain nothing, and no core is busy: the storage is the \
         limit.",
    ),
    (
        "CPU-bound",
        "The core that executes the I/O path is busy. A system call runs on its caller's core, so idle \
         cores do not help a single thread (Ueda 2013).",
    ),
    (
        "latency-bound",
        "Neither the storage nor a core is busy: the storage waits for requests. More requests in flight or \
         better buffers would help.",
    ),
    ("direct", "I/O that bypasses the page cache (O_DIRECT)."),
    (
        "cached, cold cache",
        "I/O through the page cache, which held the whole file before a run, or none of it.",
    ),
    ("random", "Blocks at random offsets. Without this word, access is sequential."),
    (
        "read, pread:N, aio:D, uring:D",
        "One thread that reads; N threads that read in parallel; D requests in flight by Linux native \
         asynchronous I/O or by io_uring. uring-sqpoll submits them by a kernel thread that polls.",
    ),
    (
        "mmap, populate",
        "The file is mapped, and its pages are faulted in; or the kernel maps all of them in advance.",
    ),
    (
        "p50, p99",
        "Time from a request's start to its completion: 50 % and 99 % of the requests take at most this \
         long. Mappings have no such figures.",
    ),
    (
        "s/GB",
        "CPU seconds, user and system, per 10⁹ bytes. GB/s and MB/s are powers of 1000; KiB and MiB of 1024.",
    ),
    ("2 × depth, best buffers", "Change of the throughput with twice the depth, and with the best buffers."),
];

/// Terms of a served block device.
pub(crate) const SERVE: Glossary = &[
    (
        "access",
        "A request of a client: a read, write, flush, trim or hint. Refused requests are not counted.",
    ),
    ("response", "Time from the arrival of a request to the beginning of its reply."),
    (
        "lateness",
        "Time from the completion of a request by the simulated drive to its reply: the delay of the server, or the \
         additional time of the content.",
    ),
    (
        "accuracy",
        "Mean of actual over ideal time of the I/Os of exports and connections with a rate: 1 is exact, up to 1.1 is \
         good.",
    ),
];

/// Terms of a mount.
pub(crate) const MOUNT: Glossary = &[
    (
        "access",
        "A read, write or flush that the kernel requested from the mount. Accesses that the page cache \
         served are not counted.",
    ),
    ("response", "Time from the arrival of an access to its reply."),
    (
        "lateness",
        "Time from the completion of an access by the simulated drive to its reply: the delay of the mount, \
         or the additional time of the backing directory.",
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
        "Percentage of the device: an I/O should take 100/rate times its time on the device alone. Or a \
         time per I/O.",
    ),
    ("ideal", "Time that an I/O should take."),
    ("accuracy", "Mean of actual over ideal time of the last I/Os: 1 is exact, and up to 1.1 is good."),
    ("CoV", "Standard deviation of the I/O time over its mean: 0 is constant."),
    ("late", "I/Os that the device did not complete in time."),
];

/// Terms of programs in virtual time.
pub(crate) const PROGRAMS: Glossary = &[
    (
        "limit",
        "Maximum distance of the prefetcher from the program. `off`: no prefetching; `auto`: the prefetcher \
         adapts the distance.",
    ),
    (
        "waits",
        "Time in which the program is blocked, because data to read is not in memory, or too much written \
         data is dirty.",
    ),
    ("hidden", "Reads that proceeded while the program computed, wrote or paused."),
    (
        "wasted",
        "Data that was prefetched and evicted before the program reached it, so that it has to be read \
         again.",
    ),
];

/// Terms of regulated programs.
pub(crate) const REGULATED: Glossary = &[
    (
        "P, rate",
        "Requested rate in percent of the device: the I/Os of the program should take 100/P times their \
         time on the device alone.",
    ),
    (
        "ideal",
        "Time that an I/O should take at its rate. It depends on the device, not on the number of programs \
         that use it.",
    ),
    (
        "accuracy",
        "Mean of actual over ideal time. 1 is exact; up to 1.1 is good (section 6.2 of the thesis).",
    ),
    ("CoV", "Standard deviation of the I/O time over its mean: 0 is constant."),
    (
        "allowance",
        "Maximum number of requests in the device, so that an arriving regulated request completes in time.",
    ),
    (
        "formula, thesis, deadline",
        "Policies: the allowance of the formula alone (section 4.2); the allowance with the correction of \
         the thesis (5.3); deadlines instead of an allowance.",
    ),
];

/// Terms of jobs of tasks.
pub(crate) const JOBS: Glossary = &[
    ("part", "Size of the part of the file that one task processes."),
    ("mmap", "The file is mapped, and the thread that processes a part faults its pages in."),
    ("read", "One thread reads the whole file, which is processed afterwards."),
    ("blocked-any", "A task for each block of parts reads the block, on any compute thread."),
    (
        "blocked-io",
        "A task for each block of parts reads the block, on a dedicated thread of higher priority.",
    ),
];

/// Terms of streams.
pub(crate) const STREAM: Glossary = &[
    (
        "latency",
        "Time from the scheduled arrival of the latest input that contributed to a record until the \
         record's arrival at the sink. A source that is late does not shift the scheduled arrival, so its \
         delay is part of the latency.",
    ),
    ("p99", "99 % of the records took at most this long."),
    ("cache domain", "Cores that share a cache, between which a hop is cheap."),
    ("utilization", "Share of a core's time that its operators use."),
    (
        "watermark",
        "Event time before which no further record is expected. Windows close when it passes their end.",
    ),
    ("shed", "Records that were dropped and counted because the source was further behind than its limit."),
];

/// The words of a reproduction.
pub(crate) const REPRODUCE: Glossary = &[
    ("in virtual time", "Simulated. The same version gives the same bytes on any machine."),
    (
        "calibrated",
        "A parameter of the simulation was chosen so that it meets this published figure; the other figures \
         follow.",
    ),
    (
        "agree",
        "A simulated figure agrees with the published one if it is at most 10 % away, in the published range, or on the \
         published side of a bound.",
    ),
    ("range over seeds", "Minimum and maximum of the repetitions, each with its own random numbers."),
    (
        "here live",
        "Measured on this machine: the median of the runs. `range live` is their minimum and maximum.",
    ),
    (
        "what it means",
        "Whether the figure in virtual time is calibrated, as published, or near; else its relative deviation from the \
         published figure, or from the nearer end of a published range.",
    ),
    (
        "as simulated",
        "The live figure is not near the published one, but at most 10 % from that in virtual time, under the conditions of \
         the live experiment where these are not the paper's. A gain is compared by the ratio of times that it stands for.",
    ),
    ("of this machine", "Such as the speed of its storage: the live figure is held against nothing."),
];
