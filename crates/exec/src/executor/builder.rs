//! The builder of a task: its name, lane and priority, predecessors, inputs and function.

use std::error::Error;
use std::sync::Arc;

use smallvec::SmallVec;

use super::failure::{Cause, Name};
use super::handle::{Awaited as _, Function, Handle, Inputs};
use super::place::Place;
use super::room::Room;
use super::tasks::{Lane, Task, Tasks};
use crate::queues::Priority;

impl<'env> Tasks<'env> {
    /// Starts the description of a task, which is made when it is spawned.
    pub fn task(&self, name: impl Into<Name>) -> Builder<'_, 'env> {
        Builder::new(self, None, name.into())
    }
}

/// A task to be spawned.
#[must_use = "nothing happens until it is spawned"]
pub struct Builder<'t, 'env> {
    tasks: &'t Tasks<'env>,
    /// Limit of live tasks, if the caller waits for room before it makes one.
    room: Option<&'t Room>,
    name: Name,
    lane: Lane,
    priority: Priority,
    before: SmallVec<[Task<'env>; 4]>,
}

impl<'t, 'env> Builder<'t, 'env> {
    #[inline]
    pub(super) fn new(tasks: &'t Tasks<'env>, room: Option<&'t Room>, name: Name) -> Builder<'t, 'env> {
        Builder {
            tasks,
            room,
            name,
            lane: Lane::Compute,
            priority: Priority::Normal,
            before: SmallVec::new(),
        }
    }

    /// Sets the threads that may run it.
    pub fn on(mut self, lane: Lane) -> Builder<'t, 'env> {
        self.lane = lane;
        self
    }

    /// Sets its priority among active tasks.
    pub fn priority(mut self, priority: Priority) -> Builder<'t, 'env> {
        self.priority = priority;
        self
    }

    /// Delays its start until these have ended: a [`Handle`], a [`SharedHandle`](super::SharedHandle), or several of
    /// them. Their outputs are not consumed.
    pub fn wait_for<I: Inputs<'env>>(mut self, others: &I) -> Builder<'t, 'env> {
        others.each(&mut |task| self.before.push(task.of_any()));
        self
    }

    /// Passes the outputs of these tasks as its inputs; it starts when they have ended. Several are given as a tuple or
    /// a `Vec`.
    ///
    /// ```
    /// use sakiyomi_exec::executor::Threads;
    /// let line = Threads::new(2).run(|tasks| {
    ///     let name = tasks.task("name").spawn(|_| String::from("saki"));
    ///     let count = tasks.task("count").spawn(|_| 3);
    ///     let line = tasks.task("line").with((name, count)).spawn(|(name, count), _| name.repeat(count));
    ///     tasks.wait(line)
    /// });
    /// assert_eq!(line??, "sakisakisaki");
    /// # Ok::<(), sakiyomi_exec::executor::Failure>(())
    /// ```
    pub fn with<I: Inputs<'env>>(self, inputs: I) -> WithInputs<'t, 'env, I> {
        WithInputs { builder: self, inputs }
    }

    /// Spawns a task that cannot fail except by panicking.
    pub fn spawn<T: Send + 'env>(
        self,
        what: impl FnOnce(&Tasks<'env>) -> T + Send + 'env,
    ) -> Handle<'env, T> {
        self.make(move |tasks| Ok(what(tasks)))
    }

    /// Spawns a task that may fail. On an error, its dependents end without being run.
    ///
    /// ```
    /// use std::error::Error;
    /// use sakiyomi_exec::executor::{Lane, Threads};
    /// let result = Threads::new(2).run(|tasks| {
    ///     let read = tasks.task("read").on(Lane::Io(0)).try_spawn(|_| std::fs::read("no/such/file"));
    ///     let print = tasks.task("print").with(read).spawn(|bytes, _| panic!("{} bytes", bytes.len()));
    ///     print.forget();
    /// });
    /// let failure = result.unwrap_err();
    /// assert_eq!(failure.to_string(), "the task `read` failed");
    /// assert!(failure.source().unwrap().to_string().contains("No such file"));
    /// ```
    pub fn try_spawn<T: Send + 'env, E: Into<Box<dyn Error + Send + Sync>>>(
        self,
        what: impl FnOnce(&Tasks<'env>) -> Result<T, E> + Send + 'env,
    ) -> Handle<'env, T> {
        self.make(move |tasks| what(tasks).map_err(Cause::failed))
    }

    fn make<T: Send + 'env>(
        self,
        what: impl FnOnce(&Tasks<'env>) -> Result<T, Cause> + Send + 'env,
    ) -> Handle<'env, T> {
        let Builder { tasks, room, name, lane, priority, before } = self;
        let _place = enter(tasks, room);
        let handle = Handle::new(tasks.core(name, lane, priority, before.len()), what);
        let task = handle.of_any();
        tasks.count_made();
        if before.is_empty() {
            tasks.activate(task);
            return handle;
        }
        let ended = before.iter().filter(|before| !before.core().edges.then(&task)).count();
        // Counts also the task's own creation, which is complete here.
        tasks.release(task, 1 + ended as u32);
        handle
    }

    /// Makes a task that gets `inputs`. They become its own after it is known to the tasks that give them, so that no
    /// reference to these has to be copied.
    fn make_with<I: Inputs<'env> + Send + 'env, T: Send + 'env>(
        self,
        inputs: I,
        what: impl FnOnce(I::Given, &Tasks<'env>) -> Result<T, Cause> + Send + 'env,
    ) -> Handle<'env, T> {
        let Builder { tasks, room, name, lane, priority, before } = self;
        let _place = enter(tasks, room);
        let mut count = before.len();
        inputs.each(&mut |_| count += 1);
        let function = Function::empty(tasks.core(name, lane, priority, count));
        let task: Task<'env> = Arc::clone(&function) as Task<'env>;
        tasks.count_made();
        let mut ended = before.iter().filter(|before| !before.core().edges.then(&task)).count();
        inputs.each(&mut |input| ended += usize::from(!input.core().edges.then(&task)));
        function.put(move |tasks: &Tasks<'env>| what(inputs.take(), tasks));
        tasks.release(task, 1 + ended as u32);
        function.handle()
    }
}

/// Waits for room, and makes this thread the caller of the run, if a task is made by the caller.
#[inline]
fn enter<'env>(tasks: &Tasks<'env>, room: Option<&Room>) -> Option<Place> {
    let room = room?;
    room.wait(tasks);
    tasks.enter_as_caller()
}

/// A task to be spawned, with its inputs.
#[must_use = "nothing happens until it is spawned"]
pub struct WithInputs<'t, 'env, I> {
    builder: Builder<'t, 'env>,
    inputs: I,
}

impl<'env, I: Inputs<'env> + Send + 'env> WithInputs<'_, 'env, I> {
    /// Spawns a task that cannot fail except by panicking.
    pub fn spawn<T: Send + 'env>(
        self,
        what: impl FnOnce(I::Given, &Tasks<'env>) -> T + Send + 'env,
    ) -> Handle<'env, T> {
        self.builder.make_with(self.inputs, move |given, tasks| Ok(what(given, tasks)))
    }

    /// Spawns a task that may fail.
    pub fn try_spawn<T: Send + 'env, E: Into<Box<dyn Error + Send + Sync>>>(
        self,
        what: impl FnOnce(I::Given, &Tasks<'env>) -> Result<T, E> + Send + 'env,
    ) -> Handle<'env, T> {
        self.builder.make_with(self.inputs, move |given, tasks| what(given, tasks).map_err(Cause::failed))
    }
}
