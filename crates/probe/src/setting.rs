//! One way to read a file.

use std::fmt;

use sakiyomi_io::engine::DEPTH_MAX;
use sakiyomi_io::{Access, EngineKind, EngineSpec, Memory, Pattern, ReadOptions};

/// How the page cache is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Path {
    /// Around it (`O_DIRECT`).
    Direct,
    /// Through it, and it holds nothing of the file at first.
    Cold,
    /// Through it, and it holds all of the file.
    Cached,
}

/// The memory to read into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Buffers {
    /// Pages of the ordinary size.
    Ordinary,
    /// Ordinary pages that the kernel knows beforehand, where the method can tell it.
    Registered,
    /// Huge pages where the machine grants them.
    Huge,
    /// Both: the best there is.
    HugeRegistered,
}

impl Buffers {
    fn memory(self) -> Memory {
        if matches!(self, Buffers::Ordinary | Buffers::Registered) { Memory::Ordinary } else { Memory::Huge }
    }

    fn registered(self) -> bool {
        matches!(self, Buffers::Registered | Buffers::HugeRegistered)
    }

    /// What this comes to for a method: one that cannot register buffers does not.
    #[must_use]
    pub fn for_method(self, kind: EngineKind) -> Buffers {
        match self {
            _ if kind.can_register() => self,
            Buffers::Registered => Buffers::Ordinary,
            Buffers::HugeRegistered => Buffers::Huge,
            other => other,
        }
    }
}

/// A method, a block size, and all else that decides how a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Setting {
    /// The method and its depth.
    pub method: EngineSpec,
    /// Bytes of a request.
    pub block: usize,
    /// Around or through the page cache.
    pub path: Path,
    /// At random places instead of one block after the other.
    pub random: bool,
    /// The memory to read into.
    pub buffers: Buffers,
}

impl Setting {
    /// The same with twice as much in flight; none if it cannot be more. One thread becomes two.
    #[must_use]
    pub fn doubled(self) -> Option<Setting> {
        let kind = match self.method.kind {
            EngineKind::Null => return None,
            EngineKind::Read => EngineKind::Pread,
            kind => kind,
        };
        let depth = 2 * self.method.depth;
        (depth <= DEPTH_MAX).then_some(Setting { method: EngineSpec { kind, depth }, ..self })
    }

    /// The same with the best memory; none if it already has that, or brings its own.
    #[must_use]
    pub fn with_best_buffers(self) -> Option<Setting> {
        let kind = self.method.kind;
        let buffers = Buffers::HugeRegistered.for_method(kind);
        let better = kind.uses_buffers() && kind != EngineKind::Null && buffers != self.buffers;
        better.then_some(Setting { buffers, ..self })
    }

    /// As the stream wants it.
    #[must_use]
    pub fn options(&self, seed: u64) -> ReadOptions {
        ReadOptions {
            engine: self.method,
            access: if self.path == Path::Direct { Access::Direct } else { Access::Buffered },
            block: self.block,
            memory: self.buffers.memory(),
            register: self.buffers.registered(),
            order: sakiyomi_io::Order::Arrival,
            pattern: if self.random { Pattern::Random { seed } } else { Pattern::Sequential },
            range: None,
            // What was read once is in the cache.
            endless: self.path != Path::Cold,
            hold: 1,
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with {} bytes", self.method, self.block)
    }
}
