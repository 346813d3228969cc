//! Panes: the states of keys in a span of time, from which windows are made.

use std::collections::BTreeMap;
use std::ops::RangeBounds;

use crate::operators::key::{Key, Table, Value};
use crate::state::{Decode, Decoder, Encode, StateError};

/// Panes by their number.
pub(super) struct Panes<K, S> {
    panes: BTreeMap<u64, Pane<K, S>>,
    pool: Pool<K, Slot<S>>,
    /// Slots that have changed.
    changed: usize,
}

/// The states of a pane.
pub(super) struct Pane<K, S> {
    slots: Slots<K, S>,
    changed: usize,
    /// Whether a value has come after the slots were sorted. They are not sorted again, as more such values may come.
    was_updated: bool,
}

/// States by key.
enum Slots<K, S> {
    /// States of a pane that still receives values.
    Table(Table<K, Slot<S>>),
    /// States of a pane that several windows consist of, in the order of the keys.
    Sorted(Vec<(K, Slot<S>)>),
}

/// The state of a key in a pane.
pub(super) struct Slot<S> {
    pub(super) state: S,
    /// The latest arrival of a value.
    pub(super) arrival_ns: u64,
    /// Whether a value has come after a window with the pane was emitted.
    pub(super) is_changed: bool,
}

impl<K, S> Pane<K, S> {
    fn new(slots: Table<K, Slot<S>>) -> Pane<K, S> {
        Pane { slots: Slots::Table(slots), changed: 0, was_updated: false }
    }

    pub(super) fn has_changed(&self) -> bool {
        self.changed > 0
    }

    fn len(&self) -> usize {
        match &self.slots {
            Slots::Table(table) => table.len(),
            Slots::Sorted(sorted) => sorted.len(),
        }
    }

    fn slots_mut(&mut self) -> impl Iterator<Item = &mut Slot<S>> {
        let (table, sorted) = match &mut self.slots {
            Slots::Table(table) => (Some(table), None),
            Slots::Sorted(sorted) => (None, Some(sorted)),
        };
        let sorted = sorted.into_iter().flatten().map(|(_, slot)| slot);
        table.into_iter().flat_map(|table| table.values_mut()).chain(sorted)
    }
}

impl<K: Key, S> Pane<K, S> {
    /// Returns the slots as a table, to which a value is added.
    fn table(&mut self, pool: &mut Pool<K, Slot<S>>) -> &mut Table<K, Slot<S>> {
        if let Slots::Sorted(sorted) = &mut self.slots {
            let mut table = pool.get();
            table.extend(sorted.drain(..));
            self.slots = Slots::Table(table);
            self.was_updated = true;
        }
        match &mut self.slots {
            Slots::Table(table) => table,
            Slots::Sorted(_) => unreachable!("the slots became a table a line ago"),
        }
    }

    /// Sorts the slots, unless values come for them.
    fn sort(&mut self, pool: &mut Pool<K, Slot<S>>) {
        if let Slots::Table(table) = &mut self.slots
            && !self.was_updated
        {
            let sorted: Vec<_> = table.drain().collect();
            pool.put(std::mem::take(table), sorted.len());
            // Stored before, so that a comparison that panics loses none.
            self.slots = Slots::Sorted(sorted);
            if let Slots::Sorted(sorted) = &mut self.slots {
                sorted.sort_unstable_by(|one, other| one.0.cmp(&other.0));
            }
        }
    }

    /// Adds the slots to a list, with the number of the pane.
    pub(super) fn append_to<'a>(&'a self, list: &mut Vec<(&'a K, u64, &'a Slot<S>)>, number: u64) {
        match &self.slots {
            Slots::Table(table) => list.extend(table.iter().map(|(key, slot)| (key, number, slot))),
            Slots::Sorted(sorted) => list.extend(sorted.iter().map(|(key, slot)| (key, number, slot))),
        }
    }
}

impl<K: Key, S> Panes<K, S> {
    pub(super) fn new() -> Panes<K, S> {
        Panes { panes: BTreeMap::new(), pool: Pool::default(), changed: 0 }
    }

    /// Adds to the state of a key by `add`. If that panics, no key is new and none counts as changed.
    pub(super) fn update(
        &mut self,
        pane: u64,
        key: &K,
        arrival_ns: u64,
        is_change: bool,
        init: impl FnOnce() -> S,
        add: impl FnOnce(&mut S),
    ) {
        let Panes { panes, pool, changed } = self;
        let pane = panes.entry(pane).or_insert_with(|| Pane::new(pool.get()));
        let table = pane.table(pool);
        let slot = match table.get_mut(key) {
            Some(slot) => {
                add(&mut slot.state);
                slot
            }
            None => {
                let mut slot = Slot { state: init(), arrival_ns: 0, is_changed: false };
                add(&mut slot.state);
                table.entry(key.clone()).or_insert(slot)
            }
        };
        slot.arrival_ns = slot.arrival_ns.max(arrival_ns);
        if is_change && !slot.is_changed {
            slot.is_changed = true;
            pane.changed += 1;
            *changed += 1;
        }
    }

    pub(super) fn have_changed(&self) -> bool {
        self.changed > 0
    }

    /// Forgets which have changed.
    pub(super) fn settle(&mut self) {
        for pane in self.panes.values_mut().filter(|pane| pane.has_changed()) {
            pane.slots_mut().for_each(|slot| slot.is_changed = false);
            pane.changed = 0;
        }
        self.changed = 0;
    }

    pub(super) fn range(&self, panes: impl RangeBounds<u64>) -> impl Iterator<Item = (u64, &Pane<K, S>)> {
        self.panes.range(panes).map(|(&number, pane)| (number, pane))
    }

    /// Sorts the panes of a window, each once for all windows that are made of it.
    pub(super) fn sort(&mut self, panes: impl RangeBounds<u64>) {
        self.panes.range_mut(panes).for_each(|(_, pane)| pane.sort(&mut self.pool));
    }

    /// Moves the states of a pane into `slots` and frees it.
    pub(super) fn drain(&mut self, pane: u64, slots: &mut Vec<(K, Slot<S>)>) {
        if let Some(pane) = self.panes.remove(&pane) {
            self.changed -= pane.changed;
            match pane.slots {
                Slots::Table(mut table) => {
                    slots.extend(table.drain());
                    self.pool.put(table, slots.len());
                }
                Slots::Sorted(sorted) => slots.extend(sorted),
            }
        }
    }

    /// Frees the panes before this one.
    pub(super) fn free_before(&mut self, pane: u64) {
        while let Some(first) = self.panes.first_entry().filter(|first| *first.key() < pane) {
            let Pane { slots, changed, .. } = first.remove();
            self.changed -= changed;
            if let Slots::Table(table) = slots {
                let used = table.len();
                self.pool.put(table, used);
            }
        }
    }

    pub(super) fn clear(&mut self) {
        self.panes.clear();
        self.changed = 0;
    }

    /// Returns the number of states.
    pub(super) fn entries(&self) -> usize {
        self.panes.values().map(Pane::len).sum()
    }
}

/// Tables that are used again, so that a new pane allocates nothing.
pub(in crate::operators) struct Pool<K, V> {
    tables: Vec<Table<K, V>>,
}

/// Tables of a pool at most: panes come and go one at a time but for a jump of the watermark.
const POOL_TABLES_MAX: usize = 4;

/// Capacity of a table that is kept, per entry that its last use had: more would keep the memory of one large pane for
/// ever.
const CAPACITY_PER_ENTRY_MAX: usize = 8;

/// Capacity of a table that is kept whatever its use was.
const CAPACITY_KEPT_ENTRIES: usize = 1024;

impl<K, V> Default for Pool<K, V> {
    fn default() -> Pool<K, V> {
        Pool { tables: Vec::new() }
    }
}

impl<K, V> Pool<K, V> {
    /// Returns an empty table.
    pub(in crate::operators) fn get(&mut self) -> Table<K, V> {
        self.tables.pop().unwrap_or_default()
    }

    /// Takes back a table that has had this number of entries.
    pub(in crate::operators) fn put(&mut self, mut table: Table<K, V>, used: usize) {
        table.clear();
        let is_too_large = table.capacity() > CAPACITY_KEPT_ENTRIES.max(used * CAPACITY_PER_ENTRY_MAX);
        if self.tables.len() < POOL_TABLES_MAX && !is_too_large {
            self.tables.push(table);
        }
    }
}

impl<S: Encode> Encode for Slot<S> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.state.encode(out);
        self.arrival_ns.encode(out);
        self.is_changed.encode(out);
    }
}

impl<S: Decode> Decode for Slot<S> {
    fn decode(from: &mut Decoder<'_>) -> Result<Slot<S>, StateError> {
        Ok(Slot { state: S::decode(from)?, arrival_ns: u64::decode(from)?, is_changed: bool::decode(from)? })
    }
}

impl<K: Key, S: Value> Encode for Panes<K, S> {
    fn encode(&self, out: &mut Vec<u8>) {
        (self.panes.len() as u64).encode(out);
        for (number, pane) in &self.panes {
            number.encode(out);
            // A table is encoded in the order of its keys, too.
            match &pane.slots {
                Slots::Table(table) => table.encode(out),
                Slots::Sorted(sorted) => sorted.encode(out),
            }
        }
    }
}

impl<K: Key, S: Value> Decode for Panes<K, S> {
    fn decode(from: &mut Decoder<'_>) -> Result<Panes<K, S>, StateError> {
        let mut panes = Panes::new();
        for _ in 0..from.length()? {
            let number = u64::decode(from)?;
            let slots: Table<K, Slot<S>> = Table::decode(from)?;
            let changed = slots.values().filter(|slot| slot.is_changed).count();
            panes.changed += changed;
            if panes.panes.insert(number, Pane { changed, ..Pane::new(slots) }).is_some() {
                return Err(StateError::Value("a list of different panes"));
            }
        }
        Ok(panes)
    }
}
