//! Bins on their way from one replica to another.

use std::any::Any;
use std::collections::BTreeMap;

use crate::state::StateError;
use crate::sync::{Mutex, lock};

/// A change of the replicas of bins, which a barrier carries through the graph.
pub(crate) struct Migration {
    group: usize,
    /// The replica of each bin before and after.
    from: Vec<usize>,
    to: Vec<usize>,
    /// Instances that have been handed over, by the operator's number in the chain and the bin.
    parcels: Mutex<BTreeMap<(usize, usize), BinState>>,
}

/// The instance of a bin, and the copy of it to which a replica returns after a panic. None of a replica that has stopped.
#[derive(Default)]
pub(crate) struct BinState {
    pub(crate) instance: Option<Box<dyn Any + Send>>,
    pub(crate) copy: Option<Box<dyn Any + Send>>,
}

/// An operator that has an instance for each of its bins.
pub(crate) trait BinOwner {
    /// Gives an instance away.
    fn give(&mut self, bin: usize) -> Option<Box<dyn Any + Send>>;

    /// Takes an instance that another replica has given away.
    fn take(&mut self, bin: usize, instance: Box<dyn Any + Send>);

    /// Returns whether the instances have states; none if there are no instances.
    fn has_state(&mut self) -> Option<bool>;

    /// Returns the states of all instances as bytes; none if the instances have none.
    fn save(&mut self) -> Option<Vec<u8>>;

    /// Loads the states of its bins from those of all bins.
    fn load(&mut self, bytes: &[u8]) -> Result<(), StateError>;
}

impl Migration {
    pub(crate) fn new(group: usize, from: &[usize], to: &[usize]) -> Migration {
        assert_eq!(from.len(), to.len(), "bins move between replicas of one operator");
        Migration { group, from: from.to_vec(), to: to.to_vec(), parcels: Mutex::new(BTreeMap::new()) }
    }

    /// Returns the replica of each bin afterwards, if the bins are of this group.
    pub(crate) fn table_of(&self, group: usize) -> Option<&[usize]> {
        (group == self.group).then_some(&self.to[..])
    }

    /// Returns the bins that leave a replica of a group.
    pub(crate) fn leaving(&self, group: usize, replica: usize) -> Vec<usize> {
        self.bins(group, |from, to| from == replica && to != replica)
    }

    /// Returns the bins that come to a replica of a group.
    pub(crate) fn coming(&self, group: usize, replica: usize) -> Vec<usize> {
        self.bins(group, |from, to| from != replica && to == replica)
    }

    fn bins(&self, group: usize, is_wanted: impl Fn(usize, usize) -> bool) -> Vec<usize> {
        let bins = self.from.iter().zip(&self.to).enumerate();
        let wanted = bins.filter(|(_, (from, to))| group == self.group && is_wanted(**from, **to));
        wanted.map(|(bin, _)| bin).collect()
    }

    /// Hands bins of an operator over.
    pub(crate) fn put(&self, stage: usize, parcels: Vec<(usize, BinState)>) {
        lock(&self.parcels).extend(parcels.into_iter().map(|(bin, parcel)| ((stage, bin), parcel)));
    }

    /// These bins of an operator, if all of them have been handed over.
    pub(crate) fn get(&self, stage: usize, bins: &[usize]) -> Option<Vec<(usize, BinState)>> {
        let mut parcels = lock(&self.parcels);
        if bins.iter().any(|&bin| !parcels.contains_key(&(stage, bin))) {
            return None;
        }
        Some(bins.iter().map(|&bin| (bin, parcels.remove(&(stage, bin)).unwrap_or_default())).collect())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn bins_come_when_all_of_them_have_been_handed_over() {
        let migration = Migration::new(3, &[0, 0, 1, 1, 2], &[0, 2, 1, 2, 2]);
        assert_eq!(migration.leaving(3, 0), [1]);
        assert_eq!(migration.leaving(3, 1), [3]);
        assert_eq!(migration.coming(3, 2), [1, 3]);
        assert_eq!((migration.coming(2, 2), migration.table_of(2)), (Vec::new(), None));
        let parcel = |number: u32| BinState { instance: Some(Box::new(number)), copy: None };
        migration.put(0, vec![(1, parcel(10))]);
        migration.put(1, vec![(3, parcel(31))]);
        assert!(migration.get(0, &[1, 3]).is_none());
        migration.put(0, vec![(3, parcel(30))]);
        let got = migration.get(0, &[1, 3]).unwrap();
        let numbers: Vec<u32> =
            got.into_iter().map(|(_, parcel)| *parcel.instance.unwrap().downcast().unwrap()).collect();
        assert_eq!(numbers, [10, 30]);
        assert!(migration.get(0, &[1]).is_none(), "a bin comes once");
    }
}
