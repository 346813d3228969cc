//! The file of a shard: JSON lines. The first says of which run it is, the following have a point each, the last but one
//! has what they took, and the last one a checksum of all bytes before it.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Definition, Effort, Shard};
use crate::output::{OutFile, Overwrite};

/// Schema of the first line.
const SCHEMA: &str = "sakiyomi.shard/1";
/// Longest line, so that a file of something else is not read into memory: 100,000 values of varied keys, or the
/// distances over time of a point, take less.
const LINE_MAX_BYTES: u64 = 1 << 26;

/// The first line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) schema: String,
    pub(super) command: String,
    /// The build of sakiyomi: another one may have other figures.
    pub(super) version: String,
    #[serde(flatten)]
    pub(super) shard: Shard,
    /// Points of all shards.
    pub(super) points: usize,
    pub(super) definition: Value,
}

/// The last line.
#[derive(Serialize, Deserialize)]
struct Checksum {
    crc32: u32,
}

/// A shard's file that is being made; it appears whole, or not at all.
pub(super) struct ShardFile {
    path: PathBuf,
    file: OutFile,
}

impl ShardFile {
    /// Begins the file at `path`, in a directory that is made if it is not there and stays: other shards may use it.
    pub(super) fn create(path: &Path, overwrite: Overwrite) -> Result<ShardFile> {
        let directory = path.parent().context("the file of a shard lies in a directory")?;
        ensure!(
            !directory.is_file(),
            "{} is a file, and --out needs a directory; name another",
            directory.display()
        );
        overwrite.allows(path)?;
        fs::create_dir_all(directory)
            .with_context(|| format!("cannot create the directory {}", directory.display()))?;
        Ok(ShardFile { path: path.to_owned(), file: OutFile::create(path)? })
    }

    pub(super) fn write<D: Definition>(
        self,
        definition: &D,
        shard: Shard,
        points: usize,
        computed: &[D::Point],
        effort: &Effort,
    ) -> Result<PathBuf> {
        let header = Header {
            schema: SCHEMA.to_owned(),
            command: D::COMMAND.to_owned(),
            version: env!("SAKIYOMI_VERSION").to_owned(),
            shard,
            points,
            definition: serde_json::to_value(definition)?,
        };
        self.file.write_by(|file| {
            let mut lines = Summed { inner: BufWriter::new(file), crc: crc32fast::Hasher::new() };
            lines.line(&header)?;
            computed.iter().try_for_each(|point| lines.line(point))?;
            lines.line(effort)?;
            let checksum = Checksum { crc32: lines.crc.clone().finalize() };
            lines.line(&checksum)?;
            lines.flush()
        })?;
        Ok(self.path)
    }
}

/// Sums what is written.
struct Summed<W> {
    inner: W,
    crc: crc32fast::Hasher,
}

impl<W: Write> Summed<W> {
    fn line(&mut self, value: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut *self, value)?;
        self.write_all(b"\n")
    }
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.crc.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// A shard's file that is read.
pub(super) struct ShardReader {
    path: PathBuf,
    lines: BufReader<File>,
    crc: crc32fast::Hasher,
    pub(super) header: Header,
}

impl ShardReader {
    /// Opens a file and reads its first line.
    ///
    /// # Errors
    /// If it cannot be read, is not of a shard, or of another version's.
    pub(super) fn open(path: &Path) -> Result<ShardReader> {
        let name = path.display();
        let file = File::open(path).with_context(|| format!("cannot read {name}"))?;
        let (mut lines, mut crc) = (BufReader::new(file), crc32fast::Hasher::new());
        let line = next_line(&mut lines, &mut crc).with_context(|| format!("cannot read {name}"))?;
        let header: Option<Header> = line.and_then(|line| serde_json::from_slice(&line).ok());
        let header = header.filter(|header| header.schema == SCHEMA).with_context(|| {
            format!("{name} is not a shard of a run; name files that --shard has written, or their directory")
        })?;
        Ok(ShardReader { path: path.to_owned(), lines, crc, header })
    }

    /// Reads all points to the end of `points`.
    ///
    /// # Errors
    /// If the file cannot be read, has been cut off or damaged.
    pub(super) fn read<D: Definition>(mut self, points: &mut Vec<D::Point>) -> Result<Effort> {
        let Shard { number, count } = self.header.shard;
        let again = format!("run --shard {number}/{count} again");
        let name = self.path.display().to_string();
        let expected = self.header.shard.range(self.header.points).len();
        for read in 0..expected {
            let line = self.line()?;
            let line =
                line.with_context(|| format!("{name} ends after {read} of {expected} points; {again}"))?;
            let point = serde_json::from_slice(&line)
                .map_err(|_| anyhow!("{name}:{}: this is not a point of the run; {again}", read + 2))?;
            points.push(point);
        }
        let effort: Option<Effort> = self.line()?.and_then(|line| serde_json::from_slice(&line).ok());
        let crc32 = self.crc.clone().finalize();
        let checksum: Option<Checksum> = self.line()?.and_then(|line| serde_json::from_slice(&line).ok());
        let (Some(effort), Some(checksum)) = (effort, checksum) else {
            bail!("{name} ends before its checksum; {again}");
        };
        ensure!(
            checksum.crc32 == crc32 && self.lines.fill_buf()?.is_empty(),
            "{name} has been changed since it was written; {again}"
        );
        Ok(effort)
    }

    fn line(&mut self) -> Result<Option<Vec<u8>>> {
        next_line(&mut self.lines, &mut self.crc)
            .with_context(|| format!("cannot read {}", self.path.display()))
    }
}

/// The next line with its end; `None` at the end of the file, of a line without an end, and of one that is too long.
fn next_line(lines: &mut impl BufRead, crc: &mut crc32fast::Hasher) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    lines.take(LINE_MAX_BYTES).read_until(b'\n', &mut line)?;
    crc.update(&line);
    Ok(line.ends_with(b"\n").then_some(line))
}
