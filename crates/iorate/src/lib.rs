//! A process's share of a drive: set, taken back, and watched.
//!
//! `sakiyomi mount BACKING DIR --regulate` serves the files under DIR so that a process which has a *rate* finds its I/O
//! taking a constant time, whatever others do (`docs/regulation.md`). Who sets rates talks to the mount through any file
//! or directory of it; the kernel says who that is.
//!
//! | what | where |
//! |---|---|
//! | the call, with the shape that the thesis gives it | [`set_iorate`] |
//! | everything else that can be asked of a mount | [`Control`] |
//! | what is said on the way | [`protocol`] |
//!
//! ```no_run
//! use sakiyomi_iorate::protocol::{Rate, Set, Target};
//! use sakiyomi_iorate::{Control, set_iorate};
//!
//! let own = std::process::id();
//! set_iorate(own, "/mnt/disk", 20)?;
//! let control = Control::open("/mnt/disk")?;
//! let rate = Rate::EveryNs(40_000_000);
//! control.set(&Set { target: Target::Tree { pid: own }, rate, best_effort: true })?;
//! for owner in control.look(false)?.owners {
//!     println!("{}: {:?}", owner.target, owner.accuracy_ratio);
//! }
//! # Ok::<(), sakiyomi_iorate::Error>(())
//! ```

pub mod protocol;

mod control;

use std::path::Path;

pub use control::{Control, Error};
use protocol::{Rate, Set, Target};

/// Gives the process `pid` so many percent, 1 to 100, of the device that `dev_path` lies on; 0 takes it back
/// (`set_iorate(pid, dev_path, req_iorate)`, Tani 2023). `dev_path` is any file or directory of a mount of sakiyomi's.
///
/// # Errors
/// If `dev_path` is not regulated, `pid` is not there or another user's, or the rate cannot be kept: [`Error`].
pub fn set_iorate(pid: u32, dev_path: impl AsRef<Path>, req_iorate: u32) -> Result<(), Error> {
    let control = Control::open(dev_path)?;
    let target = Target::Process { pid };
    if req_iorate == 0 {
        return control.clear(&target);
    }
    control.set(&Set { target, rate: Rate::Percent(req_iorate), best_effort: false }).map(drop)
}
