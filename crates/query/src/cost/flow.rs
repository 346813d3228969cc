//! Flows of bytes between memory and the files of a role.

/// The files of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A table, by its index.
    Input(usize),
    /// Spilled rows.
    Spill,
    /// The result.
    Output,
}

/// Whether a flow reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

/// Bytes that a stage transfers in one role.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Flow {
    pub(crate) role: Role,
    pub(crate) direction: Direction,
    /// Whether the access is random.
    pub(crate) random: bool,
    pub(crate) bytes: f64,
    /// Units of work whose transfers are in flight besides those that the threads compute; `None` if the transfers in
    /// flight are limited by the engine only, as those of tables and results.
    pub(crate) ahead: Option<usize>,
}

impl Flow {
    /// Returns a sequential read.
    pub(crate) fn read(role: Role, bytes: f64) -> Flow {
        Flow { role, direction: Direction::Read, random: false, bytes, ahead: None }
    }

    /// Returns a random read.
    pub(crate) fn read_randomly(role: Role, bytes: f64) -> Flow {
        Flow { random: true, ..Flow::read(role, bytes) }
    }

    /// Returns the flow, with threads that wait for all but `ahead` units of their work.
    pub(crate) fn ahead(self, ahead: usize) -> Flow {
        Flow { ahead: Some(ahead), ..self }
    }

    /// Returns a sequential write.
    pub(crate) fn write(role: Role, bytes: f64) -> Flow {
        Flow { role, direction: Direction::Write, random: false, bytes, ahead: None }
    }
}
