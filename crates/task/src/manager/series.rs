//! Tasks made of items, of which each that ends makes the next: the task blocks of the paper (section 3.1).

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};

use super::node::{Cause, Core, Function, Handle, Run, Task};
use super::{Device, Name, Priority, Tasks};

/// Makes the first ones, `at_a_time` of them or fewer. The handle is of what ends when all have.
pub(super) fn start<'env, I, T, E>(
    tasks: &Tasks<'env>,
    name: Name,
    at_a_time: usize,
    items: T,
    what: impl Fn(I, &Tasks<'env>) -> Result<(), E> + Send + Sync + 'env,
) -> Handle<'env, ()>
where
    I: Send + 'env,
    T: Iterator<Item = I> + Send + 'env,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    assert!(at_a_time > 0, "none at a time");
    // Ends when all those have that make up the series, and this function has let go.
    let core = Core::new(name.clone(), Device::Any, Priority::High);
    let end = Handle { task: Arc::new(Function::new(core, |_: &Tasks<'env>| Ok(()))) };
    tasks.count_made();
    let series = Arc::new(Series { items: Mutex::new(items), what, end: end.of_any() });
    for _ in 0..at_a_time {
        let Some(item) = series.next(tasks) else { break };
        let core = Core::new(name.clone(), Device::Any, Priority::Normal);
        let one: Task<'env> =
            Arc::new(OneOfSeries { core, item: Mutex::new(Some(item)), series: Arc::clone(&series) });
        one.core().then(&series.end);
        tasks.count_made();
        tasks.release(one);
    }
    tasks.release(end.of_any());
    end
}

/// Tasks made of items, one after the other.
struct Series<'env, T, F> {
    items: Mutex<T>,
    what: F,
    end: Task<'env>,
}

/// One of the tasks of a series that are live at the same time. It is run again with the next item: nothing is
/// allocated for each.
struct OneOfSeries<'env, I, T, F> {
    core: Core<'env>,
    item: Mutex<Option<I>>,
    series: Arc<Series<'env, T, F>>,
}

impl<'env, I, T: Iterator<Item = I>, F> Series<'env, T, F> {
    /// The next item, unless there are to be no more.
    fn next(&self, tasks: &Tasks<'env>) -> Option<I> {
        if self.end.core().is_broken() || tasks.is_cancelled() {
            return None;
        }
        self.items.lock().unwrap_or_else(PoisonError::into_inner).next()
    }
}

impl<'env, I, T, F, E> Run<'env> for OneOfSeries<'env, I, T, F>
where
    I: Send + 'env,
    T: Iterator<Item = I> + Send + 'env,
    F: Fn(I, &Tasks<'env>) -> Result<(), E> + Send + Sync + 'env,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    fn core(&self) -> &Core<'env> {
        &self.core
    }

    fn run(&self, tasks: &Tasks<'env>) -> Result<bool, Cause> {
        let item = self.item.lock().unwrap_or_else(PoisonError::into_inner).take();
        (self.series.what)(item.expect("an item for each time"), tasks).map_err(Cause::failed)?;
        let next = self.series.next(tasks);
        let again = next.is_some();
        *self.item.lock().unwrap_or_else(PoisonError::into_inner) = next;
        Ok(again)
    }

    fn discard(&self) {
        drop(self.item.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}
