//! Tests with real mounts, in one binary: one link step instead of six.

mod block_device;
mod drive;
mod exercise;
mod metadata;
mod mounted;
mod regulation;
mod reliance;
