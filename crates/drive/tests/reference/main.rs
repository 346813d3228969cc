//! The drive against a naive model of itself: small, slow, obviously right, and sharing no code with the fast one.
//!
//! | file | what |
//! |---|---|
//! | `generate.rs` | random small drives, settings and requests |
//! | `host.rs` | hands requests to a drive by hand, checking the interface's contract at every step |
//! | `platter.rs` | naive: every sector of a drive in a list |
//! | `mechanism.rs` | naive: arm and rotation, one sector after another |
//! | `geometry.rs` | tests: every sector lies where the list says |
//! | `laws.rs` | tests: what holds for any drive under any load |
//! | `queueing.rs` | tests: order and finish times of a drive without a cache |
//! | `reading.rs` | tests: reads one at a time, with read segments and read-ahead |
//! | `writing.rs` | tests: what is dirty, what is on the medium, and when |

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

/// So many cases, or what the environment asks for (`PROPTEST_CASES`). A failing case is printed, not kept in a file.
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
