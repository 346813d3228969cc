//! `aio:N`: Linux native asynchronous I/O with N operations in flight. It is asynchronous for direct I/O only:
//! through the page cache the kernel transfers within `io_submit`.
//!
//! No maintained library covers it, so the system calls and their structures are declared here (`linux/aio_abi.h`).
#![allow(unsafe_code)]

use std::io;
use std::os::fd::AsRawFd;
use std::ptr;
use std::time::Instant;

use super::slots::Slots;
use super::{Completion, EARLY_SUBMIT_OPS, Engine, Op, OpKind};

/// `struct iocb`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Control {
    data: u64,
    #[cfg(target_endian = "little")]
    key: u32,
    rw_flags: u32,
    #[cfg(target_endian = "big")]
    key: u32,
    opcode: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    result_file: u32,
}

/// `struct io_event`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Event {
    data: u64,
    control: u64,
    result: i64,
    result2: i64,
}

/// `IOCB_CMD_PREAD` (linux/aio_abi.h).
const READ_OPCODE: u16 = 0;
/// `IOCB_CMD_PWRITE`.
const WRITE_OPCODE: u16 = 1;
/// `IOCB_CMD_FDSYNC`.
const DATA_SYNC_OPCODE: u16 = 3;

struct Aio {
    context: libc::c_ulong,
    slots: Slots,
    /// The control blocks, by slot. The kernel copies them when they are submitted.
    controls: Box<[Control]>,
    /// Slots that were not submitted yet.
    queued: Vec<usize>,
    events: Box<[Event]>,
}

pub(super) fn open(depth: usize) -> io::Result<Box<dyn Engine>> {
    let mut context: libc::c_ulong = 0;
    // SAFETY: the kernel writes a handle into `context`, which must be 0 before.
    check(unsafe { libc::syscall(libc::SYS_io_setup, depth, &raw mut context) })?;
    Ok(Box::new(Aio {
        context,
        slots: Slots::new(depth),
        controls: vec![Control::default(); depth].into(),
        queued: Vec::with_capacity(depth),
        events: vec![Event::default(); depth].into(),
    }))
}

fn check(result: libc::c_long) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

impl Aio {
    fn control(&mut self, slot: usize) -> Control {
        let op = self.slots.op_mut(slot);
        let common = Control {
            data: slot as u64,
            file: op.file.file().as_raw_fd().cast_unsigned(),
            ..Control::default()
        };
        let opcode = match op.kind {
            OpKind::Read => READ_OPCODE,
            OpKind::Write => WRITE_OPCODE,
            OpKind::Sync => return Control { opcode: DATA_SYNC_OPCODE, ..common },
        };
        let range = op.next_call();
        Control {
            opcode,
            bytes: range.len() as u64,
            offset: (op.offset + op.done as u64).cast_signed(),
            buffer: op.payload.buffer().space()[range].as_mut_ptr().expose_provenance() as u64,
            ..common
        }
    }

    /// Submits the queued operations; an operation that the kernel rejects completes with the error.
    fn submit_queued(&mut self, completions: &mut Vec<Completion>) -> io::Result<()> {
        while !self.queued.is_empty() {
            match self.submit_some() {
                Ok(0) => return Ok(()),
                Ok(count) => drop(self.queued.drain(..count)),
                Err(error) => match error.raw_os_error() {
                    Some(libc::EINTR) => {}
                    // The kernel's queue is full: reaping completed operations makes room.
                    Some(libc::EAGAIN) if self.slots.in_flight() > self.queued.len() => return Ok(()),
                    Some(libc::EAGAIN | libc::ENOMEM) => return Err(error),
                    code => {
                        let slot = self.queued.remove(0);
                        let code = code.unwrap_or(libc::EIO);
                        completions.push(self.slots.complete(slot, -i64::from(code), Instant::now()));
                    }
                },
            }
        }
        Ok(())
    }

    fn submit_some(&mut self) -> io::Result<usize> {
        let mut controls: Vec<*mut Control> =
            self.queued.iter().map(|&slot| &raw mut self.controls[slot]).collect();
        // SAFETY: each pointer is to a control of our own; the memory that it names is a buffer in `slots`, which is
        // released when the operation has completed, and the operation keeps its file open.
        check(unsafe {
            libc::syscall(libc::SYS_io_submit, self.context, controls.len(), controls.as_mut_ptr())
        })
    }

    /// Appends completions, after waiting for `at_least` of them.
    fn reap_events(&mut self, at_least: usize, completions: &mut Vec<Completion>) -> io::Result<()> {
        let (events, room) = (self.events.as_mut_ptr(), self.events.len());
        let no_limit = ptr::null_mut::<libc::timespec>();
        // SAFETY: the kernel writes at most `room` events into the array.
        let got = check(unsafe {
            libc::syscall(libc::SYS_io_getevents, self.context, at_least, room, events, no_limit)
        });
        let count = match got {
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => 0,
            other => other?,
        };
        let now = Instant::now();
        let ended = self.events[..count].iter();
        completions.extend(ended.map(|event| self.slots.complete(event.data as usize, event.result, now)));
        Ok(())
    }
}

impl Engine for Aio {
    fn free_slots(&self) -> usize {
        self.slots.free()
    }

    fn submit(&mut self, op: Op) {
        let slot = self.slots.put(op);
        self.controls[slot] = self.control(slot);
        self.queued.push(slot);
        if self.queued.len() >= EARLY_SUBMIT_OPS
            && let Ok(count) = self.submit_some()
        {
            // A persistent failure is returned again when completions are reaped.
            self.queued.drain(..count);
        }
    }

    fn reap(&mut self, at_least: usize, completions: &mut Vec<Completion>) -> io::Result<()> {
        let wanted = completions.len() + at_least.min(self.slots.in_flight());
        loop {
            self.submit_queued(completions)?;
            let missing = wanted.saturating_sub(completions.len());
            let with_kernel = self.slots.in_flight() - self.queued.len();
            if with_kernel > 0 && (missing > 0 || !self.queued.is_empty()) {
                // At least one completion makes room for the queued operations.
                self.reap_events(missing.clamp(1, with_kernel), completions)?;
            }
            if completions.len() >= wanted && self.queued.is_empty() {
                return Ok(());
            }
        }
    }
}

impl Drop for Aio {
    fn drop(&mut self) {
        // SAFETY: the context is ours and not used any more. The call returns when the kernel has released all
        // memory.
        let destroyed = check(unsafe { libc::syscall(libc::SYS_io_destroy, self.context) });
        if destroyed.is_err() {
            self.slots.leak();
        }
    }
}
