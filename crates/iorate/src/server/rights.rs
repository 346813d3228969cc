//! Permission to set a rate.

use crate::protocol::{Refusal, Target};
use sakiyomi_os::process::{self, Process, Status};

use super::owners::{ResolvedTarget, is_within};

/// Checks whether a user may set this rate: root may, and the user of all processes concerned (real, effective and
/// saved ID).
pub(super) fn may(held: &ResolvedTarget, target: &Target, user: u32) -> Result<(), Refusal> {
    let own = |status: Status| user == 0 || status.users == [user; 3];
    let own = match held {
        ResolvedTarget::Process(process) | ResolvedTarget::Tree(process) => {
            own(process.process().status().map_err(|_| gone(target))?)
        }
        ResolvedTarget::Group(path) => {
            let members = members(path);
            if members.is_empty() {
                return Err(Refusal::NoGroup { path: path.clone() });
            }
            members.into_iter().all(own)
        }
    };
    if own { Ok(()) } else { Err(Refusal::NotYours { what: target.to_string() }) }
}

/// Returns the processes of a control group and of its descendants.
fn members(path: &str) -> Vec<Status> {
    let member = |pid| {
        let process = Process::open(pid).ok()?;
        let groups = process.control_groups().ok()?;
        groups.iter().any(|group| is_within(group, path)).then(|| process.status().ok())?
    };
    process::all().unwrap_or_default().into_iter().filter_map(member).collect()
}

/// Returns the refusal for a target that has ended.
pub(super) fn gone(target: &Target) -> Refusal {
    match target {
        Target::Process { pid } | Target::Tree { pid } => Refusal::NoProcess { pid: *pid },
        Target::Group { path } => Refusal::NoGroup { path: path.clone() },
    }
}
