//! Messages and answers in bytes.

use sakiyomi_iorate::protocol::{Answer, Call, Message, Owner, Refusal, VERSION, View, decode, encode};
use sakiyomi_linux::exchange::SIZE;
use serde::Deserialize;

/// What every version of a message has.
#[derive(Deserialize)]
struct AnyVersion {
    version: u32,
}

/// What is asked in a message of the process `caller`, as the kernel and `/proc` tell.
pub(super) fn understand(message: &[u8], caller: Option<u32>) -> Result<Call, Refusal> {
    let malformed = |error: std::io::Error| Refusal::Malformed { what: error.to_string() };
    let AnyVersion { version } = decode(message).map_err(malformed)?;
    if version != VERSION {
        return Err(Refusal::Version { theirs: VERSION });
    }
    let Message { asker, call, .. } = decode(message).map_err(malformed)?;
    if caller != Some(asker) {
        return Err(Refusal::Namespace);
    }
    Ok(call)
}

/// What a mount answers that keeps no rates.
pub(crate) fn not_regulated(message: &[u8]) -> Answer {
    Answer::Refused(match decode::<AnyVersion>(message) {
        Err(error) => Refusal::Malformed { what: error.to_string() },
        Ok(AnyVersion { version }) if version != VERSION => Refusal::Version { theirs: VERSION },
        Ok(_) => Refusal::NotRegulated,
    })
}

/// As many of the owners as fit into an answer.
pub(super) fn fitting(mut view: View) -> View {
    let owners = std::mem::take(&mut view.owners);
    // Behind each there is a comma; and `more` may be a letter longer.
    let length = |owner: &Owner| serde_json::to_vec(owner).map_or(SIZE, |bytes| bytes.len() + 1);
    let mut room =
        SIZE - serde_json::to_vec(&Answer::Seen(view.clone())).map_or(SIZE, |bytes| bytes.len() + 1);
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

/// An answer in bytes.
pub(crate) fn said(answer: &Answer) -> Box<[u8; SIZE]> {
    let too_long = || Answer::Refused(Refusal::Malformed { what: "the answer is too long".to_owned() });
    encode(answer).or_else(|| encode(&too_long())).expect("a short answer fits")
}
