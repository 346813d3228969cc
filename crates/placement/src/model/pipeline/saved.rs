//! Serialized form of a pipeline; deserialized values are validated like new ones.

use serde::{Deserialize, Serialize};

use super::{Edge, Key, Operator, Pipeline};
use crate::Error;

/// A [`Pipeline`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedPipeline {
    operators: Vec<Operator>,
    edges: Vec<Edge>,
    entries: Vec<SavedEntry>,
    #[serde(default)]
    keys: Vec<Key>,
}

/// An operator that receives tuples from outside.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedEntry {
    operator: usize,
    /// Tuples per tuple that arrives at the pipeline.
    tuples_ratio: f64,
}

impl From<Pipeline> for SavedPipeline {
    fn from(pipeline: Pipeline) -> SavedPipeline {
        let entry = |operator| SavedEntry { operator, tuples_ratio: pipeline.entry(operator) };
        let entries = (0..pipeline.operators().len()).map(entry).filter(|entry| entry.tuples_ratio > 0.0);
        SavedPipeline {
            operators: pipeline.operators().to_vec(),
            edges: pipeline.edges().to_vec(),
            entries: entries.collect(),
            keys: pipeline.keys().to_vec(),
        }
    }
}

impl TryFrom<SavedPipeline> for Pipeline {
    type Error = Error;

    fn try_from(saved: SavedPipeline) -> Result<Pipeline, Error> {
        let entries: Vec<(usize, f64)> =
            saved.entries.iter().map(|entry| (entry.operator, entry.tuples_ratio)).collect();
        Pipeline::graph(saved.operators, saved.edges, &entries, saved.keys)
    }
}
