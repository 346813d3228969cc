//! Operators and joins that continue after a panic of the application's functions.

use crate::operator::{Emitter, Join, OnPanic, Operator, Recover};
use crate::state::SaveState;

/// An operator or join that continues after a panic; see [`skip_panics`].
pub struct SkipPanics<O>(O);

/// Wraps an operator or join that continues after a panic ([`OnPanic::Skip`]): the value for which a function
/// panicked is dropped and counted as a dead letter.
///
/// - A window or session has nothing of a value whose aggregate panicked when it was added; of several aggregates, those
///   before the one that panicked have it, if the key had values there.
/// - A watermark whose results panic emits nothing, and passes. No result is tried twice: windows that have ended at it give
///   none. If it was an update by late values that panicked, the updates are dropped, and the windows give their results at
///   the next watermark, as do sessions that it had not come to.
pub fn skip_panics<O: Recover>(operator: O) -> SkipPanics<O> {
    SkipPanics(operator)
}

impl<O: Recover> Recover for SkipPanics<O> {
    fn on_panic(&self) -> OnPanic {
        OnPanic::Skip
    }

    fn state(&mut self) -> Option<&mut dyn SaveState> {
        self.0.state()
    }
}

impl<O: Operator> Operator for SkipPanics<O> {
    type In = O::In;
    type Out = O::Out;

    fn process(&mut self, value: O::In, out: &mut Emitter<O::Out>) {
        self.0.process(value, out);
    }

    fn watermark(&mut self, time_ns: u64, out: &mut Emitter<O::Out>) {
        self.0.watermark(time_ns, out);
    }

    fn end(&mut self, out: &mut Emitter<O::Out>) {
        self.0.end(out);
    }

    fn makes_watermarks(&self) -> bool {
        self.0.makes_watermarks()
    }
}

impl<J: Join> Join for SkipPanics<J> {
    type Left = J::Left;
    type Right = J::Right;
    type Out = J::Out;

    fn left(&mut self, value: J::Left, out: &mut Emitter<J::Out>) {
        self.0.left(value, out);
    }

    fn right(&mut self, value: J::Right, out: &mut Emitter<J::Out>) {
        self.0.right(value, out);
    }

    fn watermark(&mut self, time_ns: u64, out: &mut Emitter<J::Out>) {
        self.0.watermark(time_ns, out);
    }

    fn end(&mut self, out: &mut Emitter<J::Out>) {
        self.0.end(out);
    }
}
