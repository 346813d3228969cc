//! Local files as an object store whose reads are sakiyomi's.
//!
//! The ranges of a call are one batch on an engine: those near each other are read at once, the others at the same time.
//! Whole files and long ranges are streams with blocks read ahead, but for Arrow IPC, whose reader wants a file. All else (listing, writing, conditions) is done by
//! [`LocalFileSystem`], which this store wraps: errors, and what `ETag`s mean, are the same.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use datafusion::execution::context::SessionContext;
use datafusion::execution::runtime_env::RuntimeEnv;
use futures::StreamExt;
use futures::future::try_join_all;
use futures::stream::BoxStream;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    CopyOptions, GetOptions, GetResult, GetResultPayload, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};
use sakiyomi_io::background::BackgroundIo;
use sakiyomi_io::{Access, EngineKind, EngineSpec, Error, IoFile};

use crate::blocks::{BlockOptions, BlockReader};

/// Name in errors.
const NAME: &str = "sakiyomi";

/// Options of a store.
#[derive(Clone, Copy, Debug)]
pub struct StoreOptions {
    /// The engine.
    pub engine: EngineSpec,
    /// Through the page cache or around it.
    pub access: Access,
    /// Bytes of buffers that are used again; more are taken where a batch needs more.
    pub memory: usize,
    /// Bytes of a block of a stream.
    pub block: usize,
    /// Blocks that are read ahead of the reader of a stream.
    pub ahead: usize,
    /// Ranges are read at once if no more than this lies between them, in bytes.
    pub gap: u64,
}

/// Some row groups of a query's files.
const DEFAULT_MEMORY_BYTES: usize = 32 << 20;
/// Size at which direct transfers are fastest on most devices.
const DEFAULT_BLOCK_BYTES: usize = 1 << 20;
/// Enough to keep a device busy while a block is parsed.
const DEFAULT_AHEAD: usize = 4;
/// Gap that most devices read faster than they serve another request.
const DEFAULT_GAP_BYTES: u64 = 64 << 10;
/// Maximum bytes of a read of several ranges: larger ones are faster apart, at the same time.
const JOINED_MAX_BYTES: u64 = 4 << 20;

impl Default for StoreOptions {
    /// `pread` on threads, through the page cache; 32 MiB; blocks of 1 MiB, 4 ahead; gaps of 64 KiB are read over.
    fn default() -> StoreOptions {
        StoreOptions {
            engine: EngineSpec::usual(EngineKind::Pread),
            access: Access::Buffered,
            memory: DEFAULT_MEMORY_BYTES,
            block: DEFAULT_BLOCK_BYTES,
            ahead: DEFAULT_AHEAD,
            gap: DEFAULT_GAP_BYTES,
        }
    }
}

/// Local files below a directory, or all.
#[derive(Debug)]
pub struct LocalStore {
    files: LocalFileSystem,
    reader: Arc<Reader>,
}

impl LocalStore {
    /// Wraps a store of local files.
    ///
    /// # Errors
    /// If the engine is not available.
    pub fn new(files: LocalFileSystem, options: StoreOptions) -> std::result::Result<LocalStore, Error> {
        LocalStore::over(files, BackgroundIo::open(options.engine)?, options)
    }

    /// Over any engine, such as one with faults; ignores the engine of the options.
    ///
    /// # Errors
    /// None at present.
    pub fn over(
        files: LocalFileSystem,
        io: BackgroundIo,
        options: StoreOptions,
    ) -> std::result::Result<LocalStore, Error> {
        let blocks = BlockOptions { memory: options.memory, block: options.block, ahead: options.ahead };
        Ok(LocalStore { files, reader: Arc::new(Reader { blocks: BlockReader::over(io, blocks)?, options }) })
    }

    /// Makes a session read `file://` and `sakiyomi://` by a store of all local files.
    ///
    /// # Errors
    /// If the engine is not available.
    pub fn register(context: &SessionContext, options: StoreOptions) -> std::result::Result<(), Error> {
        LocalStore::register_in(&context.runtime_env(), options)
    }

    /// Like [`LocalStore::register`], for all sessions of a runtime.
    ///
    /// # Errors
    /// If the engine is not available.
    pub fn register_in(runtime: &RuntimeEnv, options: StoreOptions) -> std::result::Result<(), Error> {
        let store = Arc::new(LocalStore::new(LocalFileSystem::new(), options)?);
        for url in ["file:///", "sakiyomi:///"] {
            let url = url.parse().expect("a URL");
            runtime.register_object_store(&url, Arc::clone(&store) as _);
        }
        Ok(())
    }

    /// Opens a file on a thread that may wait; `None` if it cannot be opened, of which the wrapped store has the error.
    async fn open(&self, location: &Path) -> Result<Option<Arc<IoFile>>> {
        let path: PathBuf = self.files.path_to_filesystem(location)?;
        let access = self.reader.options.access;
        let open = move || match IoFile::open(&path, access) {
            Err(Error::NoDirect { .. }) => IoFile::open(&path, Access::Buffered).ok(),
            other => other.ok(),
        };
        let opened = match tokio::runtime::Handle::try_current() {
            Ok(runtime) => runtime.spawn_blocking(open).await?,
            Err(_) => open(),
        };
        Ok(opened.map(Arc::new))
    }
}

/// The engine and the options of a store.
#[derive(Debug)]
struct Reader {
    blocks: BlockReader,
    options: StoreOptions,
}

impl Reader {
    /// Reads a range, which the file has.
    async fn read(&self, file: &Arc<IoFile>, range: Range<u64>) -> Result<Bytes> {
        let mut read = self.blocks.read(file, std::slice::from_ref(&range)).map_err(generic)?;
        let only = read.pop().expect("one read for one range");
        only.await.map_err(generic)
    }

    /// Reads ranges in one batch.
    async fn read_all(&self, file: &Arc<IoFile>, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let joined = joined(ranges, self.options.gap);
        let reads = self.blocks.read(file, &joined).map_err(generic)?;
        let read: Vec<Bytes> = try_join_all(reads).await.map_err(generic)?;
        let part = |range: &Range<u64>| {
            if range.is_empty() {
                return Bytes::new();
            }
            let index = joined.partition_point(|joined| joined.start <= range.start) - 1;
            let start = (range.start - joined[index].start) as usize;
            read[index].slice(start..start + (range.end - range.start) as usize)
        };
        Ok(ranges.iter().map(part).collect())
    }
}

/// Ranges to read, ascending, so that each wanted range lies in the last one that does not begin after it.
fn joined(ranges: &[Range<u64>], gap: u64) -> Vec<Range<u64>> {
    let mut wanted: Vec<Range<u64>> = ranges.iter().filter(|range| !range.is_empty()).cloned().collect();
    wanted.sort_by_key(|range| (range.start, range.end));
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in wanted {
        match joined.last_mut() {
            // Overlapping ranges are read once.
            Some(last)
                if range.start < last.end
                    || range.start - last.end <= gap && range.end - last.start <= JOINED_MAX_BYTES =>
            {
                last.end = last.end.max(range.end);
            }
            _ => joined.push(range),
        }
    }
    joined
}

fn generic(error: Error) -> object_store::Error {
    object_store::Error::Generic { store: NAME, source: Box::new(error) }
}

/// Returns whether DataFusion reads a file as Arrow IPC. It does not find the schema of such a file in a stream if
/// its first message is aligned to 64 bytes, as `arrow-ipc` writes it, and otherwise collects the stream in memory.
fn is_arrow(location: &Path) -> bool {
    matches!(location.extension(), Some("arrow" | "ipc" | "feather"))
}

impl fmt::Display for LocalStore {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{NAME}({})", self.files)
    }
}

#[async_trait]
impl ObjectStore for LocalStore {
    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let is_head = options.head;
        let found = self.files.get_opts(location, options).await?;
        if is_head || found.range.is_empty() || is_arrow(location) {
            return Ok(found);
        }
        let file = match self.open(location).await? {
            // Another file of that name, or one that is not regular, is read as it was opened.
            Some(file) if file.size() == found.meta.size => file,
            _ => return Ok(found),
        };
        let blocks = self.reader.blocks.stream(&file, found.range.clone());
        Ok(GetResult {
            payload: GetResultPayload::Stream(blocks.map(|block| block.map_err(generic)).boxed()),
            ..found
        })
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        match self.open(location).await? {
            Some(file) if ranges.iter().all(|range| range.start <= range.end && range.end <= file.size()) => {
                match ranges {
                    [one] if !one.is_empty() => Ok(vec![self.reader.read(&file, one.clone()).await?]),
                    _ => self.reader.read_all(&file, ranges).await,
                }
            }
            _ => self.files.get_ranges(location, ranges).await,
        }
    }

    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        self.files.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.files.put_multipart_opts(location, options).await
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        self.files.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.files.list(prefix)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.files.list_with_offset(prefix, offset)
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.files.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.files.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        self.files.rename_opts(from, to, options).await
    }
}
