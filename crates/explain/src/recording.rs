//! A recording: the threads of a program over time, and the files that they use. Names and ranges, never contents.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use sakiyomi_model::Nanos;
use serde::{Deserialize, Serialize};

/// Identifies the format of a saved recording.
pub const RECORDING_SCHEMA: &str = "sakiyomi.recording/1";

/// The threads of a program and its descendants over time. Times count from the begin of the recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// [`RECORDING_SCHEMA`].
    pub schema: String,
    /// The command and its arguments, or the recorded process.
    pub program: Vec<String>,
    /// Duration.
    #[serde(with = "nanos")]
    pub elapsed_ns: Nanos,
    /// How it was recorded.
    pub method: Method,
    /// Sentences about what is missing from it.
    pub notes: Vec<String>,
    /// The machine.
    pub machine: RecordedMachine,
    /// The storage on which the program waited longest, measured after the recording.
    pub storage: Option<MeasuredStorage>,
    /// The files, by [`FileIndex`].
    pub files: Vec<RecordedFile>,
    /// The threads, by [`ThreadIndex`]; the first one is that whose end is the end of the program.
    pub threads: Vec<RecordedThread>,
}

/// The machine of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedMachine {
    /// Cores that the program may use.
    pub cores: u32,
    /// Memory that was available for the page cache at the begin.
    pub memory_bytes: u64,
}

/// Storage, measured by reading a part of a file again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasuredStorage {
    /// The file system's device.
    pub device: u64,
    /// Time of a small read at another place.
    #[serde(with = "nanos")]
    pub latency_ns: Nanos,
    /// Such reads that it serves at a time.
    pub parallel: u32,
    /// Rate of many large reads at a time.
    pub bandwidth_bytes_per_s: u64,
    /// The kernel's read-ahead on it; `None` if it is not reported.
    pub read_ahead_bytes: Option<u64>,
    /// CPU time of a small read that waits beyond that of one that does not: to request it, and to go on after it.
    #[serde(with = "nanos", default)]
    pub wait_cpu_ns: Nanos,
}

/// How a recording was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// By the kernel's tracepoints, which report every event.
    Traced,
    /// By periodic samples of `/proc`, without root.
    Sampled,
}

/// Index of a file of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FileIndex(pub usize);

/// Index of a thread of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ThreadIndex(pub usize);

/// A file that was read, mapped or written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedFile {
    /// The file system's device.
    pub device: u64,
    /// The inode number.
    pub inode: u64,
    /// Its path; `None` if it was closed before its name could be read.
    pub name: Option<String>,
    /// Size at the end of the recording, if it still existed.
    pub size_bytes: Option<u64>,
    /// Whether the program has announced sequential reads (`POSIX_FADV_SEQUENTIAL`).
    #[serde(default)]
    pub is_sequential: bool,
}

/// A thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedThread {
    /// The kernel's thread ID.
    pub id: u32,
    /// Name (`comm`) at its end.
    pub name: String,
    /// Its start.
    #[serde(with = "nanos")]
    pub begun_ns: Nanos,
    /// The thread that started it, if that is recorded too.
    pub parent: Option<ThreadIndex>,
    /// Its activity from its start to its end, without gaps and in order.
    pub spans: Vec<Span>,
    /// Its accesses to files, in order.
    pub accesses: Vec<FileAccess>,
}

/// A time in which a thread did the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// Start.
    #[serde(with = "nanos")]
    pub begun_ns: Nanos,
    /// End, which is later than the start.
    #[serde(with = "nanos")]
    pub ended_ns: Nanos,
    /// The activity.
    pub state: ThreadState,
}

/// The activity of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThreadState {
    /// It runs on a core.
    Computing,
    /// It could run, and all cores that it may use are occupied.
    AwaitingCore,
    /// It sleeps.
    Waiting {
        /// The reason.
        wait: Wait,
        /// The recorded thread that woke it; `None` for interrupts and other programs.
        woken_by: Option<ThreadIndex>,
    },
}

/// The reason for which a thread sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wait {
    /// It reads a file.
    Read {
        /// The file.
        file: FileIndex,
        /// Position in relation to the thread's previous read of the file.
        pattern: Pattern,
    },
    /// It accesses a page of a mapped file.
    Mapping {
        /// The file.
        file: FileIndex,
    },
    /// It opens, looks up, lists, creates, renames, removes or closes files.
    Metadata,
    /// It waits until written data is on storage (`fsync`).
    Sync {
        /// The file, if it is known.
        file: Option<FileIndex>,
    },
    /// It writes to a file.
    Write {
        /// The file, if it is known.
        file: Option<FileIndex>,
    },
    /// It is slowed down by the kernel because too much written data is not yet on storage.
    WriteBack,
    /// It waits for asynchronous I/O (`io_uring`, `io_getevents`).
    AsynchronousIo,
    /// It waits for another thread, a process, a pipe, a lock or a signal.
    Others,
    /// It waits for a time that it asked for.
    Timer,
    /// It waits for another thread, for a limited time, which ended.
    Timeout,
    /// It waits for a socket.
    Socket,
    /// It is not known for what.
    Unknown,
}

impl Wait {
    /// Returns the file that it concerns, if it is known.
    #[must_use]
    pub fn file(self) -> Option<FileIndex> {
        match self {
            Wait::Read { file, .. } | Wait::Mapping { file } => Some(file),
            Wait::Sync { file } | Wait::Write { file } => file,
            _ => None,
        }
    }
}

/// The position of a read in relation to the previous one of the same thread in the same file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// It continues there, or begins at the start of the file.
    Sequential,
    /// It is elsewhere.
    Scattered,
}

/// Consecutive accesses of a thread to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileAccess {
    /// Time of the first one.
    #[serde(with = "nanos")]
    pub begun_ns: Nanos,
    /// Time of the last one.
    #[serde(with = "nanos")]
    pub ended_ns: Nanos,
    /// The kind.
    pub kind: AccessKind,
    /// The file; `None` if it is not known.
    pub file: Option<FileIndex>,
    /// Position of the first byte; whole pages for reads and mappings.
    pub offset: u64,
    /// Number of bytes; 0 for metadata.
    pub length: u64,
    /// Number of system calls or page faults.
    pub calls: u64,
    /// Bytes that were not in the page cache and were loaded for it, read-ahead included.
    pub loaded_bytes: u64,
}

/// Times as numbers of nanoseconds, which `Nanos` by itself writes as text.
mod nanos {
    use sakiyomi_model::Nanos;
    use serde::{Deserialize, Deserializer, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(super) fn serialize<S: Serializer>(time: &Nanos, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(time.0)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Nanos, D::Error> {
        u64::deserialize(deserializer).map(Nanos)
    }
}

/// The kind of an access to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccessKind {
    /// Reads through the page cache.
    Read,
    /// Reads past the page cache, as far as they waited.
    DirectRead,
    /// Accesses to a mapping.
    Mapping,
    /// Writes.
    Write,
    /// Opens, look-ups, listings and changes of names.
    Metadata,
    /// Waits for written data to be on storage.
    Sync,
}

impl Recording {
    /// Returns the file system whose files the threads waited for longest; `None` if they did not wait for files.
    #[must_use]
    pub fn slowest_device(&self) -> Option<u64> {
        let mut waits: BTreeMap<u64, Nanos> = BTreeMap::new();
        for span in self.threads.iter().flat_map(|thread| &thread.spans) {
            let ThreadState::Waiting { wait, .. } = span.state else { continue };
            if let Some(file) = wait.file().and_then(|file| self.files.get(file.0)) {
                *waits.entry(file.device).or_default() += span.ended_ns.saturating_sub(span.begun_ns);
            }
        }
        waits.into_iter().max_by_key(|&(_, wait)| wait).map(|(device, _)| device)
    }

    /// Returns the file system whose files the threads waited for longest, or else of which they used most bytes;
    /// `None` if they used no files.
    #[must_use]
    pub fn main_device(&self) -> Option<u64> {
        let mut used: BTreeMap<u64, u64> = BTreeMap::new();
        for access in self.threads.iter().flat_map(|thread| &thread.accesses) {
            if let Some(file) = access.file.and_then(|file| self.files.get(file.0)) {
                *used.entry(file.device).or_default() += access.length;
            }
        }
        let most = used.into_iter().max_by_key(|&(_, bytes)| bytes).map(|(device, _)| device);
        self.slowest_device().or(most)
    }

    /// Returns whether one thread loads the small files, one directory after the other: then their order can be predicted.
    #[must_use]
    pub fn traverses_directories(&self) -> bool {
        /// Size from which on a file is not small.
        const SMALL_FILE_END_BYTES: u64 = 1 << 20;
        /// Small files from which on a thread counts.
        const FILES_MIN: usize = 8;
        /// Least share of files that are in the same directory as the one before.
        const SAME_DIRECTORY_RATIO: f64 = 0.75;
        let small = |file: FileIndex| {
            let file = self.files.get(file.0)?;
            file.size_bytes.is_none_or(|size| size < SMALL_FILE_END_BYTES).then_some(file)
        };
        let directories_of = |thread: &RecordedThread| {
            let loaded = thread.accesses.iter().filter(|access| access.loaded_bytes > 0);
            let mut seen = BTreeSet::new();
            let first = loaded.filter_map(|access| access.file).filter(|&file| seen.insert(file));
            let directory = |file: &RecordedFile| Path::new(file.name.as_ref()?).parent().map(Path::to_owned);
            first.filter_map(small).map(directory).collect::<Vec<_>>()
        };
        let mut threads = self.threads.iter().map(directories_of).filter(|files| files.len() >= FILES_MIN);
        let (Some(files), None) = (threads.next(), threads.next()) else { return false };
        let same = files.windows(2).filter(|pair| pair[0].is_some() && pair[0] == pair[1]).count();
        same as f64 >= SAME_DIRECTORY_RATIO * (files.len() - 1) as f64
    }

    /// Checks that indices and times of a loaded recording are consistent.
    ///
    /// # Errors
    /// The problem, as a clause.
    pub fn check(&self) -> Result<(), String> {
        let has_file = |file: Option<FileIndex>| file.is_none_or(|file| file.0 < self.files.len());
        let has_thread =
            |thread: Option<ThreadIndex>| thread.is_none_or(|thread| thread.0 < self.threads.len());
        for (index, thread) in self.threads.iter().enumerate() {
            let mut at = thread.begun_ns;
            if thread.parent.is_some_and(|parent| parent.0 >= index) {
                return Err(format!("thread {index} begins before its parent"));
            }
            for span in &thread.spans {
                if span.begun_ns != at || span.ended_ns <= span.begun_ns || span.ended_ns > self.elapsed_ns {
                    return Err(format!("the spans of thread {index} are not in order"));
                }
                at = span.ended_ns;
                if let ThreadState::Waiting { wait, woken_by } = span.state
                    && !(has_file(wait.file()) && has_thread(woken_by))
                {
                    return Err(format!("a span of thread {index} names a file or thread that is missing"));
                }
            }
            if !thread.accesses.iter().all(|access| has_file(access.file)) {
                return Err(format!("an access of thread {index} names a file that is missing"));
            }
            if !thread.accesses.is_sorted_by_key(|access| access.begun_ns) {
                return Err(format!("the accesses of thread {index} are not in order"));
            }
        }
        Ok(())
    }

    /// Returns the name of a file, or its inode number if its name is not known.
    #[must_use]
    pub fn file_name(&self, file: FileIndex) -> String {
        self.files.get(file.0).map_or_else(String::new, RecordedFile::display_name)
    }
}

impl AccessKind {
    /// Returns whether it transfers bytes of a file.
    #[must_use]
    pub fn has_data(self) -> bool {
        !matches!(self, AccessKind::Metadata | AccessKind::Sync)
    }
}

impl RecordedFile {
    /// Returns the name, or the inode number if the name is not known.
    #[must_use]
    pub fn display_name(&self) -> String {
        self.name.clone().unwrap_or_else(|| format!("inode {}", self.inode))
    }
}

impl RecordedThread {
    /// Returns the end of its last span.
    #[must_use]
    pub fn ended(&self) -> Nanos {
        self.spans.last().map_or(self.begun_ns, |span| span.ended_ns)
    }
}
