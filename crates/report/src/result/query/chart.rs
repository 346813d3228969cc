//! Chart of the phases of a query: how the time of their threads is spent.

use super::QueryPhase;
use crate::chart::bars::{self, Bars, Row};
use crate::chart::{Chart, palette};
use crate::number::duration;

/// Returns the chart of the phases; empty if no time was measured.
pub(super) fn charts(phases: &[QueryPhase]) -> Vec<Chart> {
    if phases.iter().all(|phase| phase.cpu_ns() == 0 && phase.io_wait_ns == 0) {
        return Vec::new();
    }
    let [user, system, waiting] = palette::CPU;
    let row = |phase: &QueryPhase| Row {
        label: phase.name.clone(),
        parts: vec![phase.user_ns, phase.system_ns, phase.io_wait_ns],
        figure: format!("{} elapsed", duration(phase.elapsed_ns)),
    };
    vec![bars::chart(Bars {
        name: "phases",
        title: "Time of the threads by phase",
        caption:
            "Summed over the threads of each phase. A phase is bound by I/O if waiting is more than half of its time."
                .to_owned(),
        x_title: "time of all threads",
        parts: vec![("user", user), ("system", system), ("waiting for I/O", waiting)],
        rows: phases.iter().map(row).collect(),
    })]
}
