//! Messages to a mount and its answers: JSON in a message of fixed size, padded with zeros.
//!
//! Each request has one answer. A list that does not fit into one message is requested in parts ([`Call::Look`]).

use std::io;

use sakiyomi_os::ioctl_channel::MESSAGE_BYTES;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Version of this protocol. A mount answers others with [`Refusal::Version`].
pub const PROTOCOL_VERSION: u32 = 2;

/// A request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// [`PROTOCOL_VERSION`] of the sender.
    pub version: u32,
    /// The sender's process ID in its own namespace. If it differs from the one that the mount sees, the two are in
    /// different PID namespaces (a container), and process IDs in the request are meaningless to the mount.
    pub asker: u32,
    /// The request itself.
    pub call: Call,
}

/// The requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// Set a rate.
    Set(Set),
    /// Remove a rate.
    Clear(Target),
    /// Return the device, and owners in ascending order of their numbers.
    Look {
        /// [`Owner::number`] after which to continue; 0 to begin.
        after: u64,
        /// Whether to include owners without a rate.
        all: bool,
    },
    /// Return the device, and one target that has a rate or had one until it recently ended.
    Find(Target),
}

/// A rate for a target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Set {
    /// The target.
    pub target: Target,
    /// The rate.
    pub rate: Rate,
    /// Whether to accept the rate even if it cannot be guaranteed.
    pub best_effort: bool,
    /// Whether each I/O follows at once after the reply to the last one, so that a larger rate can be kept.
    #[serde(default)]
    pub back_to_back: bool,
}

impl Set {
    /// Makes a guaranteed rate for I/Os that may arrive at any moment.
    #[must_use]
    pub fn new(target: Target, rate: Rate) -> Set {
        Set { target, rate, best_effort: false, back_to_back: false }
    }
}

/// The processes whose I/O shares one rate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Target {
    /// A process with all its threads.
    Process {
        /// Its process ID.
        pid: u32,
    },
    /// A process and all its descendants.
    Tree {
        /// The process ID of the ancestor.
        pid: u32,
    },
    /// The processes of a control group and of its descendants.
    Group {
        /// The path from the root of the hierarchy, as in `/proc/PID/cgroup`.
        path: String,
    },
}

/// A rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rate {
    /// Percentage of the device, 1 to 100.
    Percent(u32),
    /// Time of one I/O, in nanoseconds.
    EveryNs(u64),
}

/// The answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The rate was set.
    Given {
        /// Whether it is not guaranteed.
        best_effort: bool,
    },
    /// The rate was removed.
    Cleared,
    /// The state of the device and of owners.
    Seen(View),
    /// The request was refused.
    Refused(Refusal),
}

/// Reasons for a refusal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case", tag = "why")]
pub enum Refusal {
    /// The versions of the protocol differ.
    #[error(
        "the mount is served by another version of sakiyomi (protocol {theirs}); use the command of that version"
    )]
    Version {
        /// The mount's version.
        theirs: u32,
    },
    /// The mount was made without `--regulate`.
    #[error("it was mounted without --regulate; mount it again with it")]
    NotRegulated,
    /// The sender is in another PID namespace.
    #[error(
        "process IDs here differ from those of the mount (a container?); run the command in the PID namespace of the mount"
    )]
    Namespace,
    /// The process does not exist.
    #[error("there is no process {pid}")]
    NoProcess {
        /// Its process ID.
        pid: u32,
    },
    /// The control group does not exist or is empty.
    #[error("no process is in the control group {path}; /proc/PID/cgroup has the names")]
    NoGroup {
        /// Its path.
        path: String,
    },
    /// The target belongs to another user.
    #[error("{what} belongs to another user; only root and its owner may set its rate")]
    NotYours {
        /// Description of the process or group.
        what: String,
    },
    /// The rate that the target has, itself or as part of a tree or group, was set by another user.
    #[error("{what} has a rate that {} set; only {} may change it", name(*.user), if *.user == 0 { "root" } else { "root and that user" })]
    SetByAnother {
        /// Description of the process or group.
        what: String,
        /// The user that set the rate.
        user: u32,
    },
    /// The sum of the rates of a user or of a control group would exceed its quota.
    #[error("{who} may have rates of {most} % in all, of which {used} % are in use; request {} % or less", most.saturating_sub(*used))]
    Quota {
        /// The user or the group.
        who: String,
        /// The quota in percent.
        most: u32,
        /// The sum of the other rates in percent, rounded up.
        used: u32,
    },
    /// The target has no rate.
    #[error("{what} has no rate")]
    NoRate {
        /// Description of the process or group.
        what: String,
    },
    /// The rate is out of range.
    #[error("{asked} is not a valid rate; request 1 to 100 %, or a time of at most an hour")]
    BadRate {
        /// Description of the requested rate.
        asked: String,
    },
    /// The rate cannot be guaranteed.
    #[error("{words}")]
    NoRoom {
        /// The sentence shown to the user, with the best possible rate.
        words: String,
        /// The largest percentage that can be guaranteed, if any.
        best_percent: Option<u32>,
        /// The shortest I/O time that can be guaranteed, in nanoseconds, if any.
        best_every_ns: Option<u64>,
    },
    /// The maximum number of rates is in use.
    #[error(
        "{most} processes and groups have rates, which is the maximum; clear some, or mount with a higher limit of open files (ulimit -n)"
    )]
    TooMany {
        /// The maximum number of owners with a rate.
        most: usize,
    },
    /// The request could not be parsed.
    #[error("the mount did not understand: {what}")]
    Malformed {
        /// Description of the error.
        what: String,
    },
}

/// Returns a user as a word of a sentence.
fn name(user: u32) -> String {
    if user == 0 { "root".to_owned() } else { format!("user {user}") }
}

/// State of a mount.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct View {
    /// Time of the device since the mount, in nanoseconds.
    pub at_ns: u64,
    /// The device.
    pub device: DeviceView,
    /// Owners in ascending order of their numbers, as many as fit.
    pub owners: Vec<Owner>,
    /// Whether more owners follow.
    pub more: bool,
}

/// State of the device behind a mount.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceView {
    /// Its name.
    pub name: String,
    /// Policy: `profile`, `deadline` or `thesis`.
    pub policy: String,
    /// Measured service time of one I/O, in nanoseconds.
    pub service_ns: u64,
    /// Allowance: how many unregulated requests may be in the device when a regulated one arrives.
    pub allowance: u32,
    /// Measured parallelism: the number of I/Os that it serves concurrently.
    pub parallel_ratio: f64,
    /// Requests in the device.
    pub in_device: u64,
    /// Requests queued in front of the device.
    pub waiting: u64,
    /// Requests completed since the mount.
    pub requests: u64,
    /// Time that the device was busy since the mount, in nanoseconds, where known.
    pub busy_ns: Option<u64>,
    /// I/O to the device that bypasses the mount, while detected.
    pub bypass: Option<Bypass>,
}

/// I/O to the device that bypasses the mount, because of which no rate can be guaranteed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bypass {
    /// Name of the block device.
    pub device: String,
    /// Requests per second that did not come through the mount.
    pub requests_per_s: f64,
    /// Their fraction of all requests to the device.
    pub share_ratio: f64,
}

/// A process, process tree or control group that uses the device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Owner {
    /// Number in order of arrival, from 1.
    pub number: u64,
    /// Its processes.
    pub target: Target,
    /// The name of the program; for a control group, its path.
    pub name: String,
    /// Its rate, if it has one.
    pub rate: Option<Rate>,
    /// Whether the rate is not guaranteed.
    pub best_effort: bool,
    /// Ideal time of an I/O, in nanoseconds, if it has a rate.
    pub ideal_ns: Option<u64>,
    /// I/Os completed since the rate was set or, without one, since the first I/O.
    pub ios: u64,
    /// I/Os that missed their deadline.
    pub late: u64,
    /// Mean time of recent I/Os, in nanoseconds.
    pub mean_ns: u64,
    /// Mean of actual over ideal time of recent I/Os, if it has a rate.
    pub accuracy_ratio: Option<f64>,
    /// Coefficient of variation of the times of recent I/Os: standard deviation over mean.
    pub cov_ratio: f64,
    /// Requests in flight.
    pub unanswered: u64,
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Target::Process { pid } => write!(f, "process {pid}"),
            Target::Tree { pid } => write!(f, "process {pid} with its descendants"),
            Target::Group { path } => write!(f, "control group {path}"),
        }
    }
}

/// Serializes `what` into a message; `None` if it does not fit.
pub fn encode(what: &impl Serialize) -> Option<Box<[u8; MESSAGE_BYTES]>> {
    let mut message = Box::new([0; MESSAGE_BYTES]);
    let mut room = &mut message[..];
    serde_json::to_writer(&mut room, what).ok().map(|()| message)
}

/// Parses a message written by [`encode`].
///
/// # Errors
/// If it is not valid JSON of a `T`.
pub fn decode<T: DeserializeOwned>(message: &[u8]) -> io::Result<T> {
    let length = message.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    Ok(serde_json::from_slice(&message[..length])?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_arrives() {
        let every = Set {
            target: Target::Tree { pid: 7 },
            rate: Rate::EveryNs(40_000_000),
            best_effort: true,
            back_to_back: false,
        };
        let group = Target::Group { path: "/batch".to_owned() };
        for call in [Call::Set(every), Call::Clear(group), Call::Look { after: 9, all: true }] {
            let message = Message { version: PROTOCOL_VERSION, asker: 1, call };
            assert_eq!(decode::<Message>(&encode(&message).unwrap()[..]).unwrap(), message);
        }
        let refusals = [Refusal::NotRegulated, Refusal::TooMany { most: 3 }, Refusal::NoProcess { pid: 4 }];
        for answer in refusals.map(Reply::Refused) {
            assert_eq!(decode::<Reply>(&encode(&answer).unwrap()[..]).unwrap(), answer);
        }
    }

    #[test]
    fn what_does_not_fit_is_not_said() {
        assert!(encode(&Target::Group { path: "x".repeat(MESSAGE_BYTES) }).is_none());
        assert!(decode::<Reply>(&[0; MESSAGE_BYTES]).is_err());
    }
}
