//! File systems that are really mounted, in one binary: one link instead of six.

mod block_device;
mod drive;
mod exercise;
mod metadata;
mod mounted;
mod regulation;
mod reliance;
