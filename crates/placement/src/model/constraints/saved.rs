//! Constraints as they are written to a file.

use serde::{Deserialize, Serialize};

use super::Constraints;

/// [`Constraints`].
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SavedConstraints {
    #[serde(default)]
    pinned: Vec<SavedPin>,
    #[serde(default)]
    reserved_cores: Vec<usize>,
}

/// An operator that stays on a core.
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

impl From<SavedConstraints> for Constraints {
    fn from(saved: SavedConstraints) -> Constraints {
        let pin = |constraints: Constraints, pin: SavedPin| constraints.pin(pin.operator, pin.core);
        let pinned = saved.pinned.into_iter().fold(Constraints::default(), pin);
        saved.reserved_cores.into_iter().fold(pinned, Constraints::reserve)
    }
}
