//! Between the asynchronous streams of DataFusion and operators that block.
//!
//! ```text
//! input stream ─► task of the runtime ─► channel ─► thread: operator ─► channel of a part ─► output stream
//! ```
//!
//! Operators run on threads of their own, never on those of the runtime, so that a runtime with one thread is not
//! blocked. Channels are bounded. The memory reservation, the job and the failure of a run are shared by its threads:
//! the memory is returned when the last of them has ended.
//!
//! When the output stream is dropped, the job is cancelled and the tasks of the input are aborted, which ends the threads at
//! their next batch. The first error of the input or of the operator is returned by the output; a panic resumes there.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::thread;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream};
use datafusion::physical_plan::metrics::BaselineMetrics;
use futures::{FutureExt, Stream, StreamExt};
use sakiyomi_query::{Batches, Error, Job};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::operator_error;

/// Batches in the channel of an input or a part: the next ones are computed meanwhile.
const CHANNEL_BATCHES: usize = 2;

/// State that the threads and tasks of one run share.
pub(super) struct Run {
    pub(super) job: Job,
    handle: Handle,
    state: Mutex<State>,
    /// Returned when the last thread has ended.
    _memory: MemoryReservation,
}

#[derive(Default)]
struct State {
    failure: Option<Failure>,
    is_cancelled: bool,
    tasks: Vec<AbortHandle>,
    /// Channels on which threads may be waiting for an input.
    channels: Vec<mpsc::WeakSender<Item>>,
}

/// Why a run has ended early.
enum Failure {
    Error(DataFusionError),
    Panic(Box<dyn Any + Send>),
}

impl Run {
    /// A run of a job with memory of the pool. Called by a thread of the runtime.
    pub(super) fn new(job: Job, memory: MemoryReservation) -> Arc<Run> {
        Arc::new(Run { job, handle: Handle::current(), state: Mutex::default(), _memory: memory })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the first failure, and ends all threads and tasks.
    fn fail(&self, failure: Failure) {
        self.lock().failure.get_or_insert(failure);
        self.cancel();
    }

    /// Ends all threads at their next batch, and the tasks of the input. Threads that wait for an input are woken: the runtime
    /// may no longer run, so that aborted tasks keep their channels.
    fn cancel(&self) {
        self.job.cancel();
        let mut state = self.lock();
        state.is_cancelled = true;
        state.tasks.drain(..).for_each(|task| task.abort());
        for sender in state.channels.drain(..).filter_map(|channel| channel.upgrade()) {
            // A channel that is full wakes its thread as well.
            let _ = sender.try_send(Item::Cancelled);
        }
    }

    /// Keeps the error of an operator, unless it follows from another one.
    fn fail_with(&self, error: Error) {
        match error {
            Error::Cancelled => self.cancel(),
            other => self.fail(Failure::Error(operator_error(other))),
        }
    }

    /// Starts a task that sends to a channel, unless the run was cancelled.
    fn spawn_task(&self, channel: mpsc::WeakSender<Item>, task: impl Future<Output = ()> + Send + 'static) {
        let mut state = self.lock();
        if !state.is_cancelled {
            state.tasks.push(self.handle.spawn(task).abort_handle());
            state.channels.push(channel);
        }
    }
}

/// The item of an input's channel.
enum Item {
    Batch(RecordBatch),
    Failed(Failure),
    End,
    Cancelled,
}

/// Streams of DataFusion as batches of an operator. They are polled together once the operator asks for the first batch.
pub(super) struct Input {
    run: Arc<Run>,
    /// Names and types as the operator sees them.
    schema: SchemaRef,
    waiting: Vec<SendableRecordBatchStream>,
    receiver: Option<mpsc::Receiver<Item>>,
    /// Streams that have not ended.
    left: usize,
}

impl Input {
    /// `schema` has the types of the streams' columns, and any names.
    pub(super) fn new(run: &Arc<Run>, schema: SchemaRef, streams: Vec<SendableRecordBatchStream>) -> Input {
        let left = streams.len();
        Input { run: Arc::clone(run), schema, waiting: streams, receiver: None, left }
    }

    /// Polls the streams by tasks of the runtime.
    fn start(&mut self) -> mpsc::Receiver<Item> {
        let (sender, receiver) = mpsc::channel(CHANNEL_BATCHES);
        for stream in self.waiting.drain(..) {
            let sender = sender.clone();
            self.run.spawn_task(sender.downgrade(), async move {
                let forwarded = AssertUnwindSafe(forward(stream, &sender)).catch_unwind().await;
                let last = match forwarded {
                    Ok(Ok(())) => Item::End,
                    Ok(Err(error)) => Item::Failed(Failure::Error(error)),
                    Err(panic) => Item::Failed(Failure::Panic(panic)),
                };
                // The operator may have ended.
                let _ = sender.send(last).await;
            });
        }
        receiver
    }
}

/// Passes the batches of a stream to a channel until the operator ends.
async fn forward(mut stream: SendableRecordBatchStream, sender: &mpsc::Sender<Item>) -> Result<()> {
    while let Some(batch) = stream.next().await {
        if sender.send(Item::Batch(batch?)).await.is_err() {
            break;
        }
    }
    Ok(())
}

impl Batches for Input {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn next(&mut self) -> Result<Option<RecordBatch>, Error> {
        let mut receiver = match self.receiver.take() {
            Some(receiver) => receiver,
            None => self.start(),
        };
        while self.left > 0 {
            self.run.job.check()?;
            match receiver.blocking_recv() {
                Some(Item::Batch(batch)) if batch.num_rows() == 0 => {}
                Some(Item::Batch(batch)) => {
                    self.receiver = Some(receiver);
                    let columns = batch.columns().to_vec();
                    return Ok(Some(RecordBatch::try_new(Arc::clone(&self.schema), columns)?));
                }
                Some(Item::Failed(failure)) => {
                    self.run.fail(failure);
                    return Err(Error::Cancelled);
                }
                Some(Item::End) => self.left -= 1,
                // The tasks were aborted, or the runtime has ended.
                Some(Item::Cancelled) | None => return Err(Error::Cancelled),
            }
        }
        Ok(None)
    }
}

/// The item of a part's channel.
enum PartItem {
    Batch(RecordBatch),
    End,
}

type NumberedPart = (usize, mpsc::Receiver<PartItem>);

/// Where an operator puts the parts of its result.
#[derive(Clone)]
pub(super) struct Parts {
    sender: mpsc::UnboundedSender<NumberedPart>,
}

impl Parts {
    /// Passes the batches of a part to the output, which returns parts in the order of their numbers from 0 on.
    ///
    /// # Errors
    /// [`Error::Cancelled`] if the rest is not wanted; also those of the part.
    pub(super) fn pass(
        &self,
        number: usize,
        mut part: impl Batches,
        finish: &dyn Fn(RecordBatch) -> Result<RecordBatch, Error>,
    ) -> Result<(), Error> {
        let (sender, receiver) = mpsc::channel(CHANNEL_BATCHES);
        self.sender.send((number, receiver)).map_err(|_| Error::Cancelled)?;
        let send = |item| sender.blocking_send(item).map_err(|_| Error::Cancelled);
        while let Some(batch) = part.next()? {
            send(PartItem::Batch(finish(batch)?))?;
        }
        // Its memory is that of the next part.
        drop(part);
        send(PartItem::End)
    }
}

/// Called with a job that has ended.
type AtEnd = Box<dyn FnOnce(&Job) + Send>;

/// The rows of an operator as a stream of DataFusion.
pub(super) struct Output {
    run: Arc<Run>,
    parts: mpsc::UnboundedReceiver<NumberedPart>,
    /// Parts that are returned later, by number.
    later: BTreeMap<usize, mpsc::Receiver<PartItem>>,
    current: Option<mpsc::Receiver<PartItem>>,
    next: usize,
    /// A part ended before its last row.
    is_broken: bool,
    /// Called once all threads have ended.
    at_end: Option<AtEnd>,
}

/// Starts the thread of an operator, which passes its result to [`Parts`]. `at_end` is called once after its end, or when
/// the stream is dropped.
///
/// # Errors
/// If the system has no thread left.
pub(super) fn start(
    run: &Arc<Run>,
    work: impl FnOnce(&Arc<Run>, &Parts) -> Result<(), Error> + Send + 'static,
    at_end: impl FnOnce(&Job) + Send + 'static,
) -> Result<Output> {
    let (sender, parts) = mpsc::unbounded_channel();
    let shared = Arc::clone(run);
    let body = move || {
        let output = Parts { sender };
        match catch_unwind(AssertUnwindSafe(|| work(&shared, &output))) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => shared.fail_with(error),
            Err(panic) => shared.fail(Failure::Panic(panic)),
        }
        // The output ends when the threads no longer use the memory, which it returns.
        drop(shared);
        drop(output);
    };
    thread::Builder::new().name("operator".into()).spawn(body).map_err(|error| {
        DataFusionError::Execution(format!("a thread of an operator cannot be started: {error}"))
    })?;
    Ok(Output {
        run: Arc::clone(run),
        parts,
        later: BTreeMap::new(),
        current: None,
        next: 0,
        is_broken: false,
        at_end: Some(Box::new(at_end)),
    })
}

impl Output {
    /// All threads have ended: the failure, if any.
    fn end(&mut self) -> Option<Result<RecordBatch>> {
        self.finish();
        let (failure, is_cancelled) = {
            let mut state = self.run.lock();
            (state.failure.take(), state.is_cancelled)
        };
        match failure {
            Some(Failure::Error(error)) => Some(Err(error)),
            Some(Failure::Panic(panic)) => resume_unwind(panic),
            None if is_cancelled || self.is_broken || !self.later.is_empty() => {
                Some(Err(DataFusionError::Execution("the operator was cancelled".into())))
            }
            None => None,
        }
    }

    fn finish(&mut self) {
        if let Some(at_end) = self.at_end.take() {
            at_end(&self.run.job);
        }
    }
}

impl Stream for Output {
    type Item = Result<RecordBatch>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if this.at_end.is_none() {
            return Poll::Ready(None);
        }
        loop {
            if let Some(current) = &mut this.current {
                match ready!(current.poll_recv(cx)) {
                    Some(PartItem::Batch(batch)) => return Poll::Ready(Some(Ok(batch))),
                    Some(PartItem::End) => this.next += 1,
                    None => {
                        this.is_broken = true;
                        // Threads that wait for room in the channels of later parts end.
                        this.later.clear();
                    }
                }
                this.current = None;
            }
            if !this.is_broken {
                this.current = this.later.remove(&this.next);
                if this.current.is_some() {
                    continue;
                }
            }
            match ready!(this.parts.poll_recv(cx)) {
                // Rows after those that are missing are not returned.
                Some(_) if this.is_broken => {}
                Some((number, receiver)) => _ = this.later.insert(number, receiver),
                None => return Poll::Ready(this.end()),
            }
        }
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        self.run.cancel();
        self.finish();
    }
}

/// Starts an operator when the first batch is requested, and counts the rows of its result.
pub(super) struct Lazy<F> {
    schema: SchemaRef,
    start: Option<F>,
    stream: Option<Pin<Box<dyn Stream<Item = Result<RecordBatch>> + Send>>>,
    metrics: BaselineMetrics,
}

impl<F> Lazy<F> {
    pub(super) fn new(schema: SchemaRef, metrics: BaselineMetrics, start: F) -> Lazy<F> {
        Lazy { schema, start: Some(start), stream: None, metrics }
    }
}

impl<F, S> Stream for Lazy<F>
where
    F: FnOnce() -> Result<S> + Send + Unpin,
    S: Stream<Item = Result<RecordBatch>> + Send + 'static,
{
    type Item = Result<RecordBatch>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if let Some(start) = this.start.take() {
            match start() {
                Ok(stream) => this.stream = Some(Box::pin(stream)),
                Err(error) => return this.metrics.record_poll(Poll::Ready(Some(Err(error)))),
            }
        }
        let Some(stream) = &mut this.stream else { return Poll::Ready(None) };
        let polled = stream.as_mut().poll_next(cx);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            // Returns what the operator has.
            this.stream = None;
        }
        this.metrics.record_poll(polled)
    }
}

impl<F, S> RecordBatchStream for Lazy<F>
where
    F: FnOnce() -> Result<S> + Send + Unpin,
    S: Stream<Item = Result<RecordBatch>> + Send + 'static,
{
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
