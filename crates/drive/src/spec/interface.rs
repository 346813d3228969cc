//! Link and command processing parameters (`interface.*`).

use sakiyomi_model::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// Link to the host, and command processing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct InterfaceSpec {
    /// Link rate, in bytes per second.
    pub link_rate: Bytes,
    /// Link rate from the host to the drive, if different.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_rate_write: Option<Bytes>,
    /// Transfers data to the host while the rest is still read from the medium.
    pub overlap: bool,
    /// With `overlap`: share of a read's missing sectors that must have come from the medium before the transfer to the
    /// host begins, 0 to 1.
    pub read_watermark: f64,
    /// Sends the cached part of a partial hit to the host at once.
    pub immediate_partial: bool,
    /// Command processing times.
    pub overhead: OverheadSpec,
}

impl Default for InterfaceSpec {
    fn default() -> InterfaceSpec {
        InterfaceSpec {
            link_rate: Bytes(150_000_000),
            link_rate_write: None,
            overlap: true,
            read_watermark: 0.0,
            immediate_partial: true,
            overhead: OverheadSpec::default(),
        }
    }
}

/// Command processing times, by kind of command and of the previous command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OverheadSpec {
    /// Read found in the cache.
    pub read_hit: Overhead,
    /// Read from the medium.
    pub read_miss: Overhead,
    /// Write into the cache.
    pub write_hit: Overhead,
    /// Write to the medium: time until the arm may move.
    pub write_miss: Overhead,
    /// Write to the medium: time until its data is requested, if different from `write_miss`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_data: Option<Overhead>,
    /// Flush and discard.
    pub control: Overhead,
    /// Time to reacquire the link for data that a read waited for.
    pub reconnect: Nanos,
    /// Time after the last byte of any command.
    pub completion: Nanos,
    /// Time after the end of a write to the medium, if different from `completion`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completion_write: Option<Nanos>,
}

impl Default for OverheadSpec {
    fn default() -> OverheadSpec {
        OverheadSpec {
            read_hit: Overhead::Same(Nanos(50_000)),
            read_miss: Overhead::Same(Nanos(100_000)),
            write_hit: Overhead::Same(Nanos(50_000)),
            write_miss: Overhead::Same(Nanos(100_000)),
            write_data: None,
            control: Overhead::Same(Nanos(50_000)),
            reconnect: Nanos::ZERO,
            completion: Nanos::ZERO,
            completion_write: None,
        }
    }
}

/// A processing time, or several depending on the previous command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Overhead {
    /// Independent of the previous command.
    Same(Nanos),
    /// Depending on the previous command.
    After {
        /// After a read.
        after_read: Nanos,
        /// After a write.
        after_write: Nanos,
        /// After a command of the same kind that ended where this one begins; by default no exception.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        in_sequence: Option<Nanos>,
    },
}

/// Keys of an overhead that depends on the previous command.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AfterTable {
    after_read: Nanos,
    after_write: Nanos,
    #[serde(default)]
    in_sequence: Option<Nanos>,
}

impl<'de> Deserialize<'de> for Overhead {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Overhead, D::Error> {
        deserializer.deserialize_any(OverheadVisitor)
    }
}

/// Distinguishes a duration from a table by the type of the value, so that an error in the table names its key.
struct OverheadVisitor;

impl<'de> serde::de::Visitor<'de> for OverheadVisitor {
    type Value = Overhead;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a duration such as \"0.3ms\", or { after_read = \"0.3ms\", after_write = \"0.5ms\" }")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Overhead, E> {
        text.parse().map(Overhead::Same).map_err(E::custom)
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Overhead, E> {
        let zero = (number == 0).then_some(Overhead::Same(Nanos::ZERO));
        zero.ok_or_else(|| E::invalid_type(serde::de::Unexpected::Signed(number), &self))
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, table: A) -> Result<Overhead, A::Error> {
        let table = AfterTable::deserialize(serde::de::value::MapAccessDeserializer::new(table))?;
        let AfterTable { after_read, after_write, in_sequence } = table;
        Ok(Overhead::After { after_read, after_write, in_sequence })
    }
}

/// The previous command, seen from the current one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PreviousCommand {
    /// It was a write.
    pub write: bool,
    /// It was of the same kind, and ended where the current one begins.
    pub continued: bool,
}

impl Overhead {
    /// Returns the overhead after the given command.
    #[must_use]
    pub fn after(self, before: PreviousCommand) -> Nanos {
        match self {
            Overhead::Same(time) => time,
            Overhead::After { in_sequence: Some(time), .. } if before.continued => time,
            Overhead::After { after_write, .. } if before.write => after_write,
            Overhead::After { after_read, .. } => after_read,
        }
    }
}
