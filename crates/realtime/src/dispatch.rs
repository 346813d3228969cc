//! Where a request goes: to the device, which says when it completes, and to the file that holds its content.

use std::sync::Arc;
use std::time::Instant;

use sakiyomi_model::{Bytes, Extent, Lba, Nanos, Op, Sectors};

use crate::{
    Access, Accounting, BackingIo, BackingJob, BackingPool, Extents, InFlight, IoRequest, Issuer, RateQuery,
    RealtimeDevice, Stopped, Timeline, Watch,
};

/// Starts both sides of each request.
#[derive(Debug)]
pub struct Dispatcher {
    sector: Bytes,
    /// `None` if only the backing files' own time counts, and no rates can be set.
    device: Option<RealtimeDevice>,
    pool: Arc<BackingPool>,
    accounting: Arc<Accounting>,
}

impl Dispatcher {
    /// Makes a dispatcher for a device, if there is one, of sectors of `sector` bytes; the flag says whether the device
    /// is an emulated drive rather than the backing files behind a regulator. `timeline` is the device's clock.
    #[must_use]
    pub fn new(
        sector: Bytes,
        (device, emulated): (Option<RealtimeDevice>, bool),
        timeline: Timeline,
        watch: Watch,
        pool: Arc<BackingPool>,
    ) -> Dispatcher {
        Dispatcher { sector, device, pool, accounting: Arc::new(Accounting { watch, timeline, emulated }) }
    }

    /// Returns the sector size of the device.
    #[must_use]
    pub fn sector(&self) -> Bytes {
        self.sector
    }

    /// Returns the statistics.
    #[must_use]
    pub fn watch(&self) -> &Watch {
        &self.accounting.watch
    }

    /// Returns the busy time of the device, if known.
    #[must_use]
    pub fn busy(&self) -> Option<Nanos> {
        self.device.as_ref().map(RealtimeDevice::busy)
    }

    /// Returns whether the device's thread runs before all ordinary ones; `None` without a device.
    #[must_use]
    pub fn is_real_time(&self) -> Option<bool> {
        self.device.as_ref().map(RealtimeDevice::is_real_time)
    }

    /// Returns whether requests take a drive's time, or else only the backing file's.
    #[must_use]
    pub fn has_drive(&self) -> bool {
        self.accounting.emulated
    }

    /// Returns whether requests go through a device: a drive, or the backing files behind a regulator.
    #[must_use]
    pub fn has_device(&self) -> bool {
        self.device.is_some()
    }

    /// Sends a query to the regulated device.
    ///
    /// # Errors
    /// If the device has stopped, or there is none.
    pub fn ask(&self, question: RateQuery) -> Result<(), Stopped> {
        self.device.as_ref().ok_or(Stopped)?.ask(question)
    }

    /// Makes a request that arrives at an instant, without extents.
    #[must_use]
    pub fn arrive(&self, issuer: Issuer, op: Op, at: Instant) -> IoRequest {
        let timeline = &self.accounting.timeline;
        // A drive's time begins with the first request that is submitted to it.
        let arrival = if self.has_drive() { timeline.at(at) } else { timeline.begin_at(at) };
        let number = self.watch().number();
        IoRequest { issuer, op, fua: false, extents: Extents::new(), bytes: 0, number, arrival }
    }

    /// Returns the bytes of a request on the drive, which has whole sectors; without a drive, its own `length`.
    #[must_use]
    pub fn bytes(&self, extents: &[Extent], length: u64) -> u64 {
        if !self.has_drive() {
            return length;
        }
        extents.iter().map(|extent| extent.sectors.to_bytes(self.sector).0).sum()
    }

    /// Starts both sides of a request, the backing I/O on a thread of the pool; the reply follows when both have
    /// completed.
    pub fn submit<B: BackingIo>(&self, request: IoRequest, io: B) {
        if let Some(in_flight) = self.begin(request, io) {
            self.pool.submit(BackingJob::Immediate(in_flight));
        }
    }

    /// Starts a request. If it returns one, the caller must [perform](crate::Perform) its backing I/O, once; otherwise
    /// the device does, when it is time.
    #[must_use]
    pub fn begin<B: BackingIo>(&self, request: IoRequest, io: B) -> Option<Arc<InFlight<B>>> {
        let access = self.access(&request);
        let in_flight = InFlight::start(&self.accounting, request, io, None);
        if self.accounting.emulated {
            self.submit_to_drive(access, &in_flight);
        } else if let Some(device) = &self.device {
            // A device that has stopped drops the request, whose reply is then EIO.
            let _ = device.submit_job(access, in_flight.clone(), in_flight);
            return None;
        } else {
            in_flight.complete_without_device();
        }
        Some(in_flight)
    }

    /// Submits a request whose backing I/O has already been performed.
    pub fn submit_performed<B: BackingIo>(&self, request: IoRequest, io: B) {
        let access = self.access(&request);
        let in_flight = InFlight::start(&self.accounting, request, io, Some(Ok(())));
        self.submit_to_drive(access, &in_flight);
    }

    fn submit_to_drive<B: BackingIo>(&self, access: Access, in_flight: &Arc<InFlight<B>>) {
        match self.device.as_ref().filter(|_| self.has_drive() && !access.extents.is_empty()) {
            // A drive that has stopped drops the request, whose reply is then EIO.
            Some(drive) => drop(drive.submit(access, in_flight.clone())),
            None => in_flight.complete_without_device(),
        }
    }

    /// Converts a request to the device's form.
    fn access(&self, request: &IoRequest) -> Access {
        let IoRequest { issuer, op, fua, ref extents, bytes, .. } = *request;
        if self.has_drive() {
            return Access {
                stream: issuer.owner,
                process: issuer.process.0,
                op,
                fua,
                extents: extents.clone(),
            };
        }
        // The backing files' device gets sizes only; the places of the files on it are unknown.
        let sectors = Sectors(bytes.div_ceil(self.sector.0));
        let extents = [Extent::new(Lba(0), sectors)].into_iter().collect();
        Access { stream: issuer.owner, process: issuer.process.0, op, fua: false, extents }
    }

    /// Accounts for a request that was answered on the thread that received it, without a device.
    pub fn answered(&self, request: &IoRequest) {
        self.accounting.end_at_once(request);
    }
}
