//! Runs of many points, divided into shards: contiguous blocks of their list of points, each a file.
//!
//! A point is a pure function of the run's definition, so that shards may run anywhere and in any order. The file of a
//! shard has the whole definition; `sakiyomi merge` joins the shards of one definition, and then does what a single run
//! does once it has all points. What differs from run to run, elapsed times among it, is apart from the points.

mod content;
mod file;
mod set;

use std::ops::Range;
use std::path::Path;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use sakiyomi_model::Nanos;
use sakiyomi_report::{Document, Machine, Run};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::console::Common;
use crate::output::Overwrite;
use crate::provenance::{build, simulation_run};
pub(crate) use content::Content;
use file::ShardFile;
pub(crate) use set::ShardSet;

/// All that the points of a run depend on: equal definitions have equal points.
pub(crate) trait Definition: Serialize + DeserializeOwned {
    /// The figures of one point, without those that compare it with others.
    type Point: Serialize + DeserializeOwned;
    /// The command, as it is typed.
    const COMMAND: &'static str;
    /// The keys of the definition, each with what it is in a sentence on shards that differ in it.
    const PARTS: &'static [(&'static str, &'static str)];
}

/// Which part of a run: the `number`-th of `count`, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Shard {
    number: u32,
    count: u32,
}

/// More shards than the points of the largest run are a mistake.
const SHARDS_MAX: u32 = 100_000;

impl Shard {
    /// Returns the block of this shard of `points` points. The blocks of all shards are all points in their order,
    /// and differ by one point in length.
    fn range(self, points: usize) -> Range<usize> {
        let end_of = |number: u32| (points as u128 * u128::from(number) / u128::from(self.count)) as usize;
        end_of(self.number - 1)..end_of(self.number)
    }

    /// Returns the name of its file: those of a run have the order of their shards.
    fn file_name(self) -> String {
        let digits = self.count.to_string().len();
        format!("shard-{:0digits$}-of-{}.jsonl", self.number, self.count)
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let numbers = text.split_once('/').and_then(|(number, count)| {
            Some(Shard { number: number.parse().ok()?, count: count.parse().ok()? })
        });
        let is_one = |shard: &Shard| (1..=shard.count).contains(&shard.number) && shard.count <= SHARDS_MAX;
        numbers.filter(is_one).ok_or_else(|| {
            format!("write it like 2/4, the second of four shards, of which there are {SHARDS_MAX} at most")
        })
    }
}

/// Options of commands whose runs have many points.
#[derive(Clone, Debug, Args)]
pub(crate) struct PointsArgs {
    /// Run the I-th of N blocks of the points, and write it to a file in DIR for `sakiyomi merge`
    #[arg(long, value_name = "I/N", requires = "out")]
    pub(crate) shard: Option<Shard>,
    #[command(flatten)]
    pub(crate) reproducible: Reproducible,
}

/// Whether a result has the circumstances of its run.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Reproducible {
    /// Leave the command line, the machine and elapsed times out of the result: same input, same bytes
    #[arg(long)]
    reproducible: bool,
}

/// Cost of computing the points, which is not part of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Effort {
    /// Elapsed time.
    pub(crate) wall_ns: u64,
    /// Commands that were simulated.
    pub(crate) commands: u64,
    /// Simulated time.
    pub(crate) simulated: Nanos,
    /// The machine; unknown if there were several.
    pub(crate) machine: Machine,
}

impl Reproducible {
    /// Returns the circumstances of a result whose points took `effort`.
    pub(crate) fn run(self, effort: &Effort) -> Run {
        if self.reproducible {
            return build();
        }
        let run = simulation_run(Duration::from_nanos(effort.wall_ns), effort.commands, effort.simulated);
        Run {
            machine: effort.machine.clone(),
            commands_per_s: run.commands_per_s.filter(|_| effort.commands > 0),
            ..run
        }
    }
}

/// Summary of a shard that was written: the result of its command.
#[derive(Debug, Serialize)]
struct ShardSummary {
    #[serde(flatten)]
    shard: Shard,
    first_point: usize,
    points: usize,
    points_of_all: usize,
    file: String,
}

/// Computes one shard of a run of `points` points, and writes it to a file in `out`.
///
/// # Errors
/// Returns the errors of `compute`; an error if the file cannot be written, or one of another program would be overwritten.
pub(crate) fn run_shard<D: Definition>(
    shard: Shard,
    definition: &D,
    points: usize,
    (out, overwrite): (Option<&Path>, Overwrite),
    (reproducible, common): (Reproducible, &Common),
    compute: impl FnOnce(Range<usize>) -> Result<(Vec<D::Point>, Effort)>,
) -> Result<ExitCode> {
    let out = out.context("--shard I/N writes a file; name its directory with --out DIR")?;
    let file = ShardFile::create(&out.join(shard.file_name()), overwrite)?;
    let range = shard.range(points);
    let (computed, effort) = compute(range.clone())?;
    debug_assert_eq!(computed.len(), range.len(), "a shard has a point for each of its numbers");
    let path = file.write(definition, shard, points, &computed, &effort)?;
    let summary = ShardSummary {
        shard,
        first_point: range.start,
        points: range.len(),
        points_of_all: points,
        file: path.display().to_string(),
    };
    let run = reproducible.run(&effort);
    let document = Document { schema: "sakiyomi.shard-summary/1".to_owned(), run, result: summary };
    common.emit(&document, |_| document.result.describe())?;
    Ok(ExitCode::SUCCESS)
}

impl ShardSummary {
    fn describe(&self) -> String {
        let Shard { number, count } = self.shard;
        format!("shard {number} of {count}: {} of {} points, {}", self.points, self.points_of_all, self.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_blocks_of_all_shards_are_all_points_in_their_order() {
        for points in [0, 1, 2, 3, 7, 100, 1000, 99_999] {
            for count in [1, 2, 3, 4, 7, 64, 1000, 1001] {
                let ranges = (1..=count).map(|number| Shard { number, count }.range(points));
                let (mut end, mut lengths) = (0, Vec::new());
                for range in ranges {
                    assert_eq!(range.start, end);
                    end = range.end;
                    lengths.push(range.len());
                }
                assert_eq!(end, points);
                assert!(lengths.iter().max().unwrap() - lengths.iter().min().unwrap() <= 1, "{lengths:?}");
            }
        }
    }

    #[test]
    fn a_shard_is_a_number_from_1_on_and_a_count() {
        assert_eq!("2/4".parse(), Ok(Shard { number: 2, count: 4 }));
        assert_eq!("100000/100000".parse(), Ok(Shard { number: 100_000, count: 100_000 }));
        for text in ["", "/", "2", "0/4", "5/4", "1/0", "-1/4", "1/4/2", "1/100001", "a/b"] {
            assert!(text.parse::<Shard>().unwrap_err().starts_with("write it like 2/4"), "{text}");
        }
        let names = [9, 10].map(|number| Shard { number, count: 12 }.file_name());
        assert_eq!(names, ["shard-09-of-12.jsonl", "shard-10-of-12.jsonl"]);
    }
}
