//! The least of many keys, of which one changes at a time: a tournament tree (Knuth, TAOCP 3, section 5.4.1).

/// Key of a place that does not take part.
const ABSENT_KEY: u128 = u128::MAX;

/// Keys by place, and the place with the least one.
#[derive(Clone, Debug)]
pub(super) struct Tournament {
    /// A power of two, at least 2.
    keys: Vec<u128>,
    /// Winner of each match: the final is at 1, the matches before match `i` are at `2 i` and `2 i + 1`, and beyond the
    /// matches are the places themselves.
    winners: Vec<u32>,
}

impl Tournament {
    pub(super) fn new() -> Tournament {
        Tournament { keys: vec![ABSENT_KEY; 2], winners: vec![0; 2] }
    }

    /// Sets the key of a place.
    pub(super) fn set(&mut self, place: usize, key: u128) {
        debug_assert!(key < ABSENT_KEY, "the largest key marks an absent place");
        while place >= self.keys.len() {
            self.double();
        }
        self.change(place, key);
    }

    /// Removes a place.
    pub(super) fn remove(&mut self, place: usize) {
        self.change(place, ABSENT_KEY);
    }

    /// Returns the place with the least key; `None` without places.
    pub(super) fn least(&self) -> Option<usize> {
        let place = self.winners[1] as usize;
        (self.keys[place] != ABSENT_KEY).then_some(place)
    }

    /// Returns the place with the least key, other than `place`.
    pub(super) fn least_but(&mut self, place: usize) -> Option<usize> {
        let key = self.keys[place];
        self.change(place, ABSENT_KEY);
        let least = self.least();
        self.change(place, key);
        least
    }

    fn change(&mut self, place: usize, key: u128) {
        if self.keys[place] == key {
            return;
        }
        self.keys[place] = key;
        let mut at = (self.keys.len() + place) / 2;
        while at >= 1 {
            let before = self.winners[at] as usize;
            let winner = self.play(at);
            self.winners[at] = winner as u32;
            // The matches that follow were between winners whose keys have not changed.
            if winner == before && winner != place {
                return;
            }
            at /= 2;
        }
    }

    fn play(&self, at: usize) -> usize {
        let [left, right] = [2 * at, 2 * at + 1].map(|from| {
            if from >= self.keys.len() { from - self.keys.len() } else { self.winners[from] as usize }
        });
        if self.keys[right] < self.keys[left] { right } else { left }
    }

    fn double(&mut self) {
        let places = 2 * self.keys.len();
        self.keys.resize(places, ABSENT_KEY);
        self.winners = vec![0; places];
        for at in (1..places).rev() {
            self.winners[at] = self.play(at) as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn the_least_key_wins(changes in prop::collection::vec((0usize..40, prop::option::of(0u128..1000)), 1..120)) {
            let (mut tournament, mut naive) = (Tournament::new(), BTreeMap::new());
            for (number, (place, key)) in changes.into_iter().enumerate() {
                match key {
                    // Keys differ, as those of segments do.
                    Some(key) => {
                        let key = key * 1000 + number as u128;
                        tournament.set(place, key);
                        naive.insert(place, key);
                    }
                    None if naive.remove(&place).is_some() => tournament.remove(place),
                    None => {}
                }
                let least = |but: Option<usize>| {
                    let others = naive.iter().filter(|(place, _)| Some(**place) != but);
                    others.min_by_key(|(_, key)| **key).map(|(place, _)| *place)
                };
                prop_assert_eq!(tournament.least(), least(None));
                if naive.contains_key(&place) {
                    prop_assert_eq!(tournament.least_but(place), least(Some(place)));
                }
            }
        }
    }
}
