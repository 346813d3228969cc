//! The states of bins as bytes.

use crate::state::{Decode, Encode, Frame, StateError};

const FRAME: Frame = Frame { kind: "replicas", version: 1 };

/// States with their bins, in the order of the bins.
type States = Vec<(u64, Vec<u8>)>;

/// Returns the states of all bins, from those of each replica; none if a replica has none.
///
/// # Errors
/// If a state is not one that [`encode`] returned, or two of them have the same bin.
pub(crate) fn joined(states: Vec<Option<Vec<u8>>>) -> Result<Option<Vec<u8>>, StateError> {
    let Some(states) = states.into_iter().collect::<Option<Vec<_>>>() else { return Ok(None) };
    let (mut count, mut all) = (0, Vec::new());
    for bytes in states {
        let decoded = decode(&bytes, None)?;
        count = decoded.0;
        all.extend(decoded.1);
    }
    all.sort_unstable_by_key(|(bin, _)| *bin);
    let bytes = encode(count, &all);
    decode(&bytes, None)?;
    Ok(Some(bytes))
}

/// Returns the states of the bins of an operator that ran as replicas, in the order of the bins.
///
/// # Errors
/// If the bytes are damaged.
pub fn states_of_bins(bytes: &[u8]) -> Result<Vec<Vec<u8>>, StateError> {
    Ok(decode(bytes, None)?.1.into_iter().map(|(_, state)| state).collect())
}

/// Returns the bytes of states.
pub(super) fn encode(count: u64, states: &States) -> Vec<u8> {
    let mut bytes = Vec::new();
    FRAME.save(&mut bytes, |body| {
        count.encode(body);
        states.encode(body);
    });
    bytes
}

/// Returns the number of bins, which is to be `expected` if that is known, and the states.
pub(super) fn decode(bytes: &[u8], expected: Option<u64>) -> Result<(u64, States), StateError> {
    FRAME.load(bytes, |body| {
        let count = match expected {
            Some(expected) => body.setting("a number of bins of", &expected).map(|()| expected),
            None => u64::decode(body),
        }?;
        let states = States::decode(body)?;
        if states.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
            return Err(StateError::Value("a list of bins in their order"));
        }
        Ok((count, states))
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn states(bins: &[u64]) -> Vec<u8> {
        encode(5, &bins.iter().map(|&bin| (bin, vec![bin as u8; 3])).collect())
    }

    #[test]
    fn states_of_replicas_are_joined_in_the_order_of_their_bins() {
        let all = joined(vec![Some(states(&[0, 3])), Some(states(&[])), Some(states(&[1, 2, 4]))]);
        assert_eq!(all, Ok(Some(states(&[0, 1, 2, 3, 4]))));
        assert_eq!(joined(vec![Some(states(&[0])), None]), Ok(None));
        let twice = joined(vec![Some(states(&[0, 3])), Some(states(&[3]))]);
        assert_eq!(twice, Err(StateError::Value("a list of bins in their order")));
    }

    #[test]
    fn another_number_of_bins_is_refused() {
        assert_eq!(decode(&states(&[0, 1]), Some(5)).map(|(_, states)| states.len()), Ok(2));
        let error = decode(&states(&[0, 1]), Some(6)).unwrap_err().to_string();
        assert!(error.contains("a number of bins of 5, and the operator has 6"), "{error}");
    }
}
