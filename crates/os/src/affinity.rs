//! CPU affinity of threads.

use std::marker::PhantomData;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::Error;
use crate::topology::Cpus;

/// The CPUs that the calling thread may use. The process's control group (cpuset) has already narrowed them.
///
/// # Errors
/// If the system does not answer.
pub fn usable_cpus() -> Result<Cpus, Error> {
    let set = current()?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Confines the calling thread to some CPUs until the result is dropped. Threads that it starts meanwhile are
/// confined as well, for as long as they live.
///
/// # Errors
/// If none of them is online and allowed to this process.
pub fn pin(cpus: &Cpus) -> Result<Pinned, Error> {
    let before = current()?;
    let mut set = CpuSet::new();
    cpus.iter().filter(|&&cpu| cpu < CpuSet::MAX_CPU).for_each(|&cpu| set.set(cpu));
    sched_setaffinity(None, &set).map_err(|error| Error::System {
        what: format!("run on CPUs {cpus:?} only"),
        source: error.into(),
    })?;
    Ok(Pinned { before, of_this_thread: PhantomData })
}

/// A thread that is confined to some CPUs. It may use those that it could use before when this is dropped.
#[derive(Debug)]
pub struct Pinned {
    before: CpuSet,
    /// Affinity belongs to a thread, so this must not leave it.
    of_this_thread: PhantomData<*const ()>,
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // Fails if all of those have gone offline: then the kernel has already chosen others.
        let _ = sched_setaffinity(None, &self.before);
    }
}

fn current() -> Result<CpuSet, Error> {
    sched_getaffinity(None).map_err(|error| Error::System {
        what: "ask which CPUs may be used".to_owned(),
        source: error.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_pinned_until_the_guard_is_dropped() {
        let before = usable_cpus().unwrap();
        let last = Cpus::from([*before.last().unwrap()]);
        let pinned = pin(&last).unwrap();
        assert_eq!(usable_cpus().unwrap(), last);
        assert_eq!(rustix::thread::sched_getcpu(), *last.first().unwrap());
        drop(pinned);
        assert_eq!(usable_cpus().unwrap(), before);
    }

    #[test]
    fn cpus_that_cannot_be_used_are_an_error() {
        for cpus in [Cpus::new(), Cpus::from([1023]), Cpus::from([usize::MAX])] {
            if !usable_cpus().unwrap().is_superset(&cpus) || cpus.is_empty() {
                assert!(pin(&cpus).unwrap_err().to_string().starts_with("cannot run on CPUs"));
            }
        }
    }
}
