//! Processes, CPUs and devices of Linux: their state, and controls of threads.
//!
//! | subject | module |
//! |---|---|
//! | information about processes from `/proc`; running a command transparently | [`process`] |
//! | CPU time of threads, of the kernel's own threads, and of cores | [`cpu`] |
//! | cores, SMT siblings, caches and NUMA nodes | [`topology`] |
//! | which CPUs a thread may run on | [`affinity`] |
//! | how soon a thread runs when it is woken | [`priority`] |
//! | which pages of which files processes touch, and the requests of a disk, by the kernel's tracepoints | [`tracefs`] |
//! | system calls, by what they can wait for | [`system_call`] |
//! | the kernel, the CPU and the memory of this machine | [`machine`] |
//! | a disk's counters, and the identity of a block device | [`block_device`] |
//! | a block device made of a file | [`loop_device`] |
//! | the mount table; unmounting | [`mounts`] |
//! | the user and the capabilities of this process | [`rights`] |
//! | messages to a file system in user space | [`ioctl_channel`] |
//! | sends on a stream socket, the end of a listening one | [`socket`] |
//! | which standard streams the program was started without | [`stdio`] |
//! | the terminal's size, keys as they are typed | [`terminal`] |
//! | character classes of the C library | [`ctype`] |
//! | a value per thread, without contention for cache lines | [`per_thread`] |
//! | how the C library's allocator keeps and returns memory | [`allocator`] |
//!
//! System calls about the bytes of files are in `sakiyomi-io`. Like that crate, this one holds mechanism, not policy.
//! `unsafe` is confined to the modules that say `allow(unsafe_code)`: system interfaces that no library covers.

pub mod affinity;
pub mod allocator;
pub mod block_device;
pub mod cpu;
pub mod ctype;
pub mod ioctl_channel;
pub mod loop_device;
pub mod machine;
pub mod mounts;
pub mod per_thread;
pub mod priority;
pub mod process;
pub mod rights;
pub mod socket;
pub mod stdio;
pub mod system_call;
pub mod terminal;
pub mod topology;
pub mod tracefs;
pub mod user;

mod error;

pub use error::Error;
