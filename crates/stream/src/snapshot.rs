//! Snapshots of a stream: the states of all operators and the positions of all sources at one cut through its edges.
//!
//! The cut is consistent (Chandy and Lamport, ACM TOCS 3(1), 1985): a state contains the effects of exactly those items
//! that its sources had emitted at their saved positions, so that no item of an edge needs to be saved. `barrier.rs`
//! makes the cut; this file defines the data. The file format belongs to the caller.

use crate::error::Error;
use crate::shape::{OperatorKind, Shape};
use crate::state::{Decode, Decoder, Encode, Frame, StateError};

/// Version of [`Snapshot`]: of the meaning of [`Progress`]. A program resumes from snapshots of its own version only.
pub const SNAPSHOT_VERSION: u32 = 2;

/// Layout of the bytes of an [`OperatorSnapshot`].
const FRAME: Frame = Frame { kind: "an operator of a snapshot", version: 1 };

/// Bound of all counts in a snapshot: no stream reaches it, and one that resumes below it does not overflow.
const SEQUENCE_MAX: u64 = 1 << 63;

/// A consistent state of a stream, from which [`Stream::start_from`](crate::Stream::start_from) resumes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// [`SNAPSHOT_VERSION`] of the program that took it.
    pub version: u32,
    /// Its number in the life of the stream, from 1. A stream that resumes continues to count. Changes of replicas take
    /// numbers as well.
    pub epoch: u64,
    /// [`Stream::fingerprint`](crate::Stream::fingerprint) of the stream.
    pub pipeline: u64,
    /// The stream's clock when the last of its sources emitted the barrier. The clock of a stream that resumes starts
    /// here, so that scheduled arrivals in states stay valid.
    pub clock_ns: u64,
    /// The operators, in the order of their numbers. All replicas of one are one operator, with the states of all bins.
    pub operators: Vec<OperatorSnapshot>,
    /// For each operator the worker that it, or its first replica, was on when the snapshot was begun; empty if that is not
    /// known.
    pub workers: Vec<usize>,
}

/// An operator in a snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorSnapshot {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: OperatorKind,
    /// The bytes of its [`SaveState`](crate::SaveState); `None` without one.
    pub state: Option<Vec<u8>>,
    /// The bytes of the copy to which the operator returns after a panic
    /// ([`OnPanic::Restart`](crate::OnPanic)).
    pub restart_state: Option<Vec<u8>>,
    /// Its position on its edges.
    pub progress: Progress,
}

/// Position of an operator on its edges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Tuples that it has received; of a source, that it has produced.
    pub tuples: u64,
    /// Its inputs, as many as its kind has.
    pub inputs: Vec<InputProgress>,
    /// For each output the number of the next item.
    pub outputs: Vec<u64>,
    /// The last watermark that it has forwarded or, as a sink, received.
    pub watermark_ns: Option<u64>,
    /// For a source, the time at which it emitted the barrier; for a join, the latest arrival of a watermark
    /// or end. In nanoseconds of
    /// the stream's clock.
    pub arrival_ns: u64,
    /// It has forwarded the end or, as a sink, received it.
    pub has_ended: bool,
}

/// Position on an edge.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InputProgress {
    /// Number of the next item.
    pub sequence: u64,
    /// The last watermark.
    pub watermark_ns: Option<u64>,
    /// The end has come.
    pub has_ended: bool,
}

impl Snapshot {
    /// Returns the snapshot of an epoch, before any operator has reported.
    pub(crate) fn of(shape: &Shape, epoch: u64) -> Snapshot {
        let operators = shape.logical().map(|operator| OperatorSnapshot {
            name: operator.name.clone(),
            kind: operator.kind,
            state: None,
            restart_state: None,
            progress: Progress::default(),
        });
        Snapshot {
            version: SNAPSHOT_VERSION,
            epoch,
            pipeline: shape.fingerprint(),
            clock_ns: 0,
            operators: operators.collect(),
            workers: Vec::new(),
        }
    }

    /// Checks that the snapshot is one of this graph.
    ///
    /// # Errors
    /// [`Error::Resume`] says what does not match.
    pub(crate) fn check(&self, shape: &Shape) -> Result<(), Error> {
        if self.version != SNAPSHOT_VERSION {
            return resume(format!(
                "it has version {}, and this program reads version {SNAPSHOT_VERSION}: use the program that took it",
                self.version
            ));
        }
        let (saved, built) = (self.operators.len(), shape.logical().count());
        if saved != built {
            return other(format!("it has {saved} operators, and the stream has {built}"));
        }
        for (number, (saved, built)) in self.operators.iter().zip(shape.logical()).enumerate() {
            if (saved.name.as_str(), saved.kind) != (built.name.as_str(), built.kind) {
                return other(format!(
                    "operator {number} is {} {} in it, and {} {} in the stream",
                    saved.kind, saved.name, built.kind, built.name
                ));
            }
        }
        if self.pipeline != shape.fingerprint() {
            return other("its operators are connected in another way than those of the stream".to_owned());
        }
        if !self.workers.is_empty() && self.workers.len() != built {
            return damaged("placement");
        }
        if self.epoch >= SEQUENCE_MAX || self.clock_ns >= SEQUENCE_MAX {
            return damaged(&format!("epoch {} or clock {}", self.epoch, self.clock_ns));
        }
        self.check_edges(shape)
    }

    /// Checks that both ends of each edge have the same progress: nothing is on it at a cut.
    fn check_edges(&self, shape: &Shape) -> Result<(), Error> {
        let numbers = shape.logical_numbers();
        for (saved, built) in self.operators.iter().zip(shape.logical()) {
            let Progress { tuples, inputs, outputs, has_ended, .. } = &saved.progress;
            let fits = (inputs.len(), outputs.len()) == (saved.kind.inputs(), saved.kind.outputs());
            let counts = [tuples].into_iter().chain(outputs).all(|&count| count < SEQUENCE_MAX);
            let ends = inputs.is_empty() || *has_ended == inputs.iter().all(|input| input.has_ended);
            let senders = built.parent.iter().chain(&built.side_parents);
            let agrees = senders.zip(inputs).all(|(sender, input)| {
                let sent = &self.operators[numbers[sender.0]].progress;
                sent.outputs.contains(&input.sequence)
                    && (sent.watermark_ns, sent.has_ended) == (input.watermark_ns, input.has_ended)
            });
            if !(fits && counts && ends && agrees) {
                return damaged(&format!("progress of operator {}", saved.name));
            }
        }
        Ok(())
    }
}

fn resume(reason: String) -> Result<(), Error> {
    Err(Error::Resume(reason))
}

/// The snapshot of another stream.
pub(crate) fn other(difference: String) -> Result<(), Error> {
    resume(difference + ": resume with the stream of the snapshot, or start from the beginning")
}

fn damaged(what: &str) -> Result<(), Error> {
    resume(format!("its {what} is damaged: resume from another one"))
}

impl OperatorSnapshot {
    /// Returns all but the name and the kind as bytes, with a checksum.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let Progress { tuples, inputs, outputs, watermark_ns, arrival_ns, has_ended } = &self.progress;
        let inputs: Vec<(u64, Option<u64>, bool)> =
            inputs.iter().map(|input| (input.sequence, input.watermark_ns, input.has_ended)).collect();
        let mut bytes = Vec::new();
        FRAME.save(&mut bytes, |out| {
            self.state.encode(out);
            self.restart_state.encode(out);
            tuples.encode(out);
            inputs.encode(out);
            outputs.encode(out);
            watermark_ns.encode(out);
            arrival_ns.encode(out);
            has_ended.encode(out);
        });
        bytes
    }

    /// Returns the operator whose [`OperatorSnapshot::to_bytes`] these are.
    ///
    /// # Errors
    /// If the bytes are damaged.
    pub fn from_bytes(name: &str, kind: OperatorKind, bytes: &[u8]) -> Result<OperatorSnapshot, StateError> {
        FRAME.load(bytes, |from| {
            Ok(OperatorSnapshot {
                name: name.to_owned(),
                kind,
                state: Decode::decode(from)?,
                restart_state: Decode::decode(from)?,
                progress: progress(from)?,
            })
        })
    }
}

fn progress(from: &mut Decoder<'_>) -> Result<Progress, StateError> {
    let tuples = u64::decode(from)?;
    let inputs = Vec::<(u64, Option<u64>, bool)>::decode(from)?.into_iter();
    let inputs = inputs
        .map(|(sequence, watermark_ns, has_ended)| InputProgress { sequence, watermark_ns, has_ended })
        .collect();
    Ok(Progress {
        tuples,
        inputs,
        outputs: Decode::decode(from)?,
        watermark_ns: Decode::decode(from)?,
        arrival_ns: Decode::decode(from)?,
        has_ended: Decode::decode(from)?,
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn operator() -> OperatorSnapshot {
        OperatorSnapshot {
            name: "join".to_owned(),
            kind: OperatorKind::Join,
            state: Some(vec![1, 2, 3]),
            restart_state: None,
            progress: Progress {
                tuples: 7,
                inputs: vec![
                    InputProgress { sequence: 4, watermark_ns: Some(9), has_ended: true },
                    InputProgress { sequence: 5, watermark_ns: None, has_ended: false },
                ],
                outputs: vec![6],
                watermark_ns: Some(8),
                arrival_ns: 11,
                has_ended: false,
            },
        }
    }

    #[test]
    fn an_operator_is_read_back_and_damage_is_an_error() {
        let operator = operator();
        let bytes = operator.to_bytes();
        let read = |bytes: &[u8]| OperatorSnapshot::from_bytes("join", OperatorKind::Join, bytes);
        assert_eq!(read(&bytes).as_ref(), Ok(&operator));
        for at in 0..bytes.len() {
            assert!(read(&bytes[..at]).is_err());
            let mut flipped = bytes.clone();
            flipped[at] ^= 1;
            assert!(read(&flipped).is_err(), "byte {at}");
        }
    }
}
