//! `whatif`: the elapsed time of a recorded program with other storage, memory, read-ahead or prefetching.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use sakiyomi_explain::record::measure_place;
use sakiyomi_explain::{Change, Prefetching, Present, Storage};
use sakiyomi_model::{Bytes, Nanos};
use sakiyomi_report::Document;
use sakiyomi_report::result::{ExplainPrediction, WhatifResult};

use super::explain::document::prefetching_name;
use super::explain::{document, load};
use crate::console::Common;
use crate::drive_file::drive_spec;
use crate::output::Overwrite;
use crate::provenance;

pub(crate) const EXAMPLES: &str = "Examples:
  sakiyomi whatif job.rec --run
  sakiyomi whatif job.rec --drive deskstar-7k250 --drive fixed:latency=1ms,parallel=64
  sakiyomi whatif job.rec --memory 4GiB --read-ahead 1MiB
  sakiyomi whatif job.rec --on /mnt/ssd
";

/// Predict the elapsed time of a recorded program on other storage, with other memory, or with prefetching
#[derive(Debug, Args)]
#[command(
    after_help = "The recorded program is replayed in virtual time: it computes as long, and uses its files in the \
    same order and sizes. Each --drive, --on, --memory and --read-ahead may be given several times, and all combinations \
    are predicted. Threads that race for work keep the division of work that was recorded."
)]
pub(crate) struct Whatif {
    /// A recording of `sakiyomi explain --save`
    recording: PathBuf,
    /// Storage: a built-in drive (`sakiyomi drive list`), a TOML file, a .diskspecs or .parv file of DiskSim, or
    /// fixed:latency=TIME,parallel=N,bandwidth=SIZE/s,spread=SHARE,size=SIZE [default: as recorded]
    #[arg(long, value_name = "NAME|FILE|fixed:…")]
    drive: Vec<String>,
    /// Storage that is here: a directory, where 16 MiB are written and read, or a file of 1 MiB and more that is read
    #[arg(long, value_name = "PATH")]
    on: Vec<PathBuf>,
    /// Memory for the page cache [default: as recorded]
    #[arg(long, value_name = "SIZE")]
    memory: Vec<Bytes>,
    /// The kernel's read-ahead [default: as recorded]
    #[arg(long, value_name = "SIZE")]
    read_ahead: Vec<Bytes>,
    /// Time of an open, look-up or listing that waits [default: in proportion to the latency of the storage]
    #[arg(long, value_name = "TIME")]
    metadata: Option<Nanos>,
    /// Predict each combination with prefetching by `sakiyomi run` as well, at first and as it has learned from a run before
    #[arg(long)]
    run: bool,
    /// Write result.json, report.html, report.md and the charts to this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    overwrite: Overwrite,
}

impl Whatif {
    pub(crate) fn run(&self, common: &Common) -> Result<()> {
        let out = self.overwrite.out(self.out.as_deref(), &[])?;
        let begun = Instant::now();
        let least = Present::MEMORY_MIN;
        if let Some(memory) = self.memory.iter().find(|&&memory| memory < least) {
            bail!(
                "--memory {memory}: a page cache of less than {least} is not simulated; give {least} or more"
            );
        }
        let recording = load(&self.recording)?;
        let changes = self.changes(common)?;
        ensure!(
            !changes.is_empty(),
            "nothing is different; give --drive, --on, --memory, --read-ahead or --run"
        );
        let present = Present::fit(&recording)
            .with_context(|| format!("cannot predict from {}", self.recording.display()))?;
        let mut predictions = Vec::new();
        for (change, name) in changes {
            let predicted = present.predict(&change)?;
            predictions.push(ExplainPrediction {
                change: name,
                predicted_ns: predicted.elapsed.0,
                low_ns: predicted.low.0,
                high_ns: predicted.high.0,
                ..ExplainPrediction::default()
            });
        }
        let result = WhatifResult {
            program: recording.program.clone(),
            elapsed_ns: recording.elapsed_ns.0,
            storage: document::storage(&present),
            predictions,
            notes: recording.notes.clone(),
        };
        let document = Document::new(provenance::run(begun.elapsed()), result);
        if let Some(out) = &out {
            out.write_report(&document)?;
            common.note(&out.report());
        }
        common.present(&document)
    }

    /// Returns all combinations, each with its name.
    fn changes(&self, common: &Common) -> Result<Vec<(Change, String)>> {
        let mut storages = Vec::new();
        for name in &self.drive {
            let storage = if name.starts_with("fixed") {
                Storage::Fixed(name.parse().with_context(|| format!("--drive {name}"))?)
            } else {
                Storage::Drive { name: name.clone(), spec: Box::new(drive_spec(name, common)?) }
            };
            storages.push((storage, name.clone()));
        }
        for path in &self.on {
            let measured = measure_place(path)
                .with_context(|| format!("cannot measure the storage of {}", path.display()))?;
            common.note(&format!("{}: {}", path.display(), measured.storage));
            storages.push((Storage::Measured(measured), format!("on {}", path.display())));
        }
        if storages.is_empty() {
            storages.push((Storage::Present, String::new()));
        }
        let or_none = |sizes: &[Bytes]| match sizes {
            [] => vec![None],
            sizes => sizes.iter().copied().map(Some).collect(),
        };
        let ways: &[Prefetching] = match self.run {
            true => &[Prefetching::Off, Prefetching::Followed, Prefetching::Learned],
            false => &[Prefetching::Off],
        };
        let mut changes = Vec::new();
        for (storage, drive) in &storages {
            for memory in or_none(&self.memory) {
                for read_ahead in or_none(&self.read_ahead) {
                    for &prefetching in ways {
                        let words = [
                            (!drive.is_empty()).then(|| drive.clone()),
                            memory.map(|size| format!("memory of {size}")),
                            read_ahead.map(|size| format!("read-ahead of {size}")),
                            prefetching_name(prefetching).map(str::to_owned),
                        ];
                        let name = words.into_iter().flatten().collect::<Vec<_>>().join(", ");
                        let change = Change {
                            storage: storage.clone(),
                            memory,
                            read_ahead,
                            prefetching,
                            metadata: self.metadata,
                        };
                        changes.push((change, name));
                    }
                }
            }
        }
        // Without any change there is nothing to predict.
        changes.retain(|(change, name)| change.metadata.is_some() || !name.is_empty());
        Ok(changes)
    }
}
