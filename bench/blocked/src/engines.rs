//! The programs that are compared.

use std::fs::File;
use std::path::Path;

use anyhow::{Result, anyhow};
use clap::ValueEnum;
use memchr::memchr;
use rayon::prelude::*;
use sakiyomi_exec::read::blocked_read;

use crate::table::Table;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Engine {
    Fold,
    Reduce,
    Rayon,
    Std,
}

impl Engine {
    pub(crate) const ALL: [Engine; 4] = [Engine::Fold, Engine::Reduce, Engine::Rayon, Engine::Std];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Engine::Fold => "fold",
            Engine::Reduce => "reduce",
            Engine::Rayon => "rayon",
            Engine::Std => "std",
        }
    }

    pub(crate) fn about(self) -> &'static str {
        match self {
            Engine::Fold => "blocked read, a table per thread",
            Engine::Reduce => "blocked read, a table per piece",
            Engine::Rayon => "rayon on one mapping",
            Engine::Std => "a thread for each part of a mapping",
        }
    }

    pub(crate) fn run(self, file: &Path, threads: usize) -> Result<Table> {
        match self {
            Engine::Fold => fold(file, threads),
            Engine::Reduce => reduce(file, threads),
            Engine::Rayon => rayon_and_mmap(file, threads),
            Engine::Std => std_and_mmap(file, threads),
        }
    }
}

fn fold(file: &Path, threads: usize) -> Result<Table> {
    let add =
        |table: &mut Table, lines: sakiyomi_exec::read::Block<'_>| table.add_lines(&lines).map_err(text);
    Ok(blocked_read(file).threads(threads).records(b'\n').try_fold(Table::default, add, Table::merged)?.0)
}

fn reduce(file: &Path, threads: usize) -> Result<Table> {
    let count = |lines: sakiyomi_exec::read::Block<'_>| table_of(&lines).map_err(|error| error.to_string());
    let counted = blocked_read(file).threads(threads).records(b'\n').try_map(count);
    Ok(counted.reduce(Table::default(), Table::merged)?.0)
}

fn table_of(lines: &[u8]) -> Result<Table> {
    let mut table = Table::default();
    table.add_lines(lines).map_err(|line| anyhow!(text(line)))?;
    Ok(table)
}

fn text(line: &[u8]) -> String {
    format!("not a measurement: {}", String::from_utf8_lossy(&line[..line.len().min(80)]))
}

#[expect(unsafe_code, reason = "the other programs map the file themselves, which nothing changes meanwhile")]
fn map(file: &Path) -> Result<memmap2::Mmap> {
    // SAFETY: the file was made for the measurement, and nothing writes to it.
    Ok(unsafe { memmap2::Mmap::map(&File::open(file)?)? })
}

/// Bytes of a part: of the sizes from 128 KiB to 16 MiB, 1 and 4 MiB were the fastest.
const PART_BYTES: usize = 1 << 20;

/// Divides lines into parts of about this many bytes.
fn parts(mut lines: &[u8], size: usize) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    while !lines.is_empty() {
        let end =
            memchr(b'\n', lines.get(size..).unwrap_or_default()).map_or(lines.len(), |at| size + at + 1);
        let (part, rest) = lines.split_at(end);
        parts.push(part);
        lines = rest;
    }
    parts
}

fn rayon_and_mmap(file: &Path, threads: usize) -> Result<Table> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    let mapping = map(file)?;
    let add = |mut table: Table, part: &[u8]| {
        table.add_lines(part).map_err(|line| anyhow!(text(line)))?;
        Ok(table)
    };
    let merge = |first: Table, next: Table| Ok(first.merged(next));
    let parts = parts(&mapping, PART_BYTES).into_par_iter();
    pool.install(|| parts.try_fold(Table::default, add).try_reduce(Table::default, merge))
}

fn std_and_mmap(file: &Path, threads: usize) -> Result<Table> {
    let mapping = map(file)?;
    let tables = std::thread::scope(|scope| {
        let parts = parts(&mapping, mapping.len().div_ceil(threads));
        let threads: Vec<_> = parts.into_iter().map(|part| scope.spawn(move || table_of(part))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a kernel does not panic")).collect::<Vec<_>>()
    });
    tables.into_iter().try_fold(Table::default(), |all, table| Ok(all.merged(table?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_engines_have_the_same_stations() {
        let file = std::env::temp_dir().join(format!("sakiyomi-brc-{}", std::process::id()));
        crate::rows::write(&file, 100_000).unwrap();
        let found = Engine::ALL.map(|engine| engine.run(&file, 2).map(|table| table.to_string()));
        std::fs::remove_file(&file).unwrap();
        let [first, others @ ..] = found.map(Result::unwrap);
        assert!(first.matches('=').count() > 300, "{first}");
        assert!(others.iter().all(|other| *other == first));
    }
}
