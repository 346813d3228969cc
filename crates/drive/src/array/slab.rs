//! Items by number; numbers are reused.

use std::ops::{Index, IndexMut};

/// Items with the numbers under which they were inserted.
#[derive(Clone, Debug)]
pub(super) struct Slab<T> {
    items: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Default for Slab<T> {
    fn default() -> Slab<T> {
        Slab { items: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    pub(super) fn len(&self) -> usize {
        self.items.len() - self.free.len()
    }

    pub(super) fn insert(&mut self, item: T) -> usize {
        match self.free.pop() {
            Some(number) => {
                self.items[number] = Some(item);
                number
            }
            None => {
                self.items.push(Some(item));
                self.items.len() - 1
            }
        }
    }

    pub(super) fn remove(&mut self, number: usize) -> T {
        self.free.push(number);
        self.items[number].take().expect("an item is removed once")
    }
}

impl<T> Index<usize> for Slab<T> {
    type Output = T;
    fn index(&self, number: usize) -> &T {
        self.items[number].as_ref().expect("an item in use")
    }
}

impl<T> IndexMut<usize> for Slab<T> {
    fn index_mut(&mut self, number: usize) -> &mut T {
        self.items[number].as_mut().expect("an item in use")
    }
}
