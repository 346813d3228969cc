//! CPU affinity of threads.

use std::marker::PhantomData;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::Error;
use crate::topology::Cpus;

/// Returns the CPUs that the calling thread may use, as already restricted by the process's control group (cpuset).
///
/// # Errors
/// If the system call fails.
pub fn usable_cpus() -> Result<Cpus, Error> {
    let set = current()?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Restricts the calling thread to some CPUs until the result is dropped. Threads that it starts meanwhile inherit
/// the restriction and keep it.
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

/// A restriction of the calling thread to some CPUs. Dropping it restores the previous affinity.
#[derive(Debug)]
pub struct Pinned {
    before: CpuSet,
    /// Affinity belongs to a thread, so the value must stay on it.
    of_this_thread: PhantomData<*const ()>,
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // Fails if all of those CPUs have gone offline: then the kernel has already chosen others.
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
