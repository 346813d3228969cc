//! What is said to a mount, and what it answers: JSON in a message of a fixed size, padded with zeros.
//!
//! Every question has one answer. What does not fit into one message is asked for in parts ([`Call::Look`]).

use std::io;

use sakiyomi_os::ioctl_channel::MESSAGE_BYTES;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Version of this protocol. A mount answers [`Refusal::Version`] to others.
pub const PROTOCOL_VERSION: u32 = 1;

/// A message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// [`PROTOCOL_VERSION`] of who asks.
    pub version: u32,
    /// The number of the process that asks, as it knows itself: another one means that its numbers are not the mount's
    /// (a container).
    pub asker: u32,
    /// What it asks.
    pub call: Call,
}

/// What can be asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// Give a rate.
    Set(Set),
    /// Take a rate back.
    Clear(Target),
    /// How things are: the device, and the owners behind the one that was seen last, 0 for the first.
    Look {
        /// [`Owner::number`] of the last one seen.
        after: u64,
        /// Also those who have no rate.
        all: bool,
    },
    /// The device, and one of those who have a rate or had one until they ended, lately.
    Find(Target),
}

/// A rate for somebody.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Set {
    /// For whom.
    pub target: Target,
    /// What.
    pub rate: Rate,
    /// Also if it cannot be kept.
    pub best_effort: bool,
}

/// Whose I/O shares one rate.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Target {
    /// A process with all its threads.
    Process {
        /// Its number.
        pid: u32,
    },
    /// A process and all that it starts, and they start.
    Tree {
        /// The number of the first.
        pid: u32,
    },
    /// The processes of a control group and of those below it.
    Group {
        /// As in `/proc/PID/cgroup`, from the root of the hierarchy on.
        path: String,
    },
}

/// How fast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rate {
    /// So many percent of the device, 1 to 100.
    Percent(u32),
    /// An I/O each so many nanoseconds.
    EveryNs(u64),
}

/// What a mount answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The rate is given.
    Given {
        /// Only as well as can be.
        best_effort: bool,
    },
    /// The rate is taken back.
    Cleared,
    /// How things are.
    Seen(View),
    /// It is not done.
    Refused(Refusal),
}

/// Why something is not done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case", tag = "why")]
pub enum Refusal {
    /// Another version of the protocol.
    #[error("the mount is served by another version of sakiyomi (protocol {theirs}); use that one's command")]
    Version {
        /// The mount's.
        theirs: u32,
    },
    /// Mounted without `--regulate`.
    #[error("it was mounted without --regulate; mount it again with it")]
    NotRegulated,
    /// Who asks is in a namespace of its own.
    #[error("process numbers here are not those of the mount (a container?); ask from where it was mounted")]
    Namespace,
    /// Nobody there.
    #[error("there is no process {pid}")]
    NoProcess {
        /// Its number.
        pid: u32,
    },
    /// No such control group.
    #[error("no process is in the control group {path}; /proc/PID/cgroup has the names")]
    NoGroup {
        /// Its name.
        path: String,
    },
    /// Somebody else's.
    #[error("{what} is another user's; only root and its own user may set its rate")]
    NotYours {
        /// The process or group, in words.
        what: String,
    },
    /// Nothing to take back.
    #[error("{what} has no rate")]
    NoRate {
        /// The process or group, in words.
        what: String,
    },
    /// No rate at all.
    #[error("{asked} cannot be asked for; ask for 1 to 100 %, or for a time of an hour at most")]
    BadRate {
        /// What was asked, in words.
        asked: String,
    },
    /// It cannot be kept.
    #[error("{words}")]
    NoRoom {
        /// In words, with the best that can.
        words: String,
        /// The most that can be kept, in percent, if any.
        best_percent: Option<u32>,
        /// The shortest time that can be kept, if any.
        best_every_ns: Option<u64>,
    },
    /// As many as can be have one.
    #[error(
        "there are {most} processes and groups with rates already, as many as can be; clear some, or mount it with more files allowed (ulimit -n)"
    )]
    TooMany {
        /// How many can.
        most: usize,
    },
    /// What was said is not understood.
    #[error("the mount did not understand: {what}")]
    Malformed {
        /// What.
        what: String,
    },
}

/// How things are on a mount.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct View {
    /// The device's time since the mount.
    pub at_ns: u64,
    /// The device.
    pub device: DeviceView,
    /// Owners in order of their numbers, as many as there was room for.
    pub owners: Vec<Owner>,
    /// Whether there are more behind.
    pub more: bool,
}

/// The device behind a mount.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceView {
    /// What it is.
    pub name: String,
    /// `ours` or `thesis`.
    pub policy: String,
    /// What one I/O takes it, as measured.
    pub service_ns: u64,
    /// How many unregulated requests may be in it when a regulated one comes.
    pub allowance: u32,
    /// How many it serves side by side, as measured.
    pub parallel_ratio: f64,
    /// Requests in it.
    pub in_device: u64,
    /// Requests that wait to be let in.
    pub waiting: u64,
    /// Requests answered since the mount.
    pub requests: u64,
    /// Time that it was busy since the mount; none where that is not known.
    pub busy_ns: Option<u64>,
    /// Traffic beside the mount, as long as it is seen.
    pub bypass: Option<Bypass>,
}

/// Somebody uses the device past the mount, so that no rate can be kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bypass {
    /// Which block device.
    pub device: String,
    /// Requests a second that did not come through the mount.
    pub requests_per_s: f64,
    /// The share of them in all its requests.
    pub share_ratio: f64,
}

/// Somebody who uses the device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Owner {
    /// In order of their coming, from 1.
    pub number: u64,
    /// Who.
    pub target: Target,
    /// The name of the process's program; of a group, its path.
    pub name: String,
    /// Its rate, if it has one.
    pub rate: Option<Rate>,
    /// It is kept only as well as can be.
    pub best_effort: bool,
    /// How long an I/O is to take now; none without a rate.
    pub ideal_ns: Option<u64>,
    /// I/Os that have ended since the rate was set, or since it was first seen.
    pub ios: u64,
    /// Those that the device had not done in time.
    pub late: u64,
    /// What the last ones took, in the mean.
    pub mean_ns: u64,
    /// The mean of actual over ideal time of the last ones; none without a rate.
    pub accuracy_ratio: Option<f64>,
    /// The standard deviation of the last ones' time over its mean.
    pub cov_ratio: f64,
    /// Requests that have not been answered.
    pub unanswered: u64,
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Target::Process { pid } => write!(f, "process {pid}"),
            Target::Tree { pid } => write!(f, "process {pid} and all that it starts"),
            Target::Group { path } => write!(f, "control group {path}"),
        }
    }
}

/// Writes something into a message; says nothing if it is too long.
pub fn encode(what: &impl Serialize) -> Option<Box<[u8; MESSAGE_BYTES]>> {
    let mut message = Box::new([0; MESSAGE_BYTES]);
    let mut room = &mut message[..];
    serde_json::to_writer(&mut room, what).ok().map(|()| message)
}

/// Reads what [`encode`] has written.
///
/// # Errors
/// If that is not what it is.
pub fn decode<T: DeserializeOwned>(message: &[u8]) -> io::Result<T> {
    let length = message.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    Ok(serde_json::from_slice(&message[..length])?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_arrives() {
        let every =
            Set { target: Target::Tree { pid: 7 }, rate: Rate::EveryNs(40_000_000), best_effort: true };
        let group = Target::Group { path: "/batch".to_owned() };
        for call in [Call::Set(every), Call::Clear(group), Call::Look { after: 9, all: true }] {
            let message = Message { version: PROTOCOL_VERSION, asker: 1, call };
            assert_eq!(decode::<Message>(&encode(&message).unwrap()[..]).unwrap(), message);
        }
        let refusals = [Refusal::NotRegulated, Refusal::TooMany { most: 3 }, Refusal::NoProcess { pid: 4 }];
        for answer in refusals.map(Answer::Refused) {
            assert_eq!(decode::<Answer>(&encode(&answer).unwrap()[..]).unwrap(), answer);
        }
    }

    #[test]
    fn what_does_not_fit_is_not_said() {
        assert!(encode(&Target::Group { path: "x".repeat(MESSAGE_BYTES) }).is_none());
        assert!(decode::<Answer>(&[0; MESSAGE_BYTES]).is_err());
    }
}
