//! A pipeline as written in its TOML file: sources, steps and sinks, each checked separately.

mod origin;
mod sink;
mod source;
mod step;
mod window;

use crate::Error;
use crate::document::Document;

pub(crate) use origin::{Address, Generator, Origin, Target};
pub(crate) use sink::{OutputFormat, SinkSpec};
pub(crate) use source::{Late, RecordFormat, SourceSpec};
pub(crate) use step::{LookupTable, Op, Passes, StepSpec, TableAccess};
pub(crate) use window::Window;

/// Slots of a ring unless the description says otherwise: 100 KiB of rows, which hold a source back before they leave the
/// second-level cache.
const RING_SLOTS: u64 = 1024;

/// Slots of a ring at most: more would hold seconds of input.
const RING_SLOTS_MAX: u64 = 1 << 20;

/// Treatment of records that cannot be read and rows that cannot be computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OnBad {
    /// The pipeline ends with an error.
    #[default]
    Stop,
    /// They are counted and dropped.
    Skip,
}

/// The words of [`OnBad`].
pub(crate) const BAD_WORDS: [&str; 2] = ["stop", "skip"];

impl OnBad {
    /// Returns the policy of an index of [`BAD_WORDS`].
    pub(crate) fn of(word: usize) -> OnBad {
        if word == 1 { OnBad::Skip } else { OnBad::Stop }
    }
}

/// A pipeline.
#[derive(Debug)]
pub(crate) struct Spec {
    pub(crate) sources: Vec<SourceSpec>,
    pub(crate) steps: Vec<StepSpec>,
    pub(crate) sinks: Vec<SinkSpec>,
    pub(crate) ring_slots: usize,
    /// All that decides on its results, to compare it with that of a snapshot.
    pub(crate) definition: Vec<String>,
}

impl Spec {
    /// Reads a description; `origin` is its name in errors.
    ///
    /// # Errors
    /// If it is not TOML, has an unknown key, or a value that does not fit its key.
    pub(crate) fn parse(text: &str, origin: &str) -> Result<Spec, Error> {
        Document::new(origin, text).read(|root| {
            let sources = root.named_tables("source")?;
            let sources = sources.iter().map(|(name, table)| SourceSpec::read(name, table));
            let sources = sources.collect::<Result<Vec<_>, _>>()?;
            let steps = root.tables("step")?;
            let steps = steps.iter().map(StepSpec::read).collect::<Result<Vec<_>, _>>()?;
            let sinks = root.named_tables("sink")?;
            let sinks = sinks.iter().map(|(name, table)| SinkSpec::read(name, table));
            let sinks = sinks.collect::<Result<Vec<_>, _>>()?;
            let ring_slots = root.count("ring_slots", 1)?;
            let too_many = ring_slots.as_ref().filter(|slots| slots.value > RING_SLOTS_MAX);
            if let Some(slots) = too_many {
                return Err(slots.error(format!("{} is more than {RING_SLOTS_MAX}", slots.value)));
            }
            root.finish()?;
            if sources.is_empty() {
                return Err(root.place().error("the pipeline has no source; write [source.NAME]"));
            }
            if sinks.is_empty() {
                return Err(root.place().error("the pipeline has no sink; write [sink.NAME]"));
            }
            let ring_slots = ring_slots.map_or(RING_SLOTS, |slots| slots.value) as usize;
            Ok(Spec { sources, steps, sinks, ring_slots, definition: root.definition() })
        })
    }
}
