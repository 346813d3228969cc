//! Groups: their keys and states, within a number of bytes.

use crate::Error;

use super::index::{FIRST_GROUP, NO_GROUP};
use super::keys::Keys;
use super::layout::Spec;
use super::state::State;

/// Partitions of groups by their hashes, at each level.
pub(crate) const PARTITION_COUNT: usize = 1 << PARTITION_BITS;
/// 16 partitions: few enough that a run of each is worth a transfer, and that three levels hold 4,096 times the memory.
const PARTITION_BITS: u32 = 4;
/// Levels that a hash has bits for; the index uses its upper half.
pub(crate) const LEVELS_MAX: u32 = 32 / PARTITION_BITS;
/// Groups that there is room for at first.
const GROUPS_MIN: usize = 1024;
/// Steps between one power of two and the next: the last growth takes what is left of the memory.
const GROWTH_STEPS: usize = 8;
/// Groups of fixed size that there is always room for: with fewer, partitions of partitions would not get smaller.
const GROUPS_FLOOR: usize = 64;

/// Groups with their states.
#[derive(Debug)]
pub(crate) struct Groups {
    pub(crate) keys: Keys,
    pub(crate) states: Vec<State>,
    /// Groups that there is room for.
    capacity: usize,
}

/// Groups in the order of their partitions.
#[derive(Debug)]
pub(crate) struct Partitioned {
    groups: Vec<u32>,
    ends: Vec<usize>,
}

impl Partitioned {
    /// The groups of a partition.
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

    /// The number of groups.
    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Bytes of a group, but for the index, and for keys and values of bytes.
    pub(crate) fn bytes_per_group(&self) -> usize {
        self.keys.bytes_per_group() + self.states.iter().map(State::bytes_per_group).sum::<usize>()
    }

    fn bytes(&self, capacity: usize) -> usize {
        capacity * self.bytes_per_group() + self.keys.index_bytes(capacity) + self.variable_bytes()
    }

    /// Bytes that it has room in.
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes(self.capacity)
    }

    fn variable_bytes(&self) -> usize {
        self.keys.variable_bytes() + self.states.iter().map(State::variable_bytes).sum::<usize>()
    }

    /// Makes room for more groups within a number of bytes; false if there is none, unless there are few groups.
    pub(crate) fn make_room(&mut self, more: usize, budget: usize) -> bool {
        let needed = self.len() + more + FIRST_GROUP as usize;
        let floor = GROUPS_FLOOR * self.bytes_per_group();
        let must = self.len() == 0 || self.len() < GROUPS_FLOOR && self.variable_bytes() <= budget.max(floor);
        if needed <= self.capacity {
            return must || self.bytes(self.capacity) <= budget;
        }
        // While a column of states grows, its old memory is still there.
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

    /// Gives states to new groups.
    pub(crate) fn grow_states(&mut self) {
        let groups = self.len() + FIRST_GROUP as usize;
        self.states.iter_mut().for_each(|state| state.resize(groups));
    }

    /// Forgets all groups, and keeps most of the memory.
    pub(crate) fn clear(&mut self) {
        self.keys.clear();
        self.states.iter_mut().for_each(State::clear);
    }

    /// All groups.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> + use<> {
        FIRST_GROUP..FIRST_GROUP + self.len() as u32
    }

    /// Groups by partition, within which they have the order of their numbers.
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

    /// Appends a record of a group: the length of its key, the key, and its states.
    pub(crate) fn write(&self, group: u32, record: &mut Vec<u8>) {
        let start = record.len();
        record.extend([0; 4]);
        self.keys.write(group, record);
        let key_bytes = (record.len() - start - 4) as u32;
        record[start..start + 4].copy_from_slice(&key_bytes.to_le_bytes());
        self.states.iter().for_each(|state| state.write(group, record));
    }

    /// Merges a record. There is room for another group.
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
