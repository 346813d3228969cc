//! The words for classes of commands, the same in text, charts and pages.

use sakiyomi_model::{Class, ReadClass, WriteClass};

use crate::result::{Kind, ReadCounts};

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
