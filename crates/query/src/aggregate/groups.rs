//! Groups: keys and states within a memory budget.

use crate::Error;

use super::index::{FIRST_GROUP, NO_GROUP};
use super::keys::Keys;
use super::layout::Spec;
use super::state::State;

/// Number of hash partitions at each level.
pub(crate) const PARTITION_COUNT: usize = 1 << PARTITION_BITS;
/// 16 partitions: few enough for runs of at least a transfer; three levels suffice for 4,096 times the memory.
const PARTITION_BITS: u32 = 4;
/// Number of levels that fit the lower half of a hash; the index uses the upper half.
pub(crate) const LEVELS_MAX: u32 = 32 / PARTITION_BITS;
/// Initial capacity in groups.
const GROUPS_MIN: usize = 1024;
/// Capacities between one power of two and the next, so that the last growth uses the remaining memory.
const GROWTH_STEPS: usize = 8;
/// Minimum number of groups that are accepted regardless of the budget; with fewer, repartitioning makes no progress.
const GROUPS_FLOOR: usize = 64;

/// Groups with their states.
#[derive(Debug)]
pub(crate) struct Groups {
    pub(crate) keys: Keys,
    pub(crate) states: Vec<State>,
    /// Capacity in groups.
    capacity: usize,
}

/// Groups in the order of their partitions.
#[derive(Debug)]
pub(crate) struct Partitioned {
    groups: Vec<u32>,
    ends: Vec<usize>,
}

impl Partitioned {
    /// Returns the groups of a partition.
    pub(crate) fn part(&self, partition: usize) -> &[u32] {
        let start = if partition == 0 { 0 } else { self.ends[partition - 1] };
        &self.groups[start..self.ends[partition]]
    }
}

impl Groups {
    pub(crate) fn new(keys: Keys, specs: &[Spec]) -> Groups {
        let states = specs.iter().map(|spec| State::new(spec.kind)).collect();
        Groups { keys, states, capacity: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns the bytes per group, without the index and variable-length keys and values.
    pub(crate) fn bytes_per_group(&self) -> usize {
        self.keys.bytes_per_group() + self.states.iter().map(State::bytes_per_group).sum::<usize>()
    }

    fn bytes(&self, capacity: usize) -> usize {
        capacity * self.bytes_per_group() + self.keys.index_bytes(capacity) + self.variable_bytes()
    }

    /// Allocated bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes(self.capacity)
    }

    /// Returns the bytes of variable-length keys and values.
    pub(crate) fn variable_bytes(&self) -> usize {
        self.keys.variable_bytes() + self.states.iter().map(State::variable_bytes).sum::<usize>()
    }

    /// Reserves space for more groups within a budget in bytes. Returns false if the budget is exceeded and there are
    /// at least [`GROUPS_FLOOR`] groups.
    pub(crate) fn make_room(&mut self, more: usize, budget: usize) -> bool {
        let needed = self.len() + more + FIRST_GROUP as usize;
        let floor = GROUPS_FLOOR * self.bytes_per_group();
        let must = self.len() == 0 || self.len() < GROUPS_FLOOR && self.variable_bytes() <= budget.max(floor);
        if needed <= self.capacity {
            return must || self.bytes(self.capacity) <= budget;
        }
        // While a column of states grows, its old allocation exists as well.
        let is_within = |capacity: &usize| self.bytes(*capacity) + self.bytes(self.capacity) / 2 <= budget;
        let doubled = needed.max(GROUPS_MIN).next_power_of_two();
        let mut sizes = (1..=GROWTH_STEPS).rev().map(|step| doubled / 2 + doubled / 2 / GROWTH_STEPS * step);
        self.capacity = match sizes.find(|capacity| *capacity >= needed && is_within(capacity)) {
            Some(capacity) => capacity,
            None if must => needed,
            None => return false,
        };
        self.keys.reserve(self.capacity);
        self.states.iter_mut().for_each(|state| state.reserve(self.capacity));
        true
    }

    /// Adds initial states for new groups.
    pub(crate) fn grow_states(&mut self) {
        let groups = self.len() + FIRST_GROUP as usize;
        self.states.iter_mut().for_each(|state| state.resize(groups));
    }

    /// Removes all groups and keeps most of the memory.
    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.states.iter_mut().for_each(State::clear);
    }

    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> + use<> {
        FIRST_GROUP..FIRST_GROUP + self.len() as u32
    }

    /// Partitions the groups by the hash bits of a level; each partition is in the order of group numbers.
    pub(crate) fn partitioned(&self, level: u32) -> Partitioned {
        let shift = (level % LEVELS_MAX) * PARTITION_BITS;
        let partition = |group: u32| (self.keys.hash(group) >> shift) as usize % PARTITION_COUNT;
        let mut ends = vec![0; PARTITION_COUNT];
        self.numbers().for_each(|group| ends[partition(group)] += 1);
        let mut end = 0;
        for count in &mut ends {
            end += *count;
            *count = end - *count;
        }
        let mut groups = vec![NO_GROUP; self.len()];
        for group in self.numbers() {
            let place = &mut ends[partition(group)];
            groups[*place] = group;
            *place += 1;
        }
        Partitioned { groups, ends }
    }

    /// Appends a record of a group: key length (`u32`), key, states.
    pub(crate) fn write(&self, group: u32, record: &mut Vec<u8>) {
        let start = record.len();
        record.extend([0; 4]);
        self.keys.write(group, record);
        let key_bytes = (record.len() - start - 4) as u32;
        record[start..start + 4].copy_from_slice(&key_bytes.to_le_bytes());
        self.states.iter().for_each(|state| state.write(group, record));
    }

    /// Merges a record, after [`Groups::make_room`] for one group.
    pub(crate) fn merge(&mut self, record: &[u8]) -> Result<(), Error> {
        let merged = (|| {
            let (length, rest) = record.split_first_chunk::<4>()?;
            let (key, mut states) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            let group = self.keys.insert(key);
            self.grow_states();
            self.states.iter_mut().try_for_each(|state| state.merge(group, &mut states))
        })();
        merged.ok_or_else(|| Error::Query("the state of a group cannot be merged: a sum does not fit".into()))
    }
}
