//! The charts of one simulation, or of two on the same scales.

mod breakdown;
mod chunks;
mod curve;
mod distribution;

use super::SimResult;
use crate::chart::Chart;

/// One side of a comparison, or the only result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side<'a> {
    /// `A` or `B`; empty if it is the only result.
    pub(crate) name: &'static str,
    pub(crate) result: &'a SimResult,
}

/// Returns the charts of one simulation, in the order of the page; empty if no command was counted.
pub(crate) fn charts(result: &SimResult) -> Vec<Chart> {
    of_sides(&[Side { name: "", result }])
}

/// Returns the charts of two simulations on the same scales; empty if neither counted a command.
pub(crate) fn compare(a: &SimResult, b: &SimResult) -> Vec<Chart> {
    of_sides(&[Side { name: "A", result: a }, Side { name: "B", result: b }])
}

fn of_sides(sides: &[Side<'_>]) -> Vec<Chart> {
    if sides.iter().all(|side| side.result.commands == 0) {
        return Vec::new();
    }
    let mut charts = chunks::charts(sides);
    charts.push(curve::chart(sides));
    charts.push(distribution::chart(sides));
    charts.push(breakdown::chart(sides));
    charts
}
