//! The content of an input, as far as shards of one run must agree on it.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::console::Common;
use crate::progress::Progress;

/// Length and checksum of a file's bytes: enough to notice that shards had different inputs by mistake.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Content {
    bytes: u64,
    crc32: u32,
}

/// Bytes read at a time for a checksum.
const READ_BYTES: usize = 1 << 18;

impl Content {
    /// Reads the file.
    ///
    /// # Errors
    /// If it is not a regular file or cannot be read, and [`Interrupted`](crate::progress::Interrupted).
    pub(crate) fn of(path: &Path, common: &Common) -> Result<Content> {
        let cannot_read = || format!("cannot read {}", path.display());
        let metadata = fs::metadata(path).with_context(cannot_read)?;
        ensure!(
            metadata.is_file(),
            "--shard: {} is not a regular file, so that shards may read different content; give a file",
            path.display()
        );
        let mut file = File::open(path).with_context(cannot_read)?;
        let mut progress = Progress::new(Some(metadata.len()), common.quiet);
        let (mut crc, mut bytes, mut block) = (crc32fast::Hasher::new(), 0, vec![0; READ_BYTES]);
        loop {
            let read = match file.read(&mut block) {
                Ok(0) => return Ok(Content { bytes, crc32: crc.finalize() }),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => 0,
                read => read.with_context(cannot_read)?,
            };
            crc.update(&block[..read]);
            bytes += read as u64;
            progress.set(bytes, || "checksum of the trace".to_owned())?;
        }
    }
}
