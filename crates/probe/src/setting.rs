//! One way to read or write a file.

use std::fmt;
use std::str::FromStr;

use sakiyomi_io::engine::DEPTH_MAX;
use sakiyomi_io::{Access, EngineKind, EngineSpec, Memory};

/// Operations that are measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// Reads.
    #[default]
    Read,
    /// Writes over bytes that the file already has.
    Write,
    /// Both, in an order determined by the seed.
    Mix {
        /// Percentage of operations that are reads, 1 to 99.
        reads_percent: u8,
    },
}

impl Operation {
    /// Returns whether some of them are writes.
    #[must_use]
    pub fn writes(self) -> bool {
        self != Operation::Read
    }
}

/// Writes the name as on the command line: `read`, `write`, `mix:70`.
impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operation::Read => f.write_str("read"),
            Operation::Write => f.write_str("write"),
            Operation::Mix { reads_percent } => write!(f, "mix:{reads_percent}"),
        }
    }
}

/// The reason why a text does not name operations.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` does not name operations; there are read, write and mix:N with N % reads, 1 to 99")]
pub struct ParseOperationError(String);

impl FromStr for Operation {
    type Err = ParseOperationError;

    fn from_str(text: &str) -> Result<Operation, ParseOperationError> {
        let refused = || ParseOperationError(text.to_owned());
        match text {
            "read" => Ok(Operation::Read),
            "write" => Ok(Operation::Write),
            "mix" => Ok(Operation::Mix { reads_percent: 50 }),
            _ => {
                let percent = text.strip_prefix("mix:").and_then(|text| text.parse().ok());
                let reads_percent =
                    percent.filter(|percent| (1..100).contains(percent)).ok_or_else(refused)?;
                Ok(Operation::Mix { reads_percent })
            }
        }
    }
}

/// How the page cache is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheState {
    /// Bypassed (`O_DIRECT`).
    Direct,
    /// Used, and initially without pages of the file.
    Cold,
    /// Used, with all pages of the file.
    Cached,
}

impl CacheState {
    /// Returns `direct`, `cold` or `cached`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            CacheState::Direct => "direct",
            CacheState::Cold => "cold",
            CacheState::Cached => "cached",
        }
    }

    pub(crate) fn access(self) -> Access {
        if self == CacheState::Direct { Access::Direct } else { Access::Buffered }
    }
}

/// The memory of the operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Buffers {
    /// Pages of the ordinary size.
    Ordinary,
    /// Ordinary pages, registered with the kernel if the engine can do that.
    Registered,
    /// Huge pages if the machine grants them.
    Huge,
    /// Huge pages, registered.
    HugeRegistered,
}

impl Buffers {
    pub(crate) fn memory(self) -> Memory {
        if matches!(self, Buffers::Ordinary | Buffers::Registered) { Memory::Ordinary } else { Memory::Huge }
    }

    pub(crate) fn registered(self) -> bool {
        matches!(self, Buffers::Registered | Buffers::HugeRegistered)
    }

    /// Returns the buffers that an engine supports: registered only if it can register them.
    #[must_use]
    pub fn for_engine(self, kind: EngineKind) -> Buffers {
        match self {
            _ if kind.can_register() => self,
            Buffers::Registered => Buffers::Ordinary,
            Buffers::HugeRegistered => Buffers::Huge,
            other => other,
        }
    }
}

/// An engine, a block size, and the other parameters of reading or writing a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Setting {
    /// The engine and its depth.
    pub engine: EngineSpec,
    /// Reads, writes or both.
    pub op: Operation,
    /// Bytes of an operation.
    pub block: usize,
    /// How the page cache is used.
    pub cache: CacheState,
    /// Whether blocks are accessed at random instead of one after the other.
    pub random: bool,
    /// The memory of the operations.
    pub buffers: Buffers,
}

impl Setting {
    /// Returns the setting with twice the depth; `None` at the maximum. One thread becomes two.
    #[must_use]
    pub fn doubled(self) -> Option<Setting> {
        let kind = match self.engine.kind {
            EngineKind::Null => return None,
            EngineKind::Read => EngineKind::Pread,
            kind => kind,
        };
        let depth = 2 * self.engine.depth;
        (depth <= DEPTH_MAX).then_some(Setting { engine: EngineSpec { kind, depth }, ..self })
    }

    /// Returns the setting with the best memory; `None` if it already has that, or brings its own.
    #[must_use]
    pub fn with_best_buffers(self) -> Option<Setting> {
        let kind = self.engine.kind;
        let buffers = Buffers::HugeRegistered.for_engine(kind);
        let better = kind.uses_buffers() && kind != EngineKind::Null && buffers != self.buffers;
        better.then_some(Setting { buffers, ..self })
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} with {} bytes", self.op, self.engine, self.block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_read_as_they_are_written() {
        for text in ["read", "write", "mix:1", "mix:70", "mix:99"] {
            assert_eq!(text.parse::<Operation>().unwrap().to_string(), text);
        }
        assert_eq!("mix".parse::<Operation>().unwrap(), Operation::Mix { reads_percent: 50 });
        for text in ["", "reads", "mix:", "mix:0", "mix:100", "mix:-1", "mix:300", "write:5"] {
            assert!(text.parse::<Operation>().unwrap_err().to_string().contains(text));
        }
    }
}
