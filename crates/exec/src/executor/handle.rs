//! Tasks made of functions, and handles of their outputs.

use std::mem;
use std::sync::Arc;

use super::edges::Few;
use super::failure::Cause;
use super::tasks::{Core, Run, Task, Tasks};
use crate::sync::{Mutex, lock};

/// A task, and its output once it has ended.
#[must_use = "the output of the task is not used; call `.forget()` if only its side effects matter"]
pub struct Handle<'env, T> {
    task: Arc<dyn Gives<'env, T> + 'env>,
}

/// A task whose output is the input of several others.
pub struct SharedHandle<'env, T> {
    task: Arc<dyn Gives<'env, T> + 'env>,
    output: Arc<Mutex<Option<Arc<T>>>>,
}

impl<'env, T> Handle<'env, T> {
    pub(super) fn new<F>(core: Core<'env>, function: F) -> Handle<'env, T>
    where
        F: FnOnce(&Tasks<'env>) -> Result<T, Cause> + Send + 'env,
        T: Send + 'env,
    {
        Handle { task: Arc::new(Function { core, work: Mutex::new(Work::ToDo(function)) }) }
    }

    /// Returns the task without the type of its output.
    pub(super) fn of_any(&self) -> Task<'env> {
        Arc::clone(&self.task) as Task<'env>
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
        SharedHandle { task: self.task, output: Arc::new(Mutex::new(None)) }
    }
}

impl<T> Clone for SharedHandle<'_, T> {
    fn clone(&self) -> Self {
        SharedHandle { task: Arc::clone(&self.task), output: Arc::clone(&self.output) }
    }
}

/// Inputs of a task, or outputs that the caller waits for: of one task, of a tuple of up to four, or of a `Vec`.
pub trait Inputs<'env> {
    /// The outputs.
    type Given;
    #[doc(hidden)]
    #[expect(private_interfaces, reason = "nobody else implements it")]
    fn tasks(&self, tasks: &mut Few<Task<'env>>);
    #[doc(hidden)]
    fn take(self) -> Self::Given;
}

impl<'env, T> Inputs<'env> for Handle<'env, T> {
    type Given = T;

    #[expect(private_interfaces, reason = "nobody else implements it")]
    fn tasks(&self, tasks: &mut Few<Task<'env>>) {
        tasks.push(self.of_any());
    }

    fn take(self) -> T {
        self.task.take()
    }
}

impl<'env, T> Inputs<'env> for SharedHandle<'env, T> {
    type Given = Arc<T>;

    #[expect(private_interfaces, reason = "nobody else implements it")]
    fn tasks(&self, tasks: &mut Few<Task<'env>>) {
        tasks.push(Arc::clone(&self.task) as Task<'env>);
    }

    fn take(self) -> Arc<T> {
        Arc::clone(lock(&self.output).get_or_insert_with(|| Arc::new(self.task.take())))
    }
}

impl<'env, I: Inputs<'env>> Inputs<'env> for Vec<I> {
    type Given = Vec<I::Given>;

    #[expect(private_interfaces, reason = "nobody else implements it")]
    fn tasks(&self, tasks: &mut Few<Task<'env>>) {
        self.iter().for_each(|input| input.tasks(tasks));
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
            fn tasks(&self, tasks: &mut Few<Task<'env>>) {
                $(self.$index.tasks(tasks);)+
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
struct Function<'env, F, T> {
    core: Core<'env>,
    work: Mutex<Work<F, T>>,
}

enum Work<F, T> {
    ToDo(F),
    /// The function is running or was discarded, or the output was taken.
    Nothing,
    Done(T),
}

impl<F, T> Work<F, T> {
    fn take(&mut self) -> Work<F, T> {
        mem::replace(self, Work::Nothing)
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
        let Work::ToDo(function) = work.take() else { panic!("a task is run once") };
        *work = Work::Done(function(tasks)?);
        Ok(false)
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
