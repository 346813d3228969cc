//! Whether file systems can be mounted here.

pub(crate) use sakiyomi_testing::can_mount;
