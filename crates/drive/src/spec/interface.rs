//! The way to the host, and what processing a command takes: `interface.*`.

use sakiyomi_model::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// The way to the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct InterfaceSpec {
    /// Link rate, in bytes a second.
    pub link_rate: Bytes,
    /// The same from the host to the drive, where it differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_rate_write: Option<Bytes>,
    /// Data goes to the host while the rest is still coming from the medium.
    pub overlap: bool,
    /// With `overlap`: the share of what a read waits for that must have come from the medium before it goes to the
    /// host, 0 to 1.
    pub read_watermark: f64,
    /// Of a partial hit, the cached part goes to the host at once.
    pub immediate_partial: bool,
    /// Command processing, by kind.
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

/// Command processing before anything else happens, by kind of command and of the command before.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OverheadSpec {
    /// A read found in the cache.
    pub read_hit: Overhead,
    /// A read that needs the medium.
    pub read_miss: Overhead,
    /// A write taken into the cache.
    pub write_hit: Overhead,
    /// A write that goes to the medium: until the arm may set out.
    pub write_miss: Overhead,
    /// The same, until its data is asked for, where that is not when the arm may set out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_data: Option<Overhead>,
    /// Flush and discard.
    pub control: Overhead,
    /// Until the link is taken again for data that a read had to wait for.
    pub reconnect: Nanos,
    /// After the last byte, of any command.
    pub completion: Nanos,
    /// The same of a write that went to the medium, where it differs.
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

/// One duration, or several by the command before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Overhead {
    /// The same after any command.
    Same(Nanos),
    /// By the command before.
    After {
        /// After a read.
        after_read: Nanos,
        /// After a write.
        after_write: Nanos,
        /// Where the command goes on where the one before it, of the same kind, ended; by default no exception.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        in_sequence: Option<Nanos>,
    },
}

/// The keys of an overhead that depends on the command before.
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

/// Distinguishes a duration from a table by the type of the value, so that a fault in the table names its key.
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

/// The command before another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Before {
    /// It was a write.
    pub write: bool,
    /// It was of the same kind, and ended where the other one begins.
    pub continued: bool,
}

impl Overhead {
    /// The overhead after a command like that.
    #[must_use]
    pub fn after(self, before: Before) -> Nanos {
        match self {
            Overhead::Same(time) => time,
            Overhead::After { in_sequence: Some(time), .. } if before.continued => time,
            Overhead::After { after_write, .. } if before.write => after_write,
            Overhead::After { after_read, .. } => after_read,
        }
    }
}
