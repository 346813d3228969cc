//! Stateless operators made of functions.

use crate::operator::{Emitter, Operator, each};

/// Emits `function` of each value.
pub fn map<In, Out, F>(mut function: F) -> impl Operator<In = In, Out = Out>
where
    In: Send + 'static,
    Out: Send + 'static,
    F: FnMut(In) -> Out + Send + 'static,
{
    each(move |value, out: &mut Emitter<Out>| out.emit(function(value)))
}

/// Emits the values for which `predicate` is true.
pub fn filter<T, F>(mut predicate: F) -> impl Operator<In = T, Out = T>
where
    T: Send + 'static,
    F: FnMut(&T) -> bool + Send + 'static,
{
    each(move |value, out: &mut Emitter<T>| {
        if predicate(&value) {
            out.emit(value);
        }
    })
}

/// Emits all values that `function` makes of each value: of an `Option` none or one.
pub fn flat_map<In, Out, I, F>(mut function: F) -> impl Operator<In = In, Out = Out>
where
    In: Send + 'static,
    Out: Send + 'static,
    I: IntoIterator<Item = Out> + 'static,
    F: FnMut(In) -> I + Send + 'static,
{
    each(move |value, out: &mut Emitter<Out>| out.emit_all(function(value)))
}
