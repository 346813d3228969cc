//! Rates of processes on a drive: setting, removing and observing them.
//!
//! `sakiyomi mount BACKING DIR --regulate` serves the files below DIR so that each I/O of a process with a *rate* takes
//! a constant time, regardless of other processes (`docs/explanation/regulation.md`). Requests are sent through any
//! file or directory of the mount; the kernel identifies the caller.
//!
//! | use | interface |
//! |---|---|
//! | the call as the thesis defines it | [`set_iorate`] |
//! | all other requests | [`Control`] |
//! | the messages | [`protocol`] |
//! | how large rates may be, by user and control group | [`quotas`] |
//! | the server's side, for a front end with a regulated device (feature `server`) | `server` |
//!
//! ```no_run
//! use sakiyomi_iorate::protocol::{Rate, Set, Target};
//! use sakiyomi_iorate::{Control, set_iorate};
//!
//! let own = std::process::id();
//! set_iorate(own, "/mnt/disk", 20)?;
//! let control = Control::open("/mnt/disk")?;
//! let rate = Rate::EveryNs(40_000_000);
//! control.set(&Set { target: Target::Tree { pid: own }, rate, best_effort: true, back_to_back: false })?;
//! for owner in control.view(false)?.owners {
//!     println!("{}: {:?}", owner.target, owner.accuracy_ratio);
//! }
//! # Ok::<(), sakiyomi_iorate::Error>(())
//! ```

pub mod protocol;
pub mod quotas;
#[cfg(feature = "server")]
pub mod server;

mod control;

use std::path::Path;

pub use control::{Control, Error};
use protocol::{Rate, Set, Target};

/// Gives process `pid` a rate of `req_iorate` percent, 1 to 100, of the device that holds `dev_path`; 0 removes the
/// rate (`set_iorate(pid, dev_path, req_iorate)`, Tani 2023). `dev_path` is any file or directory of a mount of
/// sakiyomi.
///
/// # Errors
/// If `dev_path` is not on a regulated mount, the process does not exist or belongs to another user, or the rate cannot
/// be guaranteed: [`Error`].
pub fn set_iorate(pid: u32, dev_path: impl AsRef<Path>, req_iorate: u32) -> Result<(), Error> {
    let control = Control::open(dev_path)?;
    let target = Target::Process { pid };
    if req_iorate == 0 {
        return control.clear(&target);
    }
    control.set(&Set::new(target, Rate::Percent(req_iorate))).map(drop)
}
