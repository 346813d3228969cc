//! The words for classes of commands, the same in text, charts and pages.

use sakiyomi_model::{Class, ReadClass, WriteClass};

use crate::schema::ReadCounts;

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
