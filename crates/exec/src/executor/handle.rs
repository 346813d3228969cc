//! Tasks made of functions, and handles of their outputs.

use std::mem;
use std::sync::Arc;

use super::failure::Cause;
use super::tasks::{Core, Run, Task, Tasks};
use crate::sync::{Mutex, OnceArc, alone, lock};

/// A task, and its output once it has ended.
#[must_use = "the output of the task is not used; call `.forget()` if only its side effects matter"]
pub struct Handle<'env, T> {
    task: Arc<dyn Gives<'env, T> + 'env>,
}

/// A task whose output is the input of several others.
pub struct SharedHandle<'env, T>(Arc<Shared<'env, T>>);

struct Shared<'env, T> {
    task: Arc<dyn Gives<'env, T> + 'env>,
    output: OnceArc<T>,
}

impl<'env, T> Handle<'env, T> {
    pub(super) fn new<F>(core: Core<'env>, function: F) -> Handle<'env, T>
    where
        F: FnOnce(&Tasks<'env>) -> Result<T, Cause> + Send + 'env,
        T: Send + 'env,
    {
        Handle { task: Arc::new(Function { core, work: Mutex::new(Work::ToDo(function)) }) }
    }

    /// Drops the handle; a failure of the task is still reported by the run.
    pub fn forget(self) {}
}

impl<'env, T: Send + Sync + 'env> Handle<'env, T> {
    /// Shares the output among several tasks, each of which receives an `Arc` of it.
    ///
    /// ```
    /// use sakiyomi_exec::executor::Threads;
    /// let (lines, bytes) = Threads::new(2)
    ///     .run(|tasks| {
    ///         let text = tasks.task("text").spawn(|_| "so\nhappy\n".to_owned()).share();
    ///         let lines = tasks.task("lines").with(text.clone()).spawn(|text, _| text.lines().count());
    ///         let bytes = tasks.task("bytes").with(text).spawn(|text, _| text.len());
    ///         tasks.wait((lines, bytes))
    ///     })??;
    /// assert_eq!((lines, bytes), (2, 9));
    /// # Ok::<(), sakiyomi_exec::executor::Failure>(())
    /// ```
    pub fn share(self) -> SharedHandle<'env, T> {
        SharedHandle(Arc::new(Shared { task: self.task, output: OnceArc::new() }))
    }
}

impl<T> Clone for SharedHandle<'_, T> {
    fn clone(&self) -> Self {
        SharedHandle(Arc::clone(&self.0))
    }
}

/// A task whose end is awaited.
pub(super) trait Awaited<'env> {
    fn core(&self) -> &Core<'env>;

    /// Returns the task without the type of its output.
    fn of_any(&self) -> Task<'env>;
}

impl<'env, T> Awaited<'env> for Handle<'env, T> {
    fn core(&self) -> &Core<'env> {
        self.task.core()
    }

    fn of_any(&self) -> Task<'env> {
        Arc::clone(&self.task) as Task<'env>
    }
}

impl<'env, T> Awaited<'env> for SharedHandle<'env, T> {
    fn core(&self) -> &Core<'env> {
        self.0.task.core()
    }

    fn of_any(&self) -> Task<'env> {
        Arc::clone(&self.0.task) as Task<'env>
    }
}

/// Inputs of a task, or outputs that the caller waits for: of one task, of a tuple of up to four, or of a `Vec`.
pub trait Inputs<'env> {
    /// The outputs.
    type Given;
    #[doc(hidden)]
    #[expect(private_interfaces, reason = "nobody else implements it")]
    fn each(&self, visit: &mut dyn FnMut(&dyn Awaited<'env>));
    #[doc(hidden)]
    fn take(self) -> Self::Given;
}

impl<'env, T> Inputs<'env> for Handle<'env, T> {
    type Given = T;

    #[expect(private_interfaces, reason = "nobody else implements it")]
    fn each(&self, visit: &mut dyn FnMut(&dyn Awaited<'env>)) {
        visit(self);
    }

    fn take(self) -> T {
        self.task.take()
    }
}

impl<'env, T> Inputs<'env> for SharedHandle<'env, T> {
    type Given = Arc<T>;

    #[expect(private_interfaces, reason = "nobody else implements it")]
    fn each(&self, visit: &mut dyn FnMut(&dyn Awaited<'env>)) {
        visit(self);
    }

    fn take(self) -> Arc<T> {
        self.0.output.get_or_make(|| self.0.task.take())
    }
}

impl<'env, I: Inputs<'env>> Inputs<'env> for Vec<I> {
    type Given = Vec<I::Given>;

    #[expect(private_interfaces, reason = "nobody else implements it")]
    fn each(&self, visit: &mut dyn FnMut(&dyn Awaited<'env>)) {
        self.iter().for_each(|input| input.each(visit));
    }

    fn take(self) -> Vec<I::Given> {
        self.into_iter().map(I::take).collect()
    }
}

macro_rules! inputs_in_tuples {
    ($($input:ident $index:tt),+) => {
        impl<'env, $($input: Inputs<'env>),+> Inputs<'env> for ($($input,)+) {
            type Given = ($($input::Given,)+);

            #[expect(private_interfaces, reason = "nobody else implements it")]
            fn each(&self, visit: &mut dyn FnMut(&dyn Awaited<'env>)) {
                $(self.$index.each(visit);)+
            }

            fn take(self) -> Self::Given {
                ($(self.$index.take(),)+)
            }
        }
    };
}

inputs_in_tuples!(A 0, B 1);
inputs_in_tuples!(A 0, B 1, C 2);
inputs_in_tuples!(A 0, B 1, C 2, D 3);

/// A task whose output is consumed after it has ended.
trait Gives<'env, T>: Run<'env> {
    /// Takes the output.
    ///
    /// # Panics
    /// If the task has failed, or the output was taken; handles are moved, so neither happens.
    fn take(&self) -> T;
}

/// A function, and later its output.
pub(super) struct Function<'env, F, T> {
    core: Core<'env>,
    work: Mutex<Work<F, T>>,
}

enum Work<F, T> {
    ToDo(F),
    /// The function is not there yet, is running or was discarded, or the output was taken.
    Nothing,
    Done(T),
}

impl<'env, F, T> Function<'env, F, T>
where
    F: FnOnce(&Tasks<'env>) -> Result<T, Cause> + Send + 'env,
    T: Send + 'env,
{
    /// Makes a task whose function is [put](Function::put) later, but before the task may start.
    pub(super) fn empty(core: Core<'env>) -> Arc<Function<'env, F, T>> {
        Arc::new(Function { core, work: Mutex::new(Work::Nothing) })
    }

    pub(super) fn put(&self, function: F) {
        *lock(&self.work) = Work::ToDo(function);
    }

    pub(super) fn handle(self: Arc<Self>) -> Handle<'env, T> {
        Handle { task: self }
    }
}

impl<F, T> Work<F, T> {
    fn take(&mut self) -> Work<F, T> {
        mem::replace(self, Work::Nothing)
    }

    fn run(&mut self, run: impl FnOnce(F) -> Result<T, Cause>) -> Result<(), Cause> {
        let Work::ToDo(function) = self.take() else { panic!("a task is run once") };
        *self = Work::Done(run(function)?);
        Ok(())
    }
}

impl<'env, F, T> Run<'env> for Function<'env, F, T>
where
    F: FnOnce(&Tasks<'env>) -> Result<T, Cause> + Send,
    T: Send,
{
    fn core(&self) -> &Core<'env> {
        &self.core
    }

    fn run(&self, tasks: &Tasks<'env>) -> Result<bool, Cause> {
        // The lock is uncontended: outputs are taken only after the task has ended.
        let mut work = lock(&self.work);
        work.run(|function| function(tasks))?;
        Ok(false)
    }

    fn run_alone(&mut self, tasks: &Tasks<'env>) -> Result<bool, Cause> {
        let work = alone(&mut self.work);
        work.run(|function| function(tasks))?;
        drop(work.take());
        Ok(false)
    }

    fn core_alone(&mut self) -> &mut Core<'env> {
        &mut self.core
    }

    fn discard(&self) {
        let work = lock(&self.work).take();
        drop(work);
    }
}

impl<'env, F, T> Gives<'env, T> for Function<'env, F, T>
where
    F: FnOnce(&Tasks<'env>) -> Result<T, Cause> + Send,
    T: Send,
{
    fn take(&self) -> T {
        let Work::Done(output) = lock(&self.work).take() else { panic!("an output is there once") };
        output
    }
}
