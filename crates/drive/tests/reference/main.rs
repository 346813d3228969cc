//! The drive against a naive model: small, slow, obviously correct, and sharing no code with the fast one.
//!
//! | file | content |
//! |---|---|
//! | `generate.rs` | random small drives, settings and requests |
//! | `host.rs` | submits requests to a drive, checking the interface's contract at every step |
//! | `platter.rs` | naive model: a list of all sectors of a drive |
//! | `mechanism.rs` | naive model: arm and rotation, one sector after another |
//! | `geometry.rs` | tests: positions of sectors |
//! | `laws.rs` | tests: invariants of any drive under any load |
//! | `queueing.rs` | tests: order and finish times of a drive without a cache |
//! | `reading.rs` | tests: reads one at a time, with read segments and read-ahead |
//! | `writing.rs` | tests: dirty data, data on the medium, and times |

mod generate;
mod geometry;
mod host;
mod laws;
mod mechanism;
mod platter;
mod queueing;
mod reading;
mod writing;

use proptest::prelude::ProptestConfig;

/// Returns the number of cases, overridden by `PROPTEST_CASES`. A failing case is printed, not stored in a file.
fn cases(cases: u32) -> ProptestConfig {
    let usual = ProptestConfig::default();
    let asked = usual.cases != 256;
    ProptestConfig {
        cases: if asked { usual.cases } else { cases },
        failure_persistence: None,
        max_shrink_iters: 4000,
        ..usual
    }
}
