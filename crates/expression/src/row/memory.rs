//! Memory of the values that an expression makes and does not have from its row: texts, and results of kernels.

use std::cell::{Cell, OnceCell, RefCell};

use arrow_array::ArrayRef;

/// The values that steps made for the current row.
#[derive(Debug, Default)]
pub(super) struct Memory {
    buffers: Vec<Buffer>,
    is_used: Cell<bool>,
}

/// The value of one step, which runs at most once on a row.
#[derive(Debug, Default)]
struct Buffer {
    text: OnceCell<String>,
    /// The memory of earlier texts.
    spare: RefCell<String>,
    array: OnceCell<ArrayRef>,
}

impl Memory {
    /// Adds a buffer and returns its index.
    pub(super) fn add(&mut self) -> usize {
        self.buffers.push(Buffer::default());
        self.buffers.len() - 1
    }

    /// Writes a text to a buffer, in memory that earlier rows have used.
    ///
    /// # Panics
    /// If the buffer has a text of this row.
    pub(super) fn text(&self, buffer: usize, write: impl FnOnce(&mut String)) -> &str {
        let buffer = &self.buffers[buffer];
        self.is_used.set(true);
        let mut text = buffer.spare.take();
        text.clear();
        write(&mut text);
        assert!(buffer.text.set(text).is_ok(), "a step runs once on a row");
        buffer.text.get().map_or("", String::as_str)
    }

    /// Keeps an array in a buffer.
    ///
    /// # Panics
    /// If the buffer has an array of this row.
    pub(super) fn array(&self, buffer: usize, array: ArrayRef) -> &ArrayRef {
        self.is_used.set(true);
        let mut array = Some(array);
        let kept = self.buffers[buffer].array.get_or_init(|| array.take().expect("taken once"));
        assert!(array.is_none(), "a step runs once on a row");
        kept
    }

    /// Forgets the values of the last row.
    pub(super) fn clear(&mut self) {
        if !self.is_used.replace(false) {
            return;
        }
        for buffer in &mut self.buffers {
            if let Some(text) = buffer.text.take() {
                *buffer.spare.get_mut() = text;
            }
            buffer.array.take();
        }
    }
}
