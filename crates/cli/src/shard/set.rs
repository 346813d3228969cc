//! The shards of one run, in their order.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use sakiyomi_report::Machine;

use super::file::{Header, ShardReader};
use super::{Definition, Effort, Shard};
use crate::progress;

/// Files of all shards of one run, checked to be that.
pub(crate) struct ShardSet {
    /// In the order of the shards.
    files: Vec<(Shard, PathBuf)>,
    header: Header,
}

impl ShardSet {
    /// Returns the shards at `paths`: files, and directories, of which all shards are meant. `parts` are those of the
    /// definitions of all commands.
    ///
    /// # Errors
    /// If a file cannot be read or is not a shard, they are of different runs, or one is missing or there twice.
    pub(crate) fn open(paths: &[PathBuf], parts: &[(&str, &str)]) -> Result<ShardSet> {
        let mut files = Vec::new();
        let mut first: Option<(PathBuf, Header)> = None;
        for path in files_of(paths)? {
            progress::go_on()?;
            let header = ShardReader::open(&path)?.header;
            files.push((header.shard, path.clone()));
            match &first {
                None => first = Some((path, header)),
                Some((one, of_one)) => same_run((one, of_one), (&path, &header), parts)?,
            }
        }
        let (_, header) = first.context("there is no shard to merge")?;
        let built = env!("SAKIYOMI_VERSION");
        ensure!(
            header.version == built,
            "{} is from sakiyomi {}, and this is {built}; merge with the version that made the shards",
            files[0].1.display(),
            header.version
        );
        files.sort();
        all_once(&files, header.shard.count)?;
        Ok(ShardSet { files, header })
    }

    /// Returns the command that made the shards.
    pub(crate) fn command(&self) -> &str {
        &self.header.command
    }

    /// Returns the definition of the run, all its points in their order, and what they took.
    ///
    /// # Errors
    /// If a file cannot be read, has been cut off or damaged.
    pub(crate) fn read<D: Definition>(self) -> Result<(D, Vec<D::Point>, Effort)> {
        let definition = serde_json::from_value(self.header.definition.clone());
        let definition = definition.with_context(|| {
            format!("{}: its definition is not one of `{}`", self.files[0].1.display(), D::COMMAND)
        })?;
        let (mut points, mut effort) = (Vec::new(), None);
        for (shard, path) in &self.files {
            progress::go_on()?;
            let reader = ShardReader::open(path)?;
            ensure!(
                reader.header == Header { shard: *shard, ..self.header.clone() },
                "{} has changed while it was merged; merge again",
                path.display()
            );
            let of_shard = reader.read::<D>(&mut points)?;
            effort = Some(effort.map_or(of_shard.clone(), |so_far: Effort| so_far.with(&of_shard)));
        }
        Ok((definition, points, effort.unwrap_or_default()))
    }
}

impl Effort {
    /// Returns the effort of two parts of a run.
    fn with(self, other: &Effort) -> Effort {
        Effort {
            wall_ns: self.wall_ns.saturating_add(other.wall_ns),
            commands: self.commands.saturating_add(other.commands),
            simulated: self.simulated.saturating_add(other.simulated),
            machine: if self.machine == other.machine { self.machine } else { Machine::default() },
        }
    }
}

/// Returns the files at `paths`, those of a directory in the order of their names.
fn files_of(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let cannot_list = || format!("cannot list {}", path.display());
        let entries = fs::read_dir(path).with_context(cannot_list)?;
        let mut shards: Vec<PathBuf> =
            entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>().with_context(cannot_list)?;
        shards.retain(|file| has_name_of_shard(file));
        ensure!(
            !shards.is_empty(),
            "{} has no shards; name the directory that was given to --out with --shard",
            path.display()
        );
        shards.sort();
        files.append(&mut shards);
    }
    Ok(files)
}

fn has_name_of_shard(file: &Path) -> bool {
    let name = file.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    name.starts_with("shard-") && name.ends_with(".jsonl")
}

/// Checks that two shards are of one run.
fn same_run(a: (&Path, &Header), b: (&Path, &Header), parts: &[(&str, &str)]) -> Result<()> {
    let ((a_path, a), (b_path, b)) = (a, b);
    let differ = if a.command != b.command {
        format!("one is of `{}`, the other of `{}`", a.command, b.command)
    } else if a.version != b.version {
        format!("they were made by sakiyomi {} and {}", a.version, b.version)
    } else if a.shard.count != b.shard.count {
        format!("one is of {} shards, the other of {}", a.shard.count, b.shard.count)
    } else if (&a.definition, a.points) != (&b.definition, b.points) {
        let part = parts.iter().find(|(key, _)| a.definition[key] != b.definition[key]);
        format!("they differ in {}", part.map_or("their definition", |(_, part)| part))
    } else {
        return Ok(());
    };
    bail!("{} and {} are shards of different runs: {differ}", a_path.display(), b_path.display())
}

/// Numbers of missing shards that an error names.
const MISSING_NAMED_MAX: usize = 8;

/// Checks that each of `count` shards is there, and once.
fn all_once(files: &[(Shard, PathBuf)], count: u32) -> Result<()> {
    if let Some([(shard, a), (_, b)]) = files.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        bail!(
            "{} and {} are both shard {} of {count}; leave one out",
            a.display(),
            b.display(),
            shard.number
        );
    }
    let mut there = files.iter().map(|(shard, _)| shard.number).peekable();
    let missing: Vec<u32> = (1..=count).filter(|number| there.next_if_eq(number).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let named: Vec<String> = missing.iter().take(MISSING_NAMED_MAX).map(|n| format!("{n}/{count}")).collect();
    let more = missing.len() - named.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let (last, is) = (&files[files.len() - 1].1, if missing.len() == 1 { "is" } else { "are" });
    bail!(
        "shard {}{more} {is} missing beside {}; run the missing shards with --shard, or name their files",
        named.join(", "),
        last.display()
    )
}
