//! The words for classes of commands, the same in text, charts and pages.

use sakiyomi_model::{Class, ReadClass, WriteClass};

use crate::number;
use crate::schema::{Kind, ReadCounts, RequestError};

/// The class that is called `name` in logs and JSON.
pub(crate) fn class_named(name: &str) -> Option<Class> {
    Class::ALL.into_iter().find(|class| class.name() == name)
}

/// What a read of this class is called.
pub(crate) fn read(class: ReadClass) -> &'static str {
    match class {
        ReadClass::FullHit => "full hit",
        ReadClass::ActiveHit => "active hit",
        ReadClass::NearMiss => "near miss",
        ReadClass::PurgedMiss => "purged miss",
        ReadClass::PureMiss => "pure miss",
    }
}

/// What a command of this class is called.
pub(crate) fn class(class: Class) -> &'static str {
    match class {
        Class::Read(class) => read(class),
        Class::Write(WriteClass::Absorbed) => "write, absorbed",
        Class::Write(WriteClass::Media) => "write to the medium",
        Class::Flush => "flush",
        Class::Discard => "discard",
        Class::Refused => "refused",
    }
}

/// How many reads of a class there were.
pub(crate) fn reads_of(counts: &ReadCounts, class: ReadClass) -> u64 {
    match class {
        ReadClass::FullHit => counts.full_hits,
        ReadClass::ActiveHit => counts.active_hits,
        ReadClass::NearMiss => counts.near_misses,
        ReadClass::PurgedMiss => counts.purged_misses,
        ReadClass::PureMiss => counts.pure_misses,
    }
}

/// What requests of a kind are called in a validation.
pub(crate) fn request_kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Reads => "reads",
        Kind::Writes => "writes",
        Kind::Hits => "read hits",
        Kind::Misses => "read misses",
    }
}

/// A correlation with three decimals, or a dash where there is none.
pub(crate) fn correlation(correlation: Option<f64>) -> String {
    match correlation.filter(|value| value.is_finite()) {
        Some(value) => format!("{:.3}", value.clamp(-1.0, 1.0)).replace('-', "−"),
        None => number::NONE.to_owned(),
    }
}

/// `a`, `a and b`, `a, b and c`.
pub(crate) fn list(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [only] => only.clone(),
        [others @ .., last] => format!("{} and {last}", others.join(", ")),
    }
}

/// A row of errors of single requests: how many, measured and simulated mean, bias, median, mean, 90th percentile and
/// correlation.
pub(crate) fn request_errors(
    requests: u64,
    (measured, simulated): (u64, u64),
    error: &RequestError,
    of: Option<f64>,
) -> [String; 8] {
    [
        number::count(requests),
        number::duration(measured),
        number::duration(simulated),
        number::signed_duration(error.bias),
        number::duration(error.median),
        number::duration(error.mean),
        number::duration(error.p90),
        correlation(of),
    ]
}

/// A word and its meaning, for the end of a page.
pub(crate) const GLOSSARY: [(&str, &str); 13] = [
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

/// The words of a validation.
pub(crate) const VALIDATION_GLOSSARY: [(&str, &str); 7] = [
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

/// What the words on the page of a run mean.
pub(crate) const RUN_GLOSSARY: [(&str, &str); 5] = [
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

/// The words of a probe.
pub(crate) const PROBE_GLOSSARY: [(&str, &str); 10] = [
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
];
