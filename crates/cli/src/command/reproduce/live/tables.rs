//! Ueda 2013: TPC-H query 1 by several I/O methods, and the phases of a sort-merge join, on this machine's storage.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use sakiyomi_io::{Access, EngineKind, EngineSpec};
use sakiyomi_query::generate::{ColumnTypes, GenerateOptions, TPCH_TABLES, generate_file};
use sakiyomi_query::join::{JoinKind, JoinMethod};
use sakiyomi_query::output::{OutputOptions, Target};
use sakiyomi_query::phase::Phase;
use sakiyomi_query::spill::{Level, SpillCompression};
use sakiyomi_query::statement::{self, Destination, Statement};
use sakiyomi_query::table::{Format, OpenOptions, Table};
use sakiyomi_query::{Job, JobOptions};
use sakiyomi_reproduce::{LiveTables, Metrics, shuffled};

use super::Measured;
use super::scratch::Scratch;
use crate::console::Common;
use crate::progress::go_on;
use crate::tables::run;

/// The I/O methods of figure 2 of the report, with their names in metrics.
const METHODS: [(&str, EngineKind, usize); 6] = [
    ("read", EngineKind::Read, 1),
    ("aio", EngineKind::Aio, 8),
    ("pread2", EngineKind::Pread, 2),
    ("pread4", EngineKind::Pread, 4),
    ("pread8", EngineKind::Pread, 8),
    ("pread16", EngineKind::Pread, 16),
];

/// Query 1 once by each method, with direct I/O. A method that fails, such as one that this kernel refuses, is left out
/// with the reason; if `read()` fails there is nothing to compare.
pub(super) fn query1(tables: LiveTables, scratch: &Scratch, common: &Common) -> Result<Measured> {
    scratch.on_storage()?;
    let files = Files::generate(tables, &["lineitem"], scratch)?;
    let mut measured = Measured::default();
    for (name, kind, depth) in shuffled(METHODS.to_vec(), tables.order_seed) {
        go_on()?;
        match files.run_query1(tables, EngineSpec { kind, depth }, common) {
            Ok(time) => {
                measured.metrics.insert(format!("{name}_s"), time);
            }
            Err(error) if name == "read" => return Err(error),
            Err(error) => measured.notes.push(left_out(name, &format!("{error:#}"))),
        }
    }
    Ok(measured)
}

/// A note on a method of query 1 that has no metric.
fn left_out(name: &str, reason: &str) -> String {
    format!("Left out: query 1 by {name}: {reason}.")
}

/// Returns notes on the methods for which an earlier run of this experiment saved no time.
pub(super) fn query1_left_out(metrics: &Metrics) -> Vec<String> {
    let missing = METHODS.iter().filter(|(name, ..)| !metrics.contains_key(&format!("{name}_s")));
    missing.map(|(name, ..)| left_out(name, "it failed in the run that is continued here")).collect()
}

/// A sort-merge join that has to spill. The metrics are the throughputs of its phases.
pub(super) fn join(tables: LiveTables, scratch: &Scratch, common: &Common) -> Result<Metrics> {
    scratch.on_storage()?;
    let files = Files::generate(tables, &["lineitem", "orders"], scratch)?;
    // As in the report: the bytes of a phase are those that the storage moves.
    let spill_compression = SpillCompression::Fixed(Level::None);
    let options = JobOptions { memory: tables.memory_bytes, spill_compression, ..files.options(tables) };
    let job = Job::new(options)?;
    let join = statement::Join {
        on: "l_orderkey=o_orderkey".to_owned(),
        kind: JoinKind::Inner,
        filter: None,
        select: None,
        method: Some(JoinMethod::Merge),
    };
    let [left, right] = ["lineitem", "orders"].map(|name| files.open(name, Access::Direct));
    let statement = Statement::Join(left?, right?, join);
    run(&job, common, move |job| statement.run(job, &preview(), None))?;
    let phases = job.phases().list();
    let names =
        [("read", "read_mb_per_s"), ("write runs", "write_mb_per_s"), ("read runs", "merge_mb_per_s")];
    let rates = names
        .into_iter()
        .filter_map(|(name, metric)| Some((metric.to_owned(), megabytes_per_s(&phases, name)?)));
    Ok(rates.collect())
}

/// Throughput of the phase of this name on both sides together; `None` if it has not moved any bytes.
fn megabytes_per_s(phases: &[Phase], name: &str) -> Option<f64> {
    let sides = [name.to_owned(), format!("{name} left"), format!("{name} right")];
    let own = phases.iter().filter(|phase| sides.contains(&phase.name));
    let (bytes, ns) = own.fold((0, 0), |(bytes, ns), phase| (bytes + phase.bytes, ns + phase.elapsed_ns));
    (bytes > 0 && ns > 0).then(|| bytes as f64 / ns as f64 * 1e3)
}

/// Columns of a table, of both queries: without comments, whose generation takes 300 MiB.
fn columns(table: &str) -> Vec<String> {
    let columns: &[&str] = match table {
        "lineitem" => &[
            "l_orderkey",
            "l_quantity",
            "l_extendedprice",
            "l_discount",
            "l_tax",
            "l_returnflag",
            "l_linestatus",
            "l_shipdate",
        ],
        _ => &["o_orderkey", "o_totalprice", "o_orderdate"],
    };
    columns.iter().map(|column| (*column).to_owned()).collect()
}

fn preview() -> Destination {
    Destination::Preview { rows_max: 1 }
}

/// Generated tables, removed on drop.
struct Files {
    directory: PathBuf,
}

impl Files {
    fn generate(tables: LiveTables, names: &[&str], scratch: &Scratch) -> Result<Files> {
        let files = Files { directory: scratch.path().join("tables") };
        fs::create_dir(&files.directory)
            .with_context(|| format!("cannot make {}", files.directory.display()))?;
        let job = Job::new(files.options(tables))?;
        for name in names {
            let table = TPCH_TABLES.into_iter().find(|table| table.name() == *name);
            let table = table.with_context(|| format!("TPC-H has no table {name}"))?;
            let (columns, types) = (columns(name), ColumnTypes::Compact);
            let options =
                GenerateOptions { table, scale: tables.scale, columns, shuffle: Some(tables.seed), types };
            let target = Target::File(files.path(name));
            let output = OutputOptions::new(Format::ArrowFile);
            let generated = generate_file(&job, &options, &target, &output, &mut |_| {
                if go_on().is_err() {
                    job.cancel();
                }
            });
            go_on()?;
            generated?;
        }
        Ok(files)
    }

    /// Returns the time of query 1 in seconds.
    fn run_query1(&self, tables: LiveTables, engine: EngineSpec, common: &Common) -> Result<f64> {
        let job = Job::new(JobOptions { engine, ..self.options(tables) })?;
        let (begun, statement) = (Instant::now(), Statement::Q1(self.open("lineitem", Access::Direct)?));
        run(&job, common, move |job| {
            statement.run(job, &preview(), None)?;
            Ok(begun.elapsed().as_secs_f64())
        })
    }

    /// Ample memory, and spill files beside the tables.
    fn options(&self, tables: LiveTables) -> JobOptions {
        let spill = vec![self.directory.clone()];
        JobOptions { block: tables.block_bytes, spill, ..JobOptions::default() }
    }

    fn open(&self, name: &str, access: Access) -> Result<Table> {
        Ok(Table::open(&[self.path(name)], &OpenOptions { access, ..OpenOptions::default() })?)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(Path::new(name).with_extension("arrow"))
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

#[cfg(test)]
mod tests {
    use sakiyomi_reproduce::LiveExperiment;

    use super::*;

    const TABLES: LiveTables =
        LiveTables { scale: 0.001, seed: 1, order_seed: 1, block_bytes: 1 << 20, memory_bytes: 48 << 20 };

    #[test]
    fn the_methods_are_those_of_the_experiment() {
        let names = METHODS.map(|(name, ..)| format!("{name}_s"));
        assert_eq!(names.as_slice(), LiveExperiment::Query1(TABLES).metrics());
    }

    #[test]
    fn a_run_that_is_continued_names_the_methods_that_it_lacks() {
        let mut metrics: Metrics = METHODS.map(|(name, ..)| (format!("{name}_s"), 1.0)).into();
        assert!(query1_left_out(&metrics).is_empty());
        metrics.remove("aio_s");
        let said = query1_left_out(&metrics);
        assert_eq!(said, ["Left out: query 1 by aio: it failed in the run that is continued here."]);
    }
}
