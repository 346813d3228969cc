//! The logs of a simulation, written as a stream.

use std::io;
use std::path::Path;

use anyhow::{Context, Result};
use clap::ValueEnum;
use sakiyomi_drive::Drive;
use sakiyomi_drive::log::{CacheEvent, DiskEvent, Event};
use sakiyomi_drive::observe::{Observation, Point};
use sakiyomi_model::{Breakdown, Class, Completion, Nanos, Outcome, ReadClass};
use sakiyomi_simulation::Log;
use sakiyomi_trace::op_name;
use sakiyomi_trace::table::{Column, Kind, TableFile, Value};

use crate::output::cannot_write;

/// Storage formats of logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Compressed columns, for DuckDB, Polars and pandas.
    Parquet,
    /// Comma-separated values.
    Csv,
}

/// Names of the logs.
const LOGS: [&str; 4] = ["commands", "cache", "disk", "chunks"];

impl LogFormat {
    fn ending(self) -> &'static str {
        match self {
            LogFormat::Parquet => "parquet",
            LogFormat::Csv => "csv",
        }
    }

    /// Returns the file names of the logs.
    pub(crate) fn files(self) -> impl Iterator<Item = String> {
        LOGS.into_iter().map(move |log| format!("{log}.{}", self.ending()))
    }
}

/// The command, cache and disk logs, and the chunks, written as a stream.
pub(crate) struct Logs {
    commands: TableFile,
    cache: TableFile,
    disk: TableFile,
    chunks: TableFile,
    events: Vec<Event>,
    points: Vec<Point>,
}

impl Logs {
    pub(crate) fn create(directory: &Path, format: LogFormat) -> Result<Logs> {
        let create = |name: &str, columns: Vec<Column>| {
            let path = directory.join(format!("{name}.{}", format.ending()));
            TableFile::create(&path, columns).with_context(|| cannot_write(&path))
        };
        let [commands, cache, disk, chunks] = LOGS;
        Ok(Logs {
            commands: create(commands, command_columns())?,
            cache: create(cache, cache_columns())?,
            disk: create(disk, disk_columns())?,
            chunks: create(chunks, chunk_columns())?,
            events: Vec::new(),
            points: Vec::new(),
        })
    }

    /// Commits the logs under their names.
    pub(crate) fn finish(self) -> Result<()> {
        [self.commands, self.cache, self.disk, self.chunks]
            .into_iter()
            .try_for_each(TableFile::finish)
            .context("cannot write the logs")
    }
}

impl Log for Logs {
    fn command(&mut self, completion: &Completion) -> io::Result<()> {
        let request = &completion.request;
        let part = |of: fn(&Breakdown) -> Nanos| {
            completion.detail.map_or(Value::Null, |detail| Value::U64(of(&detail.breakdown).0))
        };
        let outcome = match completion.outcome {
            Outcome::Done => "done",
            Outcome::Error => "error",
            Outcome::Cancelled => "cancelled",
        };
        self.commands.row(&[
            Value::U64(request.id.0),
            Value::U64(u64::from(request.stream.0)),
            Value::Text(op_name(request.op)),
            Value::Bool(request.fua),
            Value::U64(request.extent.start.0),
            Value::U64(request.extent.sectors.0),
            Value::U64(request.arrival.0),
            Value::U64(completion.submitted.0),
            Value::U64(completion.finish.0),
            Value::Text(outcome),
            completion.class().map_or(Value::Null, |class| Value::Text(class.name())),
            Value::U64(completion.response_time().0),
            part(|parts| parts.queue),
            part(|parts| parts.overhead),
            part(|parts| parts.seek),
            part(|parts| parts.rotation),
            part(|parts| parts.transfer),
        ])
    }

    fn drain(&mut self, drive: &mut Drive, observation: &mut Observation) -> io::Result<()> {
        drive.take_log(&mut self.events);
        for event in self.events.drain(..) {
            match event {
                Event::Cache(event) => cache_row(&mut self.cache, &event)?,
                Event::Disk(event) => disk_row(&mut self.disk, &event)?,
            }
        }
        observation.take_chunks(&mut self.points);
        self.points.drain(..).try_for_each(|point| chunk_row(&mut self.chunks, &point))
    }
}

fn numbers(names: &[&str]) -> Vec<Column> {
    names.iter().map(|name| Column::new(*name, Kind::U64)).collect()
}

fn command_columns() -> Vec<Column> {
    let mut columns = numbers(&["id", "stream"]);
    columns.extend([Column::new("op", Kind::Text), Column::new("fua", Kind::Bool)]);
    columns.extend(numbers(&["lba", "sectors", "arrival_ns", "submitted_ns", "finish_ns"]));
    columns.extend([Column::new("outcome", Kind::Text), Column::new("class", Kind::Text).nullable()]);
    columns.extend(numbers(&["response_ns"]));
    let parts = numbers(&["queue_ns", "overhead_ns", "seek_ns", "rotation_ns", "transfer_ns"]);
    columns.extend(parts.into_iter().map(Column::nullable));
    columns
}

fn cache_columns() -> Vec<Column> {
    let mut columns = numbers(&["time_ns"]);
    columns.push(Column::new("change", Kind::Text));
    columns.extend(numbers(&["lba", "sectors"]));
    columns
}

fn cache_row(table: &mut TableFile, event: &CacheEvent) -> io::Result<()> {
    table.row(&[
        Value::U64(event.time.0),
        Value::Text(event.change.name()),
        Value::U64(event.start.0),
        Value::U64(event.sectors.0),
    ])
}

fn disk_columns() -> Vec<Column> {
    let mut columns = numbers(&["start_ns", "seek_ns", "rotation_ns", "end_ns"]);
    columns.extend([Column::new("cause", Kind::Text), Column::new("command", Kind::U64).nullable()]);
    columns.extend(numbers(&["lba", "wanted_sectors", "ahead_sectors", "distance_cylinders"]));
    columns
}

fn disk_row(table: &mut TableFile, event: &DiskEvent) -> io::Result<()> {
    table.row(&[
        Value::U64(event.start.0),
        Value::U64(event.seek.0),
        Value::U64(event.rotation.0),
        Value::U64(event.end.0),
        Value::Text(event.cause.name()),
        event.request.map_or(Value::Null, |id| Value::U64(id.0)),
        Value::U64(event.lba.0),
        Value::U64(event.wanted.0),
        Value::U64(event.ahead.0),
        Value::U64(u64::from(event.distance)),
    ])
}

fn chunk_columns() -> Vec<Column> {
    numbers(&[
        "start_ns",
        "end_ns",
        "commands",
        "reads",
        "writes",
        "full_hits",
        "active_hits",
        "near_misses",
        "purged_misses",
        "pure_misses",
        "seeks_read",
        "seeks_read_near_miss",
        "seeks_write",
        "response_mean_ns",
        "response_p99_ns",
        "response_max_ns",
        "idle_ns",
        "read_seek_ns",
        "read_data_ns",
        "write_seek_ns",
        "write_data_ns",
        "backlog_max",
    ])
}

fn chunk_row(table: &mut TableFile, point: &Point) -> io::Result<()> {
    let (counts, usage) = (&point.counts, &point.usage);
    let reads = |class| counts.of(Class::Read(class));
    table.row(
        &[
            point.start.0,
            point.end.0,
            counts.commands,
            counts.reads(),
            counts.writes(),
            reads(ReadClass::FullHit),
            reads(ReadClass::ActiveHit),
            reads(ReadClass::NearMiss),
            reads(ReadClass::PurgedMiss),
            reads(ReadClass::PureMiss),
            usage.seeks.read,
            usage.seeks.read_near_miss,
            usage.seeks.write,
            point.response_mean().0,
            point.response_p99.0,
            point.response_max.0,
            usage.time.idle.0,
            usage.time.read_seek.0,
            usage.time.read_data.0,
            usage.time.write_seek.0,
            usage.time.write_data.0,
            point.backlog_max,
        ]
        .map(Value::U64),
    )
}
