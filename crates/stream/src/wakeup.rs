//! Wake-ups of workers by threads that are not workers: those of inputs, and those that perform requests.

use std::fmt;
use std::sync::{Arc, OnceLock};

use crate::board::Board;
use crate::sync::{AtomicUsize, Ordering, fence};

/// Tells the worker of a source or of an [`AsyncOperator`](crate::AsyncOperator) that there is something for it. Clones
/// are handles of the same; it follows its operator from worker to worker.
///
/// The source makes it, gives clones to the threads of its input, and returns it from
/// [`Source::wakeup`](crate::Source::wakeup). Such a source need not name a time at which it is to be asked again: it
/// returns [`Next::At`](crate::Next::At) with `u64::MAX` when its input is empty. Its worker then parks until a thread has
/// added something and called [`Wakeup::notify`].
///
/// A worker parks at once and is woken at once as long as this takes little of its core. Where inputs come so often that
/// polling and wake-ups would take more than a twentieth of it, the worker naps, for a fraction of a millisecond at a
/// time, and takes what has gathered meanwhile: 50,000 inputs per second do not keep a core busy.
#[derive(Clone, Default)]
pub struct Wakeup(Arc<Place>);

/// The place of an operator.
#[derive(Default)]
struct Place {
    /// None until the stream is started. Its workers look at all inputs after that.
    board: OnceLock<Arc<Board>>,
    worker: AtomicUsize,
}

impl Wakeup {
    /// Returns a handle for one operator of one stream.
    #[must_use]
    pub fn new() -> Wakeup {
        Wakeup::default()
    }

    /// Wakes the worker of the operator if it is parked. To be called after the input has been added; never blocks. It takes
    /// some nanoseconds while the worker is awake, and the time of a wake-up else, 10 µs or so.
    pub fn notify(&self) {
        fence(Ordering::SeqCst);
        if let Some(board) = self.0.board.get() {
            board.wakers[self.0.worker.load(Ordering::Relaxed)].wake_for_input();
        }
    }

    /// Connects it with the workers of a stream that is about to start. That of a stream that was started before stays.
    pub(crate) fn connect(&self, board: &Arc<Board>) {
        self.0.board.get_or_init(|| Arc::clone(board));
    }

    /// The operator belongs to `worker` from now on. As of rings, the worker that gives it away says so, and the one that
    /// receives it passes a fence before it parks.
    pub(crate) fn set_worker(&self, worker: usize) {
        self.0.worker.store(worker, Ordering::Relaxed);
    }
}

impl fmt::Debug for Wakeup {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "a wake-up of worker {}", self.0.worker.load(Ordering::Relaxed))
    }
}
