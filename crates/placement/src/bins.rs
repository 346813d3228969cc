//! Bins of a partition key on replicas, balanced by measured load.
//!
//! Keys are hashed to bins, and replicas own and hand over bins (Hoffmann et al., *Megaphone*, PVLDB 12(9), 2019,
//! section 3). The first division uses longest processing time first, whose busiest replica has at most `4/3 -
//! 1/(3r)` of the load of the optimal division's (Graham, SIAM Journal on Applied Mathematics 17, 1969). Later
//! divisions move few bins: those of a removed replica, those for a new replica, and those that bring the busiest
//! replicas down to the limit, as far as bins can: a single bin above the limit stays.

mod saved;

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::topology::CORES_MAX;
use saved::SavedBins;

/// The replica of each bin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "SavedBins", into = "SavedBins")]
pub struct Bins {
    /// Indexed by bin.
    replica_of: Vec<usize>,
    replicas: usize,
}

impl Bins {
    /// Creates bins from the replica of each bin.
    ///
    /// # Errors
    /// If there are no replicas, or a bin is on one that does not exist.
    pub(crate) fn from_parts(replica_of: Vec<usize>, replicas: usize) -> Result<Bins, Error> {
        check(&[], 0, replicas)?;
        match replica_of.iter().find(|&&replica| replica >= replicas) {
            Some(&replica) => {
                let (what, range) = ("replica of a bin", "less than the number of replicas");
                Err(Error::Value { what, value: replica as f64, range })
            }
            None => Ok(Bins { replica_of, replicas }),
        }
    }

    /// Divides bins by their loads, in any unit, among replicas: the heaviest bin first, each to the least loaded
    /// replica.
    ///
    /// # Errors
    /// If a load is negative or not finite, or there are no replicas.
    pub fn divided(loads: &[f64], replicas: usize) -> Result<Bins, Error> {
        check(loads, loads.len(), replicas)?;
        let mut bins = Bins { replica_of: vec![0; loads.len()], replicas };
        bins.place((0..loads.len()).collect(), loads, &mut vec![0.0; replicas]);
        Ok(bins)
    }

    /// Divides the same bins among another number of replicas, by their present loads. A bin stays where it is unless
    /// its replica is removed, or exceeds the mean load by more than `excess_ratio` and moving the bin evens that
    /// out.
    ///
    /// # Errors
    /// If a load or the ratio is negative or not finite, there is not one load for each bin, or there are no
    /// replicas.
    pub fn redivided(&self, loads: &[f64], replicas: usize, excess_ratio: f64) -> Result<Bins, Error> {
        check(loads, self.replica_of.len(), replicas)?;
        check(&[excess_ratio], 1, replicas)?;
        let mut bins = Bins { replica_of: self.replica_of.clone(), replicas };
        let (stay, homeless): (Vec<usize>, Vec<usize>) =
            (0..loads.len()).partition(|&bin| self.replica_of[bin] < replicas);
        let mut load_of = vec![0.0; replicas];
        stay.iter().for_each(|&bin| load_of[self.replica_of[bin]] += loads[bin]);
        bins.place(homeless, loads, &mut load_of);
        let wanted = loads.iter().sum::<f64>() / replicas as f64 * (1.0 + excess_ratio);
        // Each bin moves at most once: instead of a second move, the first would have had a better target.
        let mut is_moved = vec![false; loads.len()];
        while let Some((bin, to)) = bins.best_move(loads, &load_of, wanted, &is_moved) {
            load_of[bins.replica_of[bin]] -= loads[bin];
            load_of[to] += loads[bin];
            bins.replica_of[bin] = to;
            is_moved[bin] = true;
        }
        Ok(bins)
    }

    /// Returns the replica of each bin.
    #[must_use]
    pub fn replica_of(&self) -> &[usize] {
        &self.replica_of
    }

    /// Returns the number of replicas.
    #[must_use]
    pub fn replicas(&self) -> usize {
        self.replicas
    }

    /// Returns the load of each replica, in the unit of the bins' loads.
    #[must_use]
    pub fn load_of(&self, loads: &[f64]) -> Vec<f64> {
        let mut load_of = vec![0.0; self.replicas];
        self.replica_of.iter().zip(loads).for_each(|(&replica, load)| load_of[replica] += load);
        load_of
    }

    /// Returns the share of the load of the busiest replica, for [`crate::Key::max_share`]; 1 without load.
    #[must_use]
    pub fn max_share(&self, loads: &[f64]) -> f64 {
        let sum: f64 = loads.iter().sum();
        let busiest = self.load_of(loads).into_iter().fold(0.0, f64::max);
        if sum > 0.0 { (busiest / sum).min(1.0) } else { 1.0 }
    }

    /// Returns the bins that have another replica in `to`, each with that replica.
    #[must_use]
    pub fn moved(&self, to: &Bins) -> Vec<(usize, usize)> {
        let all = self.replica_of.iter().zip(&to.replica_of).enumerate();
        all.filter(|(_, (one, other))| one != other).map(|(bin, (_, &other))| (bin, other)).collect()
    }

    /// Places bins, the heaviest first, each on the least loaded replica; ties go to the replica with the fewest
    /// bins.
    fn place(&mut self, mut bins: Vec<usize>, loads: &[f64], load_of: &mut [f64]) {
        let mut count_of = vec![0; self.replicas];
        let mut is_placed = vec![true; loads.len()];
        bins.iter().for_each(|&bin| is_placed[bin] = false);
        let placed = self.replica_of.iter().zip(&is_placed).filter(|(_, is_placed)| **is_placed);
        placed.for_each(|(&replica, _)| count_of[replica] += 1);
        bins.sort_by(|&one, &other| loads[other].total_cmp(&loads[one]));
        for bin in bins {
            let order = |&one: &usize, &other: &usize| {
                load_of[one].total_cmp(&load_of[other]).then(count_of[one].cmp(&count_of[other]))
            };
            let to = (0..self.replicas).min_by(order).unwrap_or(0);
            self.replica_of[bin] = to;
            load_of[to] += loads[bin];
            count_of[to] += 1;
        }
    }

    /// Returns a bin of the busiest replica above the limit that can give one, and the least busy replica: the bin
    /// that best balances both, and leaves the receiver below the donor's present load.
    fn best_move(
        &self,
        loads: &[f64],
        load_of: &[f64],
        wanted: f64,
        is_moved: &[bool],
    ) -> Option<(usize, usize)> {
        let to = least(load_of);
        let mut busy: Vec<usize> = (0..load_of.len()).filter(|&replica| load_of[replica] > wanted).collect();
        busy.sort_by(|&one, &other| load_of[other].total_cmp(&load_of[one]));
        busy.into_iter().find_map(|from| {
            let gap = load_of[from] - load_of[to];
            // Half of the gap balances both; a larger bin would move back.
            let fits = |&bin: &usize| {
                self.replica_of[bin] == from && !is_moved[bin] && loads[bin] > 0.0 && loads[bin] < gap
            };
            let distance = |bin: usize| (loads[bin] - gap / 2.0).abs();
            let bins = (0..loads.len()).filter(fits);
            bins.min_by(|&one, &other| distance(one).total_cmp(&distance(other))).map(|bin| (bin, to))
        })
    }
}

/// Returns the replica with the least load, the first of several.
fn least(load_of: &[f64]) -> usize {
    (0..load_of.len()).min_by(|&one, &other| load_of[one].total_cmp(&load_of[other])).unwrap_or(0)
}

fn check(loads: &[f64], bins: usize, replicas: usize) -> Result<(), Error> {
    if loads.len() != bins {
        let (what, range) = ("number of loads", "the number of bins");
        return Err(Error::Value { what, value: loads.len() as f64, range });
    }
    if !(1..=CORES_MAX).contains(&replicas) {
        let (what, range) = ("number of replicas", "1 or more, and no more than there may be cores, 65536");
        return Err(Error::Value { what, value: replicas as f64, range });
    }
    match loads.iter().find(|load| !(load.is_finite() && **load >= 0.0)) {
        Some(&value) => Err(Error::Value { what: "load of a bin", value, range: "0 or more" }),
        None => Ok(()),
    }
}
