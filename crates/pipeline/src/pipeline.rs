//! The interface: a checked pipeline, and one that runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sakiyomi_stream::{Snapshot, Stream};

use crate::Error;
use crate::build::{Life, Parts, build};
use crate::export::{Export, export};
use crate::output::{Standard, Unpublished, Writer};
use crate::plan::{Graph, Plan};
use crate::snapshot::{self, Snapshots};
use crate::source::SourceCounts;
use crate::spec::{Origin, RecordFormat, Spec, Target};
use crate::step::StepCounts;

/// A pipeline that was read from a description and checked.
#[derive(Debug)]
pub struct Pipeline {
    plan: Plan,
    graph: Graph,
}

/// The part of a running pipeline that is not the stream: threads of inputs and outputs, counts, the first error.
pub struct Run {
    parts: Parts,
}

/// Records and rows that a pipeline did not process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// By name of the source: records that could not be read, and rows that arrived after the watermark.
    pub sources: Vec<(String, Dropped)>,
    /// By name of the step: rows that it did not use.
    pub steps: Vec<(String, Unused)>,
}

/// Rows that a step did not use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unused {
    /// Rows for which a value could not be computed.
    pub bad: u64,
    /// Rows that came after their window had ended; of a `distinct` without a window, keys that were forgotten.
    pub late: u64,
}

/// Records that a source did not emit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Records that could not be read.
    pub bad: u64,
    /// The offset and the fault of the first of them.
    pub first_bad: Option<String>,
    /// Rows that were dropped because they came after the watermark.
    pub late: u64,
}

impl Pipeline {
    /// Reads a description; `origin` is its name in errors, such as that of its file. No input or output is opened, but
    /// for the columns of sources that are files of Arrow IPC and the tables of look-ups.
    ///
    /// # Errors
    /// [`Error::Spec`] with the line and the key, if something does not fit.
    pub fn parse(text: &str, origin: &str) -> Result<Pipeline, Error> {
        let plan = Plan::new(Spec::parse(text, origin)?)?;
        let graph = Graph::new(&plan);
        Ok(Pipeline { plan, graph })
    }

    /// Reads a description from a file.
    ///
    /// # Errors
    /// Returns the errors of [`Pipeline::parse`], and those of reading the file.
    pub fn read(path: &Path) -> Result<Pipeline, Error> {
        let target = path.display().to_string();
        let text = std::fs::read_to_string(path).map_err(|source| Error::Io {
            name: target.clone(),
            action: "read",
            target: "the pipeline".to_owned(),
            source,
        })?;
        Pipeline::parse(&text, &target)
    }

    /// The names of the operators in the order of their numbers: `source.NAME`, steps by their names, `sink.NAME`, and
    /// `NAME.split` where an output has several consumers.
    pub fn operators(&self) -> impl Iterator<Item = &str> {
        self.graph.elements.iter().map(|element| element.name.as_str())
    }

    /// Returns the pipeline for the planner, with the same operators. Figures are those of `cost`, `selectivity` and
    /// `share`, and else what such operators usually have.
    ///
    /// # Errors
    /// If a declared figure is out of range.
    pub fn planner(&self) -> Result<sakiyomi_placement::Pipeline, Error> {
        self.graph.planner(&self.plan)
    }

    /// Approximate bytes of a row on each edge of [`Pipeline::planner`], in the order of its edges.
    #[must_use]
    pub fn row_bytes(&self) -> Vec<f64> {
        self.graph.row_bytes(&self.plan)
    }

    /// Returns whether a sink or a step writes to the standard output.
    #[must_use]
    pub fn writes_to_stdout(&self) -> bool {
        self.plan.sinks.iter().any(|sink| matches!(sink.target.value, Target::Stdout))
    }

    /// Losses and repetitions after a crash although there are snapshots: a sentence for each source that cannot be read again, and
    /// for each output whose rows since the last snapshot are written again.
    pub fn losses(&self) -> impl Iterator<Item = String> {
        let sources = self.plan.sources.iter().filter_map(|source| {
            let (name, shown) = (&source.name, source.origin.value.shown());
            match &source.origin.value {
                Origin::File { .. } | Origin::Generator(_) => None,
                Origin::Tail { .. } if !matches!(source.format, RecordFormat::Arrow) => None,
                Origin::Stdin | Origin::Socket { .. } | Origin::Tail { .. } => Some(format!(
                    "source.{name}: after a crash, data read from {shown} since the last snapshot is lost"
                )),
            }
        });
        let sinks = self.plan.sinks.iter().filter_map(|sink| {
            let shown = sink.target.value.shown();
            matches!(sink.target.value, Target::Stdout | Target::Socket(_)).then(|| {
                format!(
                    "sink.{}: after a crash, data written to {shown} since the last snapshot is written again",
                    sink.name
                )
            })
        });
        sources.chain(sinks)
    }

    /// Opens the inputs and outputs and makes the stream. Its operators have the numbers of [`Pipeline::operators`].
    ///
    /// # Errors
    /// If an input or output cannot be opened, or another process writes the file of an output.
    pub fn build(&self, standard: Standard) -> Result<(Stream, Run), Error> {
        self.make(standard, Life::Single)
    }

    /// Like [`Pipeline::build`], for a pipeline with [`Snapshots`], which continues from one if it is
    /// given: the stream is then to be started from it. A file that is to appear at the end lies beside its place until
    /// then, under its name with `.partial` after it, and is left there by a crash. Files are cut off where they were at
    /// the snapshot, when the stream has started.
    ///
    /// # Errors
    /// Returns the errors of [`Pipeline::build`], and an error if the file of an output has not what had been written of it at the snapshot.
    pub fn build_resumable(
        &self,
        standard: Standard,
        from: Option<&Snapshot>,
    ) -> Result<(Stream, Run), Error> {
        self.make(standard, from.map_or(Life::First, Life::Later))
    }

    fn make(&self, standard: Standard, life: Life<'_>) -> Result<(Stream, Run), Error> {
        let (stream, parts) = build(&self.plan, &self.graph, standard, life)?;
        Ok((stream, Run { parts }))
    }

    /// Writes a snapshot of this pipeline to a file, which replaces the previous one when it is whole and on the disk. Returns
    /// its size in bytes.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be written.
    pub fn write_snapshot(&self, path: &Path, snapshot: &Snapshot) -> Result<u64, Error> {
        snapshot::write(path, snapshot, &self.plan.definition)
    }

    /// Reads a snapshot of this pipeline from a file.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be read, [`Error::Table`] if it is not a snapshot, damaged, or of a pipeline with other
    /// sources, steps or sinks.
    pub fn read_snapshot(&self, path: &Path) -> Result<Snapshot, Error> {
        snapshot::read(path, &self.plan.definition)
    }

    /// Returns the pipeline and a snapshot of it for an interpreter in another engine. Relative paths are those below
    /// `base`.
    ///
    /// # Errors
    /// [`Error::Export`] names the first operator without an equivalent in the other engine, or one whose state is
    /// damaged.
    pub fn export(&self, snapshot: Option<&Snapshot>, base: &Path) -> Result<Export, Error> {
        export(&self.plan, snapshot, base)
    }

    /// Returns the snapshots of a run of this pipeline that was built by [`Pipeline::build_resumable`], in a file.
    #[must_use]
    pub fn snapshots(&self, run: &Run, file: PathBuf) -> Snapshots {
        let Parts { control, outputs, .. } = &run.parts;
        Snapshots::new(file, Arc::clone(&self.plan.definition), outputs.clone(), Arc::clone(control))
    }
}

impl Run {
    /// Ends the sources. What they have emitted is processed.
    pub fn stop(&self) {
        self.parts.control.stop();
    }

    /// Holds the sources where they are, neither emitting nor ending: for a last snapshot, after which the stream is dropped.
    pub fn halt(&self) {
        self.parts.control.halt();
    }

    /// Returns whether the sources are to end: after [`Run::stop`], an error, or when the reader of an output has
    /// closed it.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.parts.control.is_stopped()
    }

    /// The counts of the sources, by name.
    pub fn sources(&self) -> impl Iterator<Item = (&str, &Arc<SourceCounts>)> {
        self.parts.sources.iter().map(|(name, counts)| (name.as_str(), counts))
    }

    /// The counts of the steps, by name.
    pub fn steps(&self) -> impl Iterator<Item = (&str, &Arc<StepCounts>)> {
        self.parts.steps.iter().map(|(name, counts)| (name.as_str(), counts))
    }

    /// Waits until all outputs are written and no socket is listened to; then the files of sinks appear. To be called after
    /// the stream has finished or was dropped.
    ///
    /// # Errors
    /// The first error of an input, step or output; files of sinks have then not appeared.
    pub fn finish(self) -> Result<Outcome, Error> {
        self.end(true)
    }

    /// Like [`Run::finish`], for a pipeline that will be resumed from a snapshot: no file appears, whichever
    /// of its sinks have ended.
    ///
    /// # Errors
    /// The first error of an input, step or output.
    pub fn suspend(self) -> Result<Outcome, Error> {
        self.end(false)
    }

    fn end(self, is_published: bool) -> Result<Outcome, Error> {
        let Parts { control, writers, sources, steps, claims, .. } = self.parts;
        let unpublished: Vec<Unpublished> = writers.into_iter().filter_map(Writer::join).collect();
        if is_published && !control.has_failed() {
            let published = unpublished.into_iter().try_for_each(Unpublished::publish);
            published.unwrap_or_else(|error| control.fail(error));
        }
        drop(claims);
        // Threads of inputs that still wait end, and the names of sockets are removed.
        control.stop_and_join();
        if let Some(error) = control.take_failure() {
            return Err(error);
        }
        let dropped = |counts: &SourceCounts| Dropped {
            bad: counts.bad(),
            first_bad: counts.first_bad(),
            late: counts.late(),
        };
        let unused = |counts: &StepCounts| Unused { bad: counts.bad(), late: counts.late() };
        Ok(Outcome {
            sources: sources.iter().map(|(name, counts)| (name.clone(), dropped(counts))).collect(),
            steps: steps.iter().map(|(name, counts)| (name.clone(), unused(counts))).collect(),
        })
    }
}
