//! A replica: an instance of the operator for each of its bins.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use super::states::{decode, encode};
use super::{BinOwner, Routed};
use crate::guard::{Panic, drop_all_quietly, drop_quietly};
use crate::operator::{Emitter, Join, OnPanic, Operator, Recover};
use crate::state::StateError;

/// The instances of the bins that a replica has. The outputs for a tuple have its bin; those for a watermark or the end
/// come in the order of the bins.
///
/// Watermarks that an instance makes are ignored: they would be those of a bin.
pub(crate) struct Binned<O, T> {
    bins: Vec<Option<O>>,
    policy: OnPanic,
    /// Outputs of one call of an instance.
    results: Emitter<T>,
}

impl<O: Recover, T> Binned<O, T> {
    /// Returns a replica with these instances, by bin.
    pub(crate) fn new(bins: Vec<Option<O>>) -> Binned<O, T> {
        let policy = bins.iter().flatten().map(Recover::on_panic).next().unwrap_or_default();
        Binned { bins, policy, results: Emitter::new() }
    }

    /// Calls an instance, whose outputs leave with its bin. A value of a bin that was lost with a replica that stopped is
    /// dropped.
    fn call(&mut self, bin: u16, out: &mut Emitter<Routed<T>>, work: impl FnOnce(&mut O, &mut Emitter<T>)) {
        let Binned { bins, results, .. } = self;
        let Some(instance) = bins.get_mut(usize::from(bin)).and_then(Option::as_mut) else { return };
        // Outputs of a call that has panicked.
        drop_all_quietly(results.drain());
        results.set_arrival_ns(out.arrival_ns());
        work(instance, results);
        for (value, arrival_ns) in results.drain() {
            out.emit_at(Routed { bin, value }, arrival_ns);
        }
    }

    /// Calls all instances, also if one of them panics: the others would miss a watermark.
    fn call_all(&mut self, out: &mut Emitter<Routed<T>>, work: impl Fn(&mut O, &mut Emitter<T>)) {
        let mut first: Option<Panic> = None;
        for bin in 0..self.bins.len() {
            let call = AssertUnwindSafe(|| self.call(bin as u16, out, &work));
            if let Err(panic) = catch_unwind(call) {
                match first {
                    None => first = Some(panic),
                    Some(_) => drop_quietly(panic),
                }
            }
        }
        if let Some(panic) = first {
            resume_unwind(panic);
        }
    }

    fn instances(&mut self) -> impl Iterator<Item = (usize, &mut O)> {
        self.bins.iter_mut().enumerate().filter_map(|(bin, instance)| Some((bin, instance.as_mut()?)))
    }
}

impl<O, T> Drop for Binned<O, T> {
    fn drop(&mut self) {
        drop_all_quietly(self.bins.drain(..));
    }
}

impl<O: Recover, T: Send + 'static> Recover for Binned<O, T> {
    fn on_panic(&self) -> OnPanic {
        self.policy
    }

    fn snapshot(&self) -> Option<Binned<O, T>> {
        let copy = |instance: &Option<O>| match instance {
            Some(instance) => instance.snapshot().map(Some),
            None => Some(None),
        };
        let bins = self.bins.iter().map(copy).collect::<Option<_>>()?;
        Some(Binned { bins, policy: self.policy, results: Emitter::new() })
    }
}

impl<O: Operator> Operator for Binned<O, O::Out> {
    type In = Routed<O::In>;
    type Out = Routed<O::Out>;

    fn process(&mut self, routed: Routed<O::In>, out: &mut Emitter<Routed<O::Out>>) {
        let Routed { bin, value } = routed;
        self.call(bin, out, |operator, results| operator.process(value, results));
    }

    fn watermark(&mut self, time_ns: u64, out: &mut Emitter<Routed<O::Out>>) {
        self.call_all(out, |operator, results| operator.watermark(time_ns, results));
    }

    fn end(&mut self, out: &mut Emitter<Routed<O::Out>>) {
        self.call_all(out, |operator, results| operator.end(results));
    }
}

impl<J: Join> Join for Binned<J, J::Out> {
    type Left = Routed<J::Left>;
    type Right = Routed<J::Right>;
    type Out = Routed<J::Out>;

    fn left(&mut self, routed: Routed<J::Left>, out: &mut Emitter<Routed<J::Out>>) {
        let Routed { bin, value } = routed;
        self.call(bin, out, |join, results| join.left(value, results));
    }

    fn right(&mut self, routed: Routed<J::Right>, out: &mut Emitter<Routed<J::Out>>) {
        let Routed { bin, value } = routed;
        self.call(bin, out, |join, results| join.right(value, results));
    }

    fn watermark(&mut self, time_ns: u64, out: &mut Emitter<Routed<J::Out>>) {
        self.call_all(out, |join, results| join.watermark(time_ns, results));
    }

    fn end(&mut self, out: &mut Emitter<Routed<J::Out>>) {
        self.call_all(out, |join, results| join.end(results));
    }
}

impl<O: Recover, T: Send + 'static> BinOwner for Binned<O, T> {
    fn give(&mut self, bin: usize) -> Option<Box<dyn Any + Send>> {
        Some(Box::new(self.bins[bin].take()?))
    }

    fn take(&mut self, bin: usize, instance: Box<dyn Any + Send>) {
        let instance = instance.downcast::<O>();
        self.bins[bin] = Some(*instance.expect("the replicas of an operator have instances of one type"));
    }

    fn has_state(&mut self) -> Option<bool> {
        self.instances().next().map(|(_, instance)| instance.state().is_some())
    }

    fn save(&mut self) -> Option<Vec<u8>> {
        let count = self.bins.len() as u64;
        let mut states = Vec::new();
        for (bin, instance) in self.instances() {
            let mut state = Vec::new();
            instance.state()?.save(&mut state);
            states.push((bin as u64, state));
        }
        Some(encode(count, &states))
    }

    fn load(&mut self, bytes: &[u8]) -> Result<(), StateError> {
        let (_, states) = decode(bytes, Some(self.bins.len() as u64))?;
        for (bin, instance) in self.instances() {
            let found = states.binary_search_by_key(&(bin as u64), |(bin, _)| *bin);
            let state = &states[found.map_err(|_| StateError::Value("the state of each bin"))?].1;
            instance.state().map_or(Ok(()), |instance| instance.load(state))?;
        }
        Ok(())
    }
}
