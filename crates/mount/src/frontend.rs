//! The path of a request from the kernel to its reply: places on the drive, the drive's time, the backing I/O.
//!
//! A request has two concurrent sides: the drive, which takes its time, and the backing file, which holds the content.
//! [`InFlight`] joins them and replies when both have completed.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use sakiyomi_iorate::server::RatedDevice;
use sakiyomi_model::{Extent, Lba, Nanos, Op, Sectors};
use sakiyomi_realtime::{BackingIo, Dispatcher, Extents, IoRequest, Issuer, RateQuery, Stopped, Watch};

use crate::layout::{BLOCK_BYTES, FileId, Layout, Metadata, NoSpace, Part, Run, Work};
use crate::shared_layout::SharedLayout;

/// State shared by all files of a mount.
#[derive(Debug)]
pub(crate) struct Frontend {
    layout: SharedLayout,
    /// `None` if names and attributes cost nothing.
    metadata: Option<Mutex<Metadata>>,
    dispatcher: Dispatcher,
}

impl Frontend {
    pub(crate) fn new(layout: Layout, metadata: Option<Metadata>, dispatcher: Dispatcher) -> Frontend {
        let (layout, metadata) = (SharedLayout::new(layout), metadata.map(Mutex::new));
        Frontend { layout, metadata, dispatcher }
    }

    pub(crate) fn layout(&self) -> &SharedLayout {
        &self.layout
    }

    /// Runs `work` on the emulated metadata; `None` if the cost of names and attributes is not emulated.
    pub(crate) fn metadata<R>(&self, work: impl FnOnce(&mut Metadata) -> R) -> Option<R> {
        let metadata = self.metadata.as_ref()?;
        Some(work(&mut metadata.lock().unwrap_or_else(PoisonError::into_inner)))
    }

    pub(crate) fn watch(&self) -> &Watch {
        self.dispatcher.watch()
    }

    /// Returns the busy time of the device, if known.
    pub(crate) fn busy(&self) -> Option<Nanos> {
        self.dispatcher.busy()
    }

    /// Returns whether the device's thread runs before all ordinary ones; `None` without a device.
    pub(crate) fn is_real_time(&self) -> Option<bool> {
        self.dispatcher.is_real_time()
    }

    /// Returns whether requests take a drive's time, or else only the backing file's.
    pub(crate) fn has_drive(&self) -> bool {
        self.dispatcher.has_drive()
    }

    /// Returns whether requests go through a device: a drive, or the backing files behind a regulator.
    pub(crate) fn has_device(&self) -> bool {
        self.dispatcher.has_device()
    }

    fn arrive(&self, issuer: Issuer, op: Op) -> IoRequest {
        self.dispatcher.arrive(issuer, op, Instant::now())
    }

    /// Makes a read that arrives at an instant; [`Frontend::locate`] adds its extents.
    pub(crate) fn read(&self, issuer: Issuer, at: Instant) -> IoRequest {
        self.dispatcher.arrive(issuer, Op::Read, at)
    }

    /// Adds to a read the extents of `length` bytes of a file, if a drive or a trace needs them.
    pub(crate) fn locate(&self, request: &mut IoRequest, file: FileId, offset: u64, length: u64) {
        if self.has_drive() || self.watch().is_recording() {
            request.extents = self.layout.extents(file, offset, length, self.dispatcher.sector());
        }
        request.bytes = self.dispatcher.bytes(&request.extents, length);
    }

    /// Makes a write that arrives now; blocks without a place are allocated.
    pub(crate) fn write(
        &self,
        issuer: Issuer,
        file: FileId,
        offset: u64,
        length: u64,
    ) -> Result<IoRequest, NoSpace> {
        let mut layout = self.layout.change();
        let changes = self.metadata.is_some() && !layout.has(file, offset, length);
        layout.place(file, offset, length)?;
        let extents: Extents = layout.extents(file, offset, length, self.dispatcher.sector()).collect();
        drop(layout);
        if changes {
            self.metadata(|metadata| metadata.mark(&[Part::Inode(file)]));
        }
        let bytes = self.dispatcher.bytes(&extents, length);
        Ok(IoRequest { extents, bytes, ..self.arrive(issuer, Op::Write) })
    }

    /// Makes a flush that arrives now.
    pub(crate) fn flush(&self, issuer: Issuer) -> IoRequest {
        let nowhere = Extent::new(Lba(0), Sectors(0));
        IoRequest { extents: [nowhere].into_iter().collect(), ..self.arrive(issuer, Op::Flush) }
    }

    /// Makes a read or write of metadata blocks.
    fn blocks(&self, issuer: Issuer, op: Op, runs: &[Run]) -> IoRequest {
        let sectors = BLOCK_BYTES / self.dispatcher.sector().0;
        let extent = |run: &Run| Extent::new(Lba(run.start * sectors), Sectors(run.blocks * sectors));
        let bytes = runs.iter().map(|run| run.blocks * BLOCK_BYTES).sum();
        IoRequest { extents: runs.iter().map(extent).collect(), bytes, ..self.arrive(issuer, op) }
    }

    /// Starts both sides of a request, the backing I/O on a thread of the pool; the reply follows when both have
    /// completed.
    pub(crate) fn submit<B: BackingIo>(&self, request: IoRequest, io: B) {
        self.dispatcher.submit(request, io);
    }

    /// Submits a request whose backing I/O has already been performed.
    pub(crate) fn submit_performed<B: BackingIo>(&self, request: IoRequest, io: B) {
        self.dispatcher.submit_performed(request, io);
    }

    /// Lets the drive perform the I/O of a metadata operation, then calls `reply`. If the drive refuses, `reply` is
    /// dropped and the caller gets EIO.
    pub(crate) fn charge(
        self: &Arc<Frontend>,
        issuer: Issuer,
        work: Work,
        reply: impl FnOnce() + Send + 'static,
    ) {
        let (frontend, Work { reads, writes }) = (Arc::clone(self), work);
        self.charge_runs(issuer, Op::Read, &reads, move || {
            frontend.charge_runs(issuer, Op::Write, &writes, reply);
        });
    }

    fn charge_runs(&self, issuer: Issuer, op: Op, runs: &[Run], reply: impl FnOnce() + Send + 'static) {
        if runs.is_empty() {
            return reply();
        }
        self.submit_performed(self.blocks(issuer, op, runs), Charge(reply));
    }

    /// Accounts for a request that was answered on the kernel's request thread, without a device.
    pub(crate) fn answered(&self, request: &IoRequest) {
        self.dispatcher.answered(request);
    }
}

impl RatedDevice for Frontend {
    fn ask(&self, query: RateQuery) -> Result<(), Stopped> {
        self.dispatcher.ask(query)
    }
}

/// Metadata I/O on the drive, without backing I/O: the backing directory has already performed the operation.
struct Charge<F>(F);

impl<F: FnOnce() + Send + 'static> BackingIo for Charge<F> {
    fn perform(&mut self, _: Range<u64>, _: bool) -> io::Result<()> {
        Ok(())
    }

    fn reply(self, result: io::Result<()>) {
        if result.is_ok() {
            self.0();
        }
    }
}
