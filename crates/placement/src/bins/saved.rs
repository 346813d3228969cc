//! Serialized form of bins; deserialized values are validated like new ones.

use serde::{Deserialize, Serialize};

use super::Bins;
use crate::Error;

/// [`Bins`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedBins {
    replica_of: Vec<usize>,
    replicas: usize,
}

impl From<Bins> for SavedBins {
    fn from(bins: Bins) -> SavedBins {
        SavedBins { replica_of: bins.replica_of().to_vec(), replicas: bins.replicas() }
    }
}

impl TryFrom<SavedBins> for Bins {
    type Error = Error;

    fn try_from(saved: SavedBins) -> Result<Bins, Error> {
        Bins::from_parts(saved.replica_of, saved.replicas)
    }
}
