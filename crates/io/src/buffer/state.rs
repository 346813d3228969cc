//! State of a pool: arenas of memory, their free slots, and the accounts that share the budget.

use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use super::region::{HUGE_PAGE_BYTES, Region};

pub(super) type AccountId = usize;

/// The location of a buffer: an arena and an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Slot {
    pub(super) arena: usize,
    pub(super) index: usize,
}

/// A region that is divided into slots of one size.
#[derive(Debug)]
struct Arena {
    region: Region,
    size: usize,
    count: usize,
    /// Number of free slots.
    free: usize,
    /// Whether the arena is never unmapped or trimmed, because it may be registered with the kernel.
    is_fixed: bool,
}

/// Free slots of one size, used last in, first out: the last one is still in the CPU's cache.
#[derive(Debug, Default)]
struct Class {
    backed: Vec<Slot>,
    unbacked: Vec<Slot>,
}

#[derive(Debug)]
struct AccountState {
    guarantee: usize,
    used: usize,
    is_open: bool,
}

impl AccountState {
    fn unused_guarantee(&self) -> usize {
        self.guarantee.saturating_sub(self.used)
    }
}

/// Smallest slots placed on huge pages. Direct transfers of smaller ones cost little more on ordinary pages, and a
/// huge page would hold many backed but unused slots.
const HUGE_SLOT_MIN_BYTES: usize = 64 << 10;
/// Smallest budget with which several slots share a huge page, which is backed as a whole: for each slot size at most
/// 1/24 of the budget then lies in a partly used huge page.
const HUGE_SHARED_BUDGET_MIN_BYTES: usize = 24 * HUGE_PAGE_BYTES;
/// Smallest slots that have arenas of their own.
const SINGLE_SLOT_MIN_BYTES: usize = HUGE_PAGE_BYTES / 2;
/// Size of an arena for small slots: a few mappings instead of thousands.
const SMALL_ARENA_BYTES: usize = 1 << 20;

#[derive(Debug, Default)]
pub(super) struct State {
    arenas: Vec<Option<Arena>>,
    /// Sorted by size; only a few entries.
    classes: Vec<(usize, Class)>,
    accounts: Vec<Option<AccountState>>,
    /// Bytes of buffers, reservations and loans.
    used: usize,
    /// Bytes guaranteed to accounts beyond their use.
    unused_guarantees: usize,
    /// Bytes of backed slots and of loans.
    resident: usize,
    /// Bytes in use, by account and the party that will release them.
    holders: Vec<(AccountId, Holder, usize)>,
    waiting: Vec<ThreadNumber>,
    /// Number of releases so far.
    releases: u64,
}

/// Number of a thread. Unlike the standard library's ID, it is obtained without counting references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ThreadNumber(u64);

impl ThreadNumber {
    pub(super) fn current() -> ThreadNumber {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        thread_local! {
            static NUMBER: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
        }
        // A buffer may be reserved while a thread's variables are destroyed.
        NUMBER.try_with(|number| ThreadNumber(*number)).unwrap_or(ThreadNumber(u64::MAX))
    }
}

/// The party that will release a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// The thread that reserved it, which may itself wait for another buffer later.
    Thread(ThreadNumber),
    /// Another thread, which received the buffer.
    Elsewhere,
}

impl State {
    pub(super) fn fixed(region: Region, size: usize, count: usize) -> State {
        let backed = (0..count).rev().map(|index| Slot { arena: 0, index }).collect();
        State {
            arenas: vec![Some(Arena { region, size, count, free: count, is_fixed: true })],
            classes: vec![(size, Class { backed, unbacked: Vec::new() })],
            resident: size * count,
            ..State::default()
        }
    }

    pub(super) fn resident(&self) -> usize {
        self.resident
    }

    /// Returns the bytes that are used or guaranteed.
    pub(super) fn claimed(&self) -> usize {
        self.used + self.unused_guarantees
    }

    pub(super) fn open_account(&mut self, guarantee: usize, budget: usize) -> Option<AccountId> {
        if self.claimed() + guarantee > budget {
            return None;
        }
        self.unused_guarantees += guarantee;
        let account = Some(AccountState { guarantee, used: 0, is_open: true });
        let free = self.accounts.iter().position(Option::is_none);
        let id = free.unwrap_or(self.accounts.len());
        match free {
            Some(free) => self.accounts[free] = account,
            None => self.accounts.push(account),
        }
        Some(id)
    }

    pub(super) fn close_account(&mut self, id: AccountId) {
        let account = self.account(id);
        let unused = account.unused_guarantee();
        (account.guarantee, account.is_open) = (0, false);
        let is_used = account.used > 0;
        self.unused_guarantees -= unused;
        // Waiters may now be able to claim the unused guarantee.
        self.releases += 1;
        if !is_used {
            self.accounts[id] = None;
        }
    }

    pub(super) fn guarantee(&self, id: AccountId) -> usize {
        self.accounts[id].as_ref().map_or(0, |account| account.guarantee)
    }

    pub(super) fn unused_guarantee(&self, id: AccountId) -> usize {
        self.accounts[id].as_ref().map_or(0, AccountState::unused_guarantee)
    }

    pub(super) fn move_guarantee(&mut self, from: AccountId, bytes: usize, to: AccountId) {
        let unused = self.account(from).unused_guarantee().min(bytes);
        self.account(from).guarantee -= unused;
        let to = self.account(to);
        let before = to.unused_guarantee();
        to.guarantee += unused;
        let added = to.unused_guarantee() - before;
        // An account beyond its guarantee first covers its use.
        self.unused_guarantees -= unused - added;
    }

    pub(super) fn shrink_account(&mut self, id: AccountId, guarantee: usize) {
        let account = self.account(id);
        let before = account.unused_guarantee();
        account.guarantee = account.guarantee.min(guarantee);
        self.unused_guarantees -= before - self.account(id).unused_guarantee();
        self.releases += 1;
    }

    /// Claims `size` bytes for an account, first from its guarantee, then from the rest of the budget. Returns false
    /// if they do not suffice.
    pub(super) fn claim(&mut self, account: Option<(AccountId, Holder)>, size: usize, budget: usize) -> bool {
        let unused = account.map_or(0, |(id, _)| self.account(id).unused_guarantee());
        if self.used + self.unused_guarantees + size - unused.min(size) > budget {
            return false;
        }
        self.used += size;
        if let Some((id, holder)) = account {
            self.unused_guarantees -= unused.min(size);
            self.account(id).used += size;
            self.hold(id, holder, size);
        }
        true
    }

    /// Returns the bytes claimed by [`State::claim`], and the slot taken for them.
    pub(super) fn release(&mut self, account: Option<(AccountId, Holder)>, size: usize, slot: Option<Slot>) {
        self.used -= size;
        self.releases += 1;
        if let Some((id, holder)) = account {
            let account = self.account(id);
            let before = account.unused_guarantee();
            account.used -= size;
            let unused = account.unused_guarantee() - before;
            let is_over = account.used == 0 && !account.is_open;
            self.unused_guarantees += unused;
            if is_over {
                self.accounts[id] = None;
            }
            self.let_go(id, holder, size);
        }
        if let Some(slot) = slot {
            self.arena_mut(slot.arena).free += 1;
            self.class(size).backed.push(slot);
        }
    }

    /// Charges `bytes` of memory outside of the pool to the budget, unless they are claimed. Free slots are discarded
    /// to make room.
    pub(super) fn lend(&mut self, bytes: usize, budget: usize) -> bool {
        let is_free = self.claimed().checked_add(bytes).is_some_and(|claimed| claimed <= budget);
        if !is_free || self.make_room(bytes, budget).is_err() {
            return false;
        }
        self.used += bytes;
        self.resident += bytes;
        true
    }

    /// Reverts [`State::lend`].
    pub(super) fn take_back(&mut self, bytes: usize) {
        self.used -= bytes;
        self.resident -= bytes;
        self.releases += 1;
    }

    /// Takes a backed slot of `size` bytes, which must have been claimed.
    pub(super) fn take_slot(&mut self, size: usize, budget: usize, huge: bool) -> io::Result<Slot> {
        let slot = match self.class(size).backed.pop() {
            Some(slot) => slot,
            None => self.back_slot(size, budget, huge)?,
        };
        self.arena_mut(slot.arena).free -= 1;
        Ok(slot)
    }

    fn back_slot(&mut self, size: usize, budget: usize, huge: bool) -> io::Result<Slot> {
        self.make_room(size, budget)?;
        if self.class(size).unbacked.is_empty() {
            self.map_arena(size, budget, huge)?;
        }
        if let Some(slot) = self.class(size).backed.pop() {
            return Ok(slot);
        }
        let slot = self.class(size).unbacked.pop().expect("a new arena has slots");
        let range = slot.index * size..(slot.index + 1) * size;
        if let Err(error) = self.arena_mut(slot.arena).region.populate(range) {
            self.class(size).unbacked.push(slot);
            return Err(error);
        }
        self.resident += size;
        Ok(slot)
    }

    /// Maps an arena of one or more slots of a size.
    fn map_arena(&mut self, size: usize, budget: usize, huge: bool) -> io::Result<()> {
        // A huge page is backed as a whole, so all of its slots must be within the budget and fill it.
        let fills_huge_page = huge
            && (HUGE_SLOT_MIN_BYTES..HUGE_PAGE_BYTES).contains(&size)
            && HUGE_PAGE_BYTES.is_multiple_of(size);
        let wastes_little = size >= SINGLE_SLOT_MIN_BYTES || budget >= HUGE_SHARED_BUDGET_MIN_BYTES;
        let is_huge_page = fills_huge_page && wastes_little && self.resident + HUGE_PAGE_BYTES <= budget;
        let count = match size {
            _ if is_huge_page => HUGE_PAGE_BYTES / size,
            SINGLE_SLOT_MIN_BYTES.. => 1,
            _ => (SMALL_ARENA_BYTES / size).max(1),
        };
        let length = if is_huge_page { HUGE_PAGE_BYTES } else { size * count };
        let region = Region::unbacked(length, huge && (is_huge_page || size >= HUGE_PAGE_BYTES))?;
        if is_huge_page {
            region.populate(0..length)?;
            self.resident += size * count;
        }
        let at = self.arenas.iter().position(Option::is_none).unwrap_or(self.arenas.len());
        if at == self.arenas.len() {
            self.arenas.push(None);
        }
        self.arenas[at] = Some(Arena { region, size, count, free: count, is_fixed: false });
        let slots = (0..count).rev().map(|index| Slot { arena: at, index });
        let class = self.class(size);
        if is_huge_page {
            class.backed.extend(slots)
        } else {
            class.unbacked.extend(slots)
        }
        Ok(())
    }

    /// Discards free slots until `size` more bytes are within the budget.
    fn make_room(&mut self, size: usize, budget: usize) -> io::Result<()> {
        while self.resident + size > budget {
            let found = self.classes.iter_mut().find_map(|(size, class)| Some((*size, class.backed.pop()?)));
            let (of, slot) = found.expect("what is claimed is within the budget, so the rest of it is free");
            let arena = self.arenas[slot.arena].as_ref().expect("an arena with a slot");
            assert!(!arena.is_fixed, "a fixed pool has one size");
            // SAFETY: no buffer uses a free slot.
            unsafe { arena.region.discard(slot.index * of..(slot.index + 1) * of) }?;
            self.resident -= of;
            self.class(of).unbacked.push(slot);
            self.unmap_if_unused(slot.arena);
        }
        Ok(())
    }

    /// Unmaps an arena without used or backed slots.
    fn unmap_if_unused(&mut self, at: usize) {
        let arena = self.arenas[at].as_ref().expect("an arena with a slot");
        let (size, count) = (arena.size, arena.count);
        let class = self.class(size);
        if class.unbacked.iter().filter(|slot| slot.arena == at).count() == count {
            class.unbacked.retain(|slot| slot.arena != at);
            self.arenas[at] = None;
        }
    }

    pub(super) fn start(&self, slot: Slot) -> NonNull<u8> {
        let arena = self.arenas[slot.arena].as_ref().expect("an arena with a slot");
        debug_assert!(slot.index < arena.count);
        // SAFETY: the region has at least `size * count` bytes, and is not at address 0.
        unsafe { NonNull::new_unchecked(arena.region.start().add(slot.index * arena.size)) }
    }

    /// Transfers `size` bytes of an account to another holder.
    pub(super) fn pass_on(&mut self, account: AccountId, from: &mut Holder, to: Holder, size: usize) {
        self.let_go(account, *from, size);
        self.hold(account, to, size);
        *from = to;
    }

    fn hold(&mut self, account: AccountId, holder: Holder, size: usize) {
        match self.holders.iter_mut().find(|(of, known, _)| (*of, *known) == (account, holder)) {
            Some((_, _, bytes)) => *bytes += size,
            None => self.holders.push((account, holder, size)),
        }
    }

    fn let_go(&mut self, account: AccountId, holder: Holder, size: usize) {
        let at = self.holders.iter().position(|&(of, known, _)| (of, known) == (account, holder));
        let at = at.expect("a holder of what is released");
        self.holders[at].2 -= size;
        if self.holders[at].2 == 0 {
            self.holders.swap_remove(at);
        }
    }

    /// Returns whether a party other than this thread, which is not itself waiting for memory, holds memory whose
    /// release would help an account. Memory within the guarantee of another account does not help: it stays
    /// guaranteed to that account.
    pub(super) fn others_can_release(&self, me: ThreadNumber, account: Option<AccountId>) -> bool {
        let helps = |id: AccountId| {
            let is_beyond = |found: &AccountState| found.used > found.guarantee;
            account == Some(id) || self.accounts[id].as_ref().is_some_and(is_beyond)
        };
        self.holders.iter().filter(|(id, _, _)| helps(*id)).any(|(_, holder, _)| match holder {
            Holder::Elsewhere => true,
            Holder::Thread(thread) => *thread != me && !self.waiting.contains(thread),
        })
    }

    pub(super) fn releases(&self) -> u64 {
        self.releases
    }

    pub(super) fn begin_waiting(&mut self, thread: ThreadNumber) {
        self.waiting.push(thread);
    }

    pub(super) fn end_waiting(&mut self, thread: ThreadNumber) {
        if let Some(at) = self.waiting.iter().position(|&waiting| waiting == thread) {
            self.waiting.swap_remove(at);
        }
    }

    pub(super) fn is_awaited(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn class(&mut self, size: usize) -> &mut Class {
        let at = self.classes.iter().position(|&(known, _)| known == size).unwrap_or_else(|| {
            self.classes.push((size, Class::default()));
            self.classes.len() - 1
        });
        &mut self.classes[at].1
    }

    fn account(&mut self, id: AccountId) -> &mut AccountState {
        self.accounts[id].as_mut().expect("an account that is open or in use")
    }

    fn arena_mut(&mut self, at: usize) -> &mut Arena {
        self.arenas[at].as_mut().expect("an arena with a slot")
    }
}
