//! A request on its way, in one allocation: the device's thread, the thread of the backing I/O and the reply share
//! it.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use sakiyomi_model::{Completion, Outcome};
use smallvec::SmallVec;

use crate::backing_pool::Perform;
use crate::live::{OnCompletion, Timeline};
use crate::request::IoRequest;
use crate::watch::{Completed, Watch};

/// The backing file's side of a request, with the reply.
pub(crate) trait BackingIo: Send + 'static {
    /// Performs the I/O. With `durable`, written data must be on the medium when it returns, although the kernel has
    /// not asked for that.
    fn perform(&mut self, durable: bool) -> io::Result<()>;

    /// Replies to the kernel.
    fn reply(self, result: io::Result<()>);
}

/// The counters and the trace of a mount's requests.
#[derive(Debug)]
pub(crate) struct Accounting {
    pub(crate) watch: Watch,
    pub(crate) timeline: Timeline,
    /// The device is a drive, and not the backing files.
    pub(crate) emulated: bool,
}

impl Accounting {
    /// A request was answered now, on the thread that it came to.
    pub(crate) fn end_at_once(&self, request: &IoRequest) {
        self.watch.end_at_once(&Completed { request, completions: &[], answered: self.timeline.now() });
    }

    /// A request was answered now, after these completions of the drive.
    fn end(&self, request: &IoRequest, completions: &[Completion]) {
        self.watch.end(&Completed { request, completions, answered: self.timeline.now() });
    }
}

/// A request whose sides have not both ended; whichever thread ends the last one replies.
#[derive(Debug)]
pub(crate) struct InFlight<B> {
    request: IoRequest,
    accounting: Arc<Accounting>,
    sides: Mutex<Sides<B>>,
}

#[derive(Debug)]
struct Sides<B> {
    /// Taken while it is performed, and for the reply.
    io: Option<B>,
    backing: Option<io::Result<()>>,
    /// The drive's completions, empty where it has nothing to do.
    device: Option<SmallVec<[Completion; 1]>>,
}

impl<B: BackingIo> InFlight<B> {
    /// `backing` is the result of the backing I/O where that has been performed.
    pub(crate) fn start(
        accounting: &Arc<Accounting>,
        request: IoRequest,
        io: B,
        backing: Option<io::Result<()>>,
    ) -> Arc<InFlight<B>> {
        accounting.watch.begin();
        let sides = Mutex::new(Sides { io: Some(io), backing, device: None });
        Arc::new(InFlight { request, accounting: Arc::clone(accounting), sides })
    }

    /// No device takes part in this request.
    pub(crate) fn complete_without_device(&self) {
        self.end_side(|sides| sides.device = Some(SmallVec::new()));
    }

    /// One side has ended; the last one replies.
    fn end_side(&self, end: impl FnOnce(&mut Sides<B>)) {
        let mut sides = self.sides.lock().unwrap_or_else(PoisonError::into_inner);
        end(&mut sides);
        if sides.backing.is_none() || sides.device.is_none() {
            return;
        }
        let (io, backing, device) = (sides.io.take(), sides.backing.take(), sides.device.take());
        drop(sides);
        let (Some(io), Some(result), Some(completions)) = (io, backing, device) else { return };
        let refused = completions.iter().any(|completion| completion.outcome != Outcome::Done);
        io.reply(match result {
            Ok(()) if refused => Err(io::Error::other("the drive has refused it")),
            result => result,
        });
        // The backing files report nothing but the time of the reply.
        let completions = if self.accounting.emulated { &completions[..] } else { &[] };
        self.accounting.end(&self.request, completions);
    }
}

impl<B: BackingIo> Perform for InFlight<B> {
    fn perform(&self, durable: bool) -> bool {
        let io = self.sides.lock().unwrap_or_else(PoisonError::into_inner).io.take();
        // It is performed once.
        let Some(mut io) = io else { return false };
        let result = io.perform(durable);
        let succeeded = result.is_ok();
        self.end_side(|sides| (sides.io, sides.backing) = (Some(io), Some(result)));
        succeeded
    }
}

impl<B: BackingIo> OnCompletion for InFlight<B> {
    fn on_completion(&self, completions: &[Completion]) {
        self.end_side(|sides| sides.device = Some(completions.iter().copied().collect()));
    }
}
