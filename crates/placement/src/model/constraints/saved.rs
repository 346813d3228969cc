//! Serialized form of constraints; pins in a file must not contradict each other.

use serde::{Deserialize, Serialize};

use super::Constraints;
use crate::Error;

/// [`Constraints`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedConstraints {
    #[serde(default)]
    pinned: Vec<SavedPin>,
    #[serde(default)]
    reserved_cores: Vec<usize>,
}

/// A pinned operator.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SavedPin {
    operator: usize,
    core: usize,
}

impl From<Constraints> for SavedConstraints {
    fn from(constraints: Constraints) -> SavedConstraints {
        let pinned = constraints.pinned().map(|(operator, core)| SavedPin { operator, core }).collect();
        SavedConstraints { pinned, reserved_cores: constraints.reserved().collect() }
    }
}

impl TryFrom<SavedConstraints> for Constraints {
    type Error = Error;

    fn try_from(saved: SavedConstraints) -> Result<Constraints, Error> {
        let mut constraints = Constraints::default();
        for SavedPin { operator, core } in saved.pinned {
            if constraints.pinned.contains_key(&operator) {
                let (what, range) = ("operator of a pin", "that of one pin alone");
                return Err(Error::Value { what, value: operator as f64, range });
            }
            constraints = constraints.pin(operator, core);
        }
        Ok(saved.reserved_cores.into_iter().fold(constraints, Constraints::reserve))
    }
}
