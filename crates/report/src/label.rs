//! Names of the classes of commands, the same in text, charts and pages.

use sakiyomi_model::{Class, ReadClass, WriteClass};

/// Returns the class with the name `name` in logs and JSON.
pub(crate) fn class_named(name: &str) -> Option<Class> {
    Class::ALL.into_iter().find(|class| class.name() == name)
}

/// Returns the name of a read class.
pub(crate) fn read(class: ReadClass) -> &'static str {
    match class {
        ReadClass::FullHit => "full hit",
        ReadClass::ActiveHit => "active hit",
        ReadClass::NearMiss => "near miss",
        ReadClass::PurgedMiss => "purged miss",
        ReadClass::PureMiss => "pure miss",
    }
}

/// Returns the name of a command class.
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
