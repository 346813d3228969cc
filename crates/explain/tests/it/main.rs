//! Recordings, from events of the kernel to predictions.

mod events;
mod live;
mod predict;
mod random;
mod timeline;
