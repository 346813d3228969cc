//! Encoding and decoding of messages and answers.

use crate::protocol::{Call, Message, Owner, PROTOCOL_VERSION, Refusal, Reply, View, decode, encode};
use sakiyomi_os::ioctl_channel::MESSAGE_BYTES;
use serde::Deserialize;

/// Fields that every version of a message has.
#[derive(Deserialize)]
struct AnyVersion {
    version: u32,
}

/// Decodes the call in a message; `caller` is its sender according to the kernel and `/proc`.
pub(super) fn understand(message: &[u8], caller: Option<u32>) -> Result<Call, Refusal> {
    let malformed = |error: std::io::Error| Refusal::Malformed { what: error.to_string() };
    let AnyVersion { version } = decode(message).map_err(malformed)?;
    if version != PROTOCOL_VERSION {
        return Err(Refusal::Version { theirs: PROTOCOL_VERSION });
    }
    let Message { asker, call, .. } = decode(message).map_err(malformed)?;
    if caller != Some(asker) {
        return Err(Refusal::Namespace);
    }
    Ok(call)
}

/// Returns the answer of a mount without rates.
pub fn not_regulated(message: &[u8]) -> Reply {
    Reply::Refused(match decode::<AnyVersion>(message) {
        Err(error) => Refusal::Malformed { what: error.to_string() },
        Ok(AnyVersion { version }) if version != PROTOCOL_VERSION => {
            Refusal::Version { theirs: PROTOCOL_VERSION }
        }
        Ok(_) => Refusal::NotRegulated,
    })
}

/// Limits a view to the owners that fit into an answer.
pub(super) fn fitting(mut view: View) -> View {
    let owners = std::mem::take(&mut view.owners);
    // Each is followed by a comma; and `more` may become a letter longer.
    let length = |owner: &Owner| serde_json::to_vec(owner).map_or(MESSAGE_BYTES, |bytes| bytes.len() + 1);
    let mut room = MESSAGE_BYTES
        - serde_json::to_vec(&Reply::Seen(view.clone())).map_or(MESSAGE_BYTES, |bytes| bytes.len() + 1);
    for owner in owners {
        let Some(left) = room.checked_sub(length(&owner)) else {
            view.more = true;
            break;
        };
        room = left;
        view.owners.push(owner);
    }
    view
}

/// Encodes an answer.
pub fn said(answer: &Reply) -> Box<[u8; MESSAGE_BYTES]> {
    let too_long = || Reply::Refused(Refusal::Malformed { what: "the reply is too long".to_owned() });
    encode(answer).or_else(|| encode(&too_long())).expect("a short reply fits")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{DeviceView, Rate, Set, Target};
    use proptest::prelude::*;

    const ASKER: u32 = 41;

    fn message(call: &Call) -> Vec<u8> {
        let message = Message { version: PROTOCOL_VERSION, asker: ASKER, call: call.clone() };
        encode(&message).unwrap().to_vec()
    }

    fn device(name: String) -> DeviceView {
        DeviceView {
            name,
            policy: "deadline".to_owned(),
            service_ns: u64::MAX,
            allowance: 32,
            parallel_ratio: 1.0 / 3.0,
            in_device: 32,
            waiting: 65_536,
            requests: u64::MAX,
            busy_ns: Some(u64::MAX),
            bypass: None,
        }
    }

    fn owner(number: u64, path: &str) -> Owner {
        Owner {
            number,
            target: Target::Group { path: path.to_owned() },
            name: path.to_owned(),
            rate: Some(Rate::EveryNs(u64::MAX)),
            best_effort: true,
            ideal_ns: Some(u64::MAX),
            ios: u64::MAX,
            late: u64::MAX,
            mean_ns: u64::MAX,
            accuracy_ratio: Some(1.0 / 3.0),
            cov_ratio: 1.0 / 3.0,
            unanswered: u64::MAX,
        }
    }

    #[test]
    fn who_is_not_who_he_says_is_in_another_namespace() {
        let call = Call::Look { after: 0, all: false };
        assert_eq!(understand(&message(&call), Some(ASKER)), Ok(call.clone()));
        for caller in [None, Some(0), Some(7)] {
            assert_eq!(understand(&message(&call), caller), Err(Refusal::Namespace));
        }
    }

    proptest! {
        #[test]
        fn whatever_is_said_is_answered(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut message = [0; MESSAGE_BYTES];
            message[..bytes.len()].copy_from_slice(&bytes);
            prop_assert!(understand(&message, Some(ASKER)).is_err());
            said(&not_regulated(&message));
        }

        #[test]
        fn what_is_cut_or_changed_is_answered(
            path in ".{0,200}", at in 0usize..400, bytes in proptest::collection::vec(any::<u8>(), 0..8),
        ) {
            let set = Set { target: Target::Group { path }, rate: Rate::Percent(7), best_effort: true, back_to_back: false };
            let mut message = message(&Call::Set(set));
            message[at..at + bytes.len()].copy_from_slice(&bytes);
            // It is either refused or still a valid message.
            if let Err(refusal) = understand(&message, Some(ASKER)) {
                let text = said(&Reply::Refused(refusal));
                let answer: Reply = decode(&text[..]).unwrap();
                prop_assert!(matches!(answer, Reply::Refused(_)));
            }
        }

        #[test]
        fn as_many_owners_as_fit_are_told_of_in_order(
            paths in proptest::collection::vec("[a/\\\\\"\u{1}é]{0,300}", 0..80), more: bool,
        ) {
            let owners: Vec<Owner> = (1..).zip(&paths).map(|(number, path)| owner(number, path)).collect();
            let view = View { at_ns: u64::MAX, device: device("vda".to_owned()), owners, more };
            let part = fitting(view.clone());
            let told = part.owners.len();
            prop_assert_eq!(&part.owners[..], &view.owners[..told]);
            prop_assert_eq!(part.more, more || told < view.owners.len());
            prop_assert!(told == view.owners.len() || told >= 3);
            let answer: Reply = decode(&said(&Reply::Seen(part.clone()))[..]).unwrap();
            prop_assert_eq!(answer, Reply::Seen(part));
        }
    }

    #[test]
    fn even_the_longest_path_fits() {
        let longest = owner(1, &format!("/{}", "\u{1}".repeat(super::super::GROUP_PATH_MAX_BYTES - 1)));
        let view = View { at_ns: 0, device: device("x".repeat(255)), owners: vec![longest], more: false };
        assert_eq!(fitting(view).owners.len(), 1);
    }
}
