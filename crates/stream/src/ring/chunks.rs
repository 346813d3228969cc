//! Several items of a ring in one go: one store of its index for all of them.

use rtrb::chunks::ChunkError;
use rtrb::{Consumer, Producer};

/// Sends the first of `count` items, as many as there is room for; their number.
pub(super) fn push<T>(
    producer: &mut Producer<T>,
    count: usize,
    items: &mut impl Iterator<Item = T>,
) -> usize {
    let room = match producer.write_chunk_uninit(count) {
        Ok(chunk) => return chunk.fill_from_iter(items.take(count)),
        Err(ChunkError::TooFewSlots(room)) => room,
    };
    producer.write_chunk_uninit(room).map_or(0, |chunk| chunk.fill_from_iter(items.take(room)))
}

/// Takes at most `count` items, up to the first for which `is_taken` is false.
pub(super) fn pop<T>(
    consumer: &mut Consumer<T>,
    count: usize,
    mut is_taken: impl FnMut(&T) -> bool,
    take: impl FnMut(T),
) {
    let there = match consumer.read_chunk(count) {
        Ok(_) => count,
        Err(ChunkError::TooFewSlots(there)) => there,
    };
    let Ok(chunk) = consumer.read_chunk(there) else { return };
    let (first, second) = chunk.as_slices();
    let taken = first.iter().chain(second).take_while(|item| is_taken(item)).count();
    chunk.into_iter().take(taken).for_each(take);
}
