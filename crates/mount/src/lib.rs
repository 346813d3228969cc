//! An emulated drive, live: the files of a directory at the speed of a simulated disk.
pub mod device;
pub mod layout;
pub mod live;
