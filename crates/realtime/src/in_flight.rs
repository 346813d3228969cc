//! A request in flight, in one allocation shared by the device's thread, the thread of the backing I/O and the reply.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use sakiyomi_model::{Completion, Outcome};
use smallvec::SmallVec;

use crate::backing_pool::Perform;
use crate::request::IoRequest;
use crate::watch::{Completed, Watch};
use crate::{OnCompletion, Timeline};

/// The backing file's side of a request, with the reply.
pub trait BackingIo: Send + 'static {
    /// Performs a part of the I/O, in bytes from its start; see [`Perform::perform`]. With `durable`, written data must
    /// be on the medium at return, although the client has not requested that.
    fn perform(&mut self, part: Range<u64>, durable: bool) -> io::Result<()>;

    /// Replies to the client.
    fn reply(self, result: io::Result<()>);
}

/// Statistics and trace of all requests.
#[derive(Debug)]
pub struct Accounting {
    /// The statistics.
    pub watch: Watch,
    /// The clock.
    pub timeline: Timeline,
    /// Whether the device is an emulated drive rather than the backing files.
    pub emulated: bool,
}

impl Accounting {
    /// Records a request answered now, on the kernel's request thread.
    pub fn end_at_once(&self, request: &IoRequest) {
        self.watch.end_at_once(&Completed { request, completions: &[], answered: self.timeline.now() });
    }

    /// Records a request answered now, with the drive's completions.
    fn end(&self, request: &IoRequest, completions: &[Completion]) {
        self.watch.end(&Completed { request, completions, answered: self.timeline.now() });
    }
}

/// A request of which at least one side is pending; the thread that completes the last side replies.
#[derive(Debug)]
pub struct InFlight<B> {
    request: IoRequest,
    accounting: Arc<Accounting>,
    sides: Mutex<Sides<B>>,
}

#[derive(Debug)]
struct Sides<B> {
    /// `None` while it is performed, and after the reply.
    io: Option<B>,
    backing: Option<io::Result<()>>,
    /// The drive's completions; empty if the drive does not take part.
    device: Option<SmallVec<[Completion; 1]>>,
}

impl<B: BackingIo> InFlight<B> {
    /// Starts a request; `backing` is the result of the backing I/O if it has already been performed.
    pub fn start(
        accounting: &Arc<Accounting>,
        request: IoRequest,
        io: B,
        backing: Option<io::Result<()>>,
    ) -> Arc<InFlight<B>> {
        accounting.watch.begin();
        let sides = Mutex::new(Sides { io: Some(io), backing, device: None });
        Arc::new(InFlight { request, accounting: Arc::clone(accounting), sides })
    }

    /// Completes the device's side of a request without a device.
    pub fn complete_without_device(&self) {
        self.end_side(|sides| sides.device = Some(SmallVec::new()));
    }

    /// Completes one side; after the last one, replies.
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
        // For backing files, only the time of the reply is recorded.
        let completions = if self.accounting.emulated { &completions[..] } else { &[] };
        self.accounting.end(&self.request, completions);
    }
}

impl<B: BackingIo> Perform for InFlight<B> {
    fn perform(&self, part: Range<u64>, durable: bool) -> bool {
        let io = self.sides.lock().unwrap_or_else(PoisonError::into_inner).io.take();
        // It has been performed already.
        let Some(mut io) = io else { return false };
        let is_last = part.end >= self.request.bytes;
        let result = io.perform(part, durable);
        let succeeded = result.is_ok();
        let backing = (is_last || !succeeded).then_some(result);
        self.end_side(|sides| (sides.io, sides.backing) = (Some(io), backing));
        succeeded
    }
}

impl<B: BackingIo> OnCompletion for InFlight<B> {
    fn on_completion(&self, completions: &[Completion]) {
        self.end_side(|sides| sides.device = Some(completions.iter().copied().collect()));
    }
}
