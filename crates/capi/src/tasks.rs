//! Tasks: functions of C's with inputs and outputs, run by the threads of an executor.
//!
//! The owner of a run and its tasks use the same functions, on different pointers: the owner's may wait, that of a task is
//! valid while its function runs. A lock that is only tried refuses a second user of the owner's pointer.

use std::borrow::Cow;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use sakiyomi_exec::executor::{
    Builder, Cause, Executor as Threads, Failure as TaskFailure, Lane, Priority, Run, SharedHandle,
    Tasks as RunTasks, Threads as ThreadOptions,
};

use crate::failure::{Failure, guarded};
use crate::pointers::{check_size, free, given, place, shared};

/// Threads that run tasks, which C holds as an opaque pointer.
pub struct Executor(Arc<Threads<'static>>);

/// `sakiyomi_executor_options`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ExecutorOptions {
    /// Size of this structure in bytes.
    pub size: usize,
    /// Number of compute threads; 0 for one per core.
    pub threads: u32,
    /// Maximum number of live tasks that the owner of a run has made; 0 for the default.
    pub live_max: u32,
    /// Number of threads of each I/O lane.
    pub io_lanes: *const u32,
    /// Number of I/O lanes; 0 for one with one thread.
    pub io_lane_count: usize,
    /// Cores to which compute threads are pinned.
    pub cores: *const u32,
    /// Number of these cores; 0 for threads that are not pinned.
    pub core_count: usize,
}

/// `sakiyomi_task_options`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TaskOptions {
    /// Size of this structure in bytes.
    pub size: usize,
    /// Name for messages; may be null.
    pub name: *const c_char,
    /// The threads that may run it: 0 compute, 1 an I/O lane, 2 a compute thread.
    pub lane: c_int,
    /// Number of the I/O lane or compute thread.
    pub lane_number: u32,
    /// Negative for low, 0 for normal, positive for high.
    pub priority: c_int,
    /// Frees the context.
    pub destroy_context: DestroyFunction,
    /// Frees the output.
    pub destroy_output: DestroyFunction,
}

/// `sakiyomi_task_function`.
pub type TaskFunction = Option<
    unsafe extern "C" fn(
        tasks: *const Tasks,
        inputs: *const *mut c_void,
        count: usize,
        context: *mut c_void,
        output: *mut *mut c_void,
    ) -> c_int,
>;
/// `sakiyomi_destroy_function`.
pub type DestroyFunction = Option<unsafe extern "C" fn(object: *mut c_void)>;

/// A run, for its owner or one of its tasks, which C holds as an opaque pointer.
pub struct Tasks {
    /// Identity of the run.
    id: u64,
    /// The run's tasks. They outlive this: the owner has the run, and a task is one of them.
    tasks: *const RunTasks<'static>,
    /// The run, for its owner. It is locked while it is used, also while it is finished.
    owned: Option<Mutex<Owned>>,
}

/// A run, until it is finished.
struct Owned(Option<Run<'static, Arc<Threads<'static>>>>);

impl Owned {
    fn run(&self) -> &Run<'static, Arc<Threads<'static>>> {
        self.0.as_ref().expect("nothing uses a run that was finished")
    }
}

/// A task, which C holds as an opaque pointer.
pub struct Task {
    /// Identity of its run.
    run: u64,
    handle: SharedHandle<'static, Output>,
}

/// Identity of the next run. Addresses are no identities: that of a run that has ended is used again.
static RUNS: AtomicU64 = AtomicU64::new(0);

/// Starts the threads of an executor.
///
/// # Safety
/// `options` is null or points to valid options; `executor` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sakiyomi_executor_start(
    options: *const ExecutorOptions,
    executor: *mut *mut Executor,
) -> c_int {
    guarded(|| {
        // SAFETY: guaranteed by the caller.
        let (executor, threads) = unsafe { (place(executor, "executor")?, threads(options)?) };
        *executor = given(Executor(Arc::new(threads.start()?)));
        Ok(0)
    })
}

/// Returns the number of compute threads.
///
/// # Safety
/// `executor` is null or a started executor.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sakiyomi_executor_threads(executor: *const Executor) -> c_int {
    guarded(|| {
        // SAFETY: guaranteed by the caller; an executor is `Sync`.
        let threads = unsafe { shared(executor, "executor")? }.0.threads();
        Ok(c_int::try_from(threads).unwrap_or(c_int::MAX))
    })
}

/// Ends the threads of an executor once its runs have ended.
///
/// # Safety
/// `executor` is null or a started executor, and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sakiyomi_executor_close(executor: *mut Executor) -> c_int {
    guarded(|| {
        // SAFETY: guaranteed by the caller.
        unsafe { free(executor) };
        Ok(0)
    })
}

/// Starts a run.
///
/// # Safety
/// `executor` is null or a started executor; `tasks` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sakiyomi_tasks_start(executor: *const Executor, tasks: *mut *mut Tasks) -> c_int {
    guarded(|| {
        // SAFETY: guaranteed by the caller; an executor is `Sync`.
        let (tasks, executor) = unsafe { (place(tasks, "tasks")?, shared(executor, "executor")?) };
        let run = Threads::start(Arc::clone(&executor.0));
        let own: &RunTasks<'static> = &run;
        let (id, own) = (RUNS.fetch_add(1, Ordering::Relaxed), ptr::from_ref(own));
        *tasks = given(Tasks { id, tasks: own, owned: Some(Mutex::new(Owned(Some(run)))) });
        Ok(0)
    })
}

/// Makes a task.
///
/// # Safety
/// `tasks` is null, a run of the caller's, or that of the current task; `options` is null or points to valid options;
/// `inputs` is null or has `count` pointers to tasks that are not released; `task` is null or writable; the functions may
/// be called from any thread with what is theirs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sakiyomi_tasks_spawn(
    tasks: *const Tasks,
    options: *const TaskOptions,
    inputs: *const *const Task,
    count: usize,
    function: TaskFunction,
    context: *mut c_void,
    task: *mut *mut Task,
) -> c_int {
    guarded(|| {
        // SAFETY: guaranteed by the caller.
        let task = if task.is_null() { None } else { Some(unsafe { place(task, "task")? }) };
        // SAFETY: guaranteed by the caller; only the lock's holder uses what is not `Sync`.
        let run = unsafe { shared(tasks, "tasks")? };
        let function = function.ok_or_else(|| Failure::null("function"))?;
        // SAFETY: guaranteed by the caller.
        let (spawning, inputs) = unsafe { (Spawning::given(options)?, listed(inputs, count, run.id)?) };
        let owned = run.owned()?;
        let builder = match &owned {
            Some(owned) => owned.run().task(spawning.name),
            // SAFETY: a task of the run is using it, so the run has not ended.
            None => unsafe { &*run.tasks }.task(spawning.name),
        };
        let builder = builder.on(spawning.lane).priority(spawning.priority);
        let context = Context { object: context, destroy: spawning.destroy_context };
        let work = Work { run: run.id, function, context, destroy_output: spawning.destroy_output };
        let handle = spawned(builder, inputs, work);
        if let Some(task) = task {
            *task = given(Task { run: run.id, handle });
        }
        Ok(0)
    })
}

/// Runs tasks until one has ended.
///
/// # Safety
/// `tasks` is null, a run of the caller's, or that of the current task; `task` is null or a task that is not released;
/// `output` is null or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sakiyomi_tasks_wait(
    tasks: *const Tasks,
    task: *const Task,
    output: *mut *mut c_void,
) -> c_int {
    guarded(|| {
        // SAFETY: guaranteed by the caller.
        let output = if output.is_null() { None } else { Some(unsafe { place(output, "output")? }) };
        // SAFETY: guaranteed by the caller; only the lock's holder uses what is not `Sync`, and a task is `Sync`.
        let (run, task) = unsafe { (shared(tasks, "tasks")?, shared(task, "task")?) };
        if task.run != run.id {
            return Err(Failure::invalid("the task belongs to another run; wait for it with that one"));
        }
        let owned = run.owned()?.ok_or_else(|| {
            Failure::deadlock("a task cannot wait for another one: make a task that has it as an input")
        })?;
        let ended = owned.run().wait(task.handle.clone())?;
        if let Some(output) = output {
            *output = ended.object;
        }
        Ok(0)
    })
}

/// Cancels a run.
///
/// # Safety
/// `tasks` is null, a run that is not finished, or that of the current task.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sakiyomi_tasks_cancel(tasks: *const Tasks) -> c_int {
    guarded(|| {
        // SAFETY: guaranteed by the caller; any thread may cancel.
        unsafe { (*shared(tasks, "tasks")?.tasks).cancel() };
        Ok(0)
    })
}

/// Returns whether a run was cancelled.
///
/// # Safety
/// `tasks` is null, a run that is not finished, or that of the current task.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sakiyomi_tasks_is_cancelled(tasks: *const Tasks) -> c_int {
    guarded(|| {
        // SAFETY: guaranteed by the caller; any thread may ask.
        let is_cancelled = unsafe { (*shared(tasks, "tasks")?.tasks).is_cancelled() };
        Ok(c_int::from(is_cancelled))
    })
}

/// Waits until all tasks of a run have ended, and frees it.
///
/// # Safety
/// `tasks` is null, a run of the caller's, which is not used afterwards unless this fails with `EBUSY` or `EDEADLK`, or
/// that of the current task.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sakiyomi_tasks_finish(tasks: *mut Tasks) -> c_int {
    guarded(|| {
        if tasks.is_null() {
            return Ok(0);
        }
        // SAFETY: not null, and a run of the caller's.
        let finished = match unsafe { &*tasks }.owned()? {
            None => return Err(Failure::deadlock("a task cannot finish the run that it belongs to")),
            // It stays locked and allocated meanwhile, in case that a task uses this pointer.
            Some(mut owned) => owned.0.take().map_or(Ok(()), Run::finish),
        };
        // SAFETY: it was made by `given`, and the caller does not use it afterwards.
        unsafe { free(tasks) };
        finished?;
        Ok(0)
    })
}

/// Frees a handle of a task.
///
/// # Safety
/// `task` is null or a task that is not released, and is not used afterwards.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sakiyomi_task_release(task: *mut Task) -> c_int {
    guarded(|| {
        // SAFETY: guaranteed by the caller.
        unsafe { free(task) };
        Ok(0)
    })
}

impl Tasks {
    /// Returns the run for its owner, and nothing for a task.
    fn owned(&self) -> Result<Option<MutexGuard<'_, Owned>>, Failure> {
        match self.owned.as_ref().map(Mutex::try_lock) {
            None => Ok(None),
            Some(Ok(owned)) => Ok(Some(owned)),
            // The run is consistent after a panic, which its tasks catch.
            Some(Err(TryLockError::Poisoned(owned))) => Ok(Some(owned.into_inner())),
            Some(Err(TryLockError::WouldBlock)) => Err(Failure::busy(
                "the run is in use: its owner uses it in one thread at a time, and a task the one that it is given",
            )),
        }
    }
}

/// The function of a task with its context.
struct Work {
    run: u64,
    function:
        unsafe extern "C" fn(*const Tasks, *const *mut c_void, usize, *mut c_void, *mut *mut c_void) -> c_int,
    context: Context,
    destroy_output: DestroyFunction,
}

impl Work {
    fn run(self, inputs: &[Arc<Output>], tasks: &RunTasks<'static>) -> Result<Output, Returned> {
        let inputs: Vec<*mut c_void> = inputs.iter().map(|input| input.object).collect();
        let view = Tasks { id: self.run, tasks, owned: None };
        let mut output = Output { object: ptr::null_mut(), destroy: self.destroy_output };
        // SAFETY: all pointers are valid during the call; the outputs and the context are those of the caller's.
        let code = unsafe {
            (self.function)(
                &raw const view,
                inputs.as_ptr(),
                inputs.len(),
                self.context.object,
                &raw mut output.object,
            )
        };
        if code == 0 { Ok(output) } else { Err(Returned(code)) }
    }
}

fn spawned(
    builder: Builder<'_, 'static>,
    inputs: Vec<SharedHandle<'static, Output>>,
    work: Work,
) -> SharedHandle<'static, Output> {
    if inputs.is_empty() {
        return builder.try_spawn(move |tasks| work.run(&[], tasks)).share();
    }
    builder.with(inputs).try_spawn(move |inputs, tasks| work.run(&inputs, tasks)).share()
}

/// The context of a task, which is destroyed once its function has returned, or will not be called.
struct Context {
    object: *mut c_void,
    destroy: DestroyFunction,
}

// SAFETY: the caller guarantees that its functions may be called from any thread with it.
unsafe impl Send for Context {}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: guaranteed by the caller of `sakiyomi_tasks_spawn`; it is dropped once.
        unsafe { destroy(self.destroy, self.object) };
    }
}

/// The output of a task, which is destroyed when neither a handle nor a task has it.
struct Output {
    object: *mut c_void,
    destroy: DestroyFunction,
}

// SAFETY: the caller guarantees that its functions may be called from any thread with it.
unsafe impl Send for Output {}
// SAFETY: as above; several tasks may have it as an input at the same time.
unsafe impl Sync for Output {}

impl Drop for Output {
    fn drop(&mut self) {
        // SAFETY: guaranteed by the caller of `sakiyomi_tasks_spawn`; it is dropped once.
        unsafe { destroy(self.destroy, self.object) };
    }
}

/// # Safety
/// The function may be called with the object.
unsafe fn destroy(function: DestroyFunction, object: *mut c_void) {
    if let Some(function) = function
        && !object.is_null()
    {
        // SAFETY: guaranteed by the caller.
        unsafe { function(object) };
    }
}

/// A task's function returned this code.
#[derive(Debug, thiserror::Error)]
#[error("its function returned {0}")]
struct Returned(c_int);

impl From<TaskFailure> for Failure {
    fn from(failure: TaskFailure) -> Failure {
        match &failure.cause {
            Cause::Failed(error) => match error.downcast_ref::<Returned>() {
                Some(Returned(code)) => Failure::returned(*code, &failure),
                None => Failure::of_input(failure.to_string()),
            },
            Cause::Cancelled => Failure::cancelled(&failure),
            Cause::NoThread(error) => Failure::system(&failure.to_string(), error),
            Cause::NoCore(_) => Failure::invalid(failure.to_string()),
            Cause::Panicked(_) => Failure::of_input(failure.to_string()),
        }
    }
}

/// The options of a task.
struct Spawning {
    name: Cow<'static, str>,
    lane: Lane,
    priority: Priority,
    destroy_context: DestroyFunction,
    destroy_output: DestroyFunction,
}

/// Name of a task that has none.
const NAME_DEFAULT: &str = "task";

impl Spawning {
    /// # Safety
    /// `options` is null or points to valid options.
    unsafe fn given(options: *const TaskOptions) -> Result<Spawning, Failure> {
        if options.is_null() {
            let (name, lane, priority) = (Cow::Borrowed(NAME_DEFAULT), Lane::Compute, Priority::Normal);
            return Ok(Spawning { name, lane, priority, destroy_context: None, destroy_output: None });
        }
        // SAFETY: the caller guarantees that it points to options; their size is checked first.
        let TaskOptions { name, lane, lane_number, priority, destroy_context, destroy_output, .. } = unsafe {
            check_size(options.cast(), "options", size_of::<TaskOptions>())?;
            options.read()
        };
        let name = if name.is_null() {
            Cow::Borrowed(NAME_DEFAULT)
        } else {
            // SAFETY: not null, and NUL-terminated as guaranteed by the caller.
            Cow::Owned(unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
        };
        let number = lane_number as usize;
        let lane = match lane {
            0 => Lane::Compute,
            1 => Lane::Io(number),
            2 => Lane::Pinned(number),
            _ => {
                return Err(Failure::invalid(format!(
                    "options.lane is {lane}; it is SAKIYOMI_LANE_COMPUTE, SAKIYOMI_LANE_IO or SAKIYOMI_LANE_PINNED"
                )));
            }
        };
        let priority = match priority {
            ..0 => Priority::Low,
            0 => Priority::Normal,
            1.. => Priority::High,
        };
        Ok(Spawning { name, lane, priority, destroy_context, destroy_output })
    }
}

/// Returns the handles of the inputs of a task of this run.
///
/// # Safety
/// `inputs` is null or has `count` pointers to tasks that are not released.
unsafe fn listed(
    inputs: *const *const Task,
    count: usize,
    run: u64,
) -> Result<Vec<SharedHandle<'static, Output>>, Failure> {
    if inputs.is_null() && count > 0 {
        return Err(Failure::null("inputs"));
    }
    let input = |index: usize| {
        // SAFETY: there are so many, as guaranteed by the caller.
        let input = unsafe { shared(inputs.add(index).read(), "an input")? };
        if input.run != run {
            return Err(Failure::invalid(format!("the input {index} belongs to another run")));
        }
        Ok(input.handle.clone())
    };
    (0..count).map(input).collect()
}

/// # Safety
/// `options` is null or points to valid options.
unsafe fn threads(options: *const ExecutorOptions) -> Result<ThreadOptions, Failure> {
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    if options.is_null() {
        return Ok(ThreadOptions::new(cores()));
    }
    // SAFETY: the caller guarantees that it points to options; their size is checked first.
    let options = unsafe {
        check_size(options.cast(), "options", size_of::<ExecutorOptions>())?;
        options.read()
    };
    let mut threads = ThreadOptions::new(match options.threads {
        0 => cores(),
        threads => threads as usize,
    });
    if options.live_max > 0 {
        threads = threads.live_max(options.live_max as usize);
    }
    // SAFETY: guaranteed by the caller.
    let (lanes, pinned) = unsafe {
        (
            numbers(options.io_lanes, options.io_lane_count, "options.io_lanes")?,
            numbers(options.cores, options.core_count, "options.cores")?,
        )
    };
    if !lanes.is_empty() {
        threads = threads.io_lanes(lanes);
    }
    Ok(threads.cores(pinned))
}

/// # Safety
/// `numbers` is null or has `count` of them.
unsafe fn numbers(numbers: *const u32, count: usize, name: &str) -> Result<Vec<usize>, Failure> {
    if count == 0 {
        return Ok(Vec::new());
    }
    if numbers.is_null() {
        return Err(Failure::null(name));
    }
    // SAFETY: not null, and so many as guaranteed by the caller.
    Ok(unsafe { slice::from_raw_parts(numbers, count) }.iter().map(|&number| number as usize).collect())
}
