//! Sums and means.

use super::Aggregate;
use crate::operators::key::Value;

/// A number that can be summed up.
pub trait Summable: Copy + Send + 'static {
    /// The type of sums. Those of integers have 128 bits, which no stream exceeds.
    type Total: Value + Copy + Default;

    /// `total` and this number.
    fn add_to(self, total: Self::Total) -> Self::Total;

    /// Two sums.
    fn add_totals(one: Self::Total, other: Self::Total) -> Self::Total;

    /// Returns a sum as a floating-point number.
    fn to_f64(total: Self::Total) -> f64;
}

macro_rules! summable {
    ($total:ty: $($number:ty),*) => {$(
        impl Summable for $number {
            type Total = $total;

            fn add_to(self, total: $total) -> $total {
                total + <$total>::from(self)
            }

            fn add_totals(one: $total, other: $total) -> $total {
                one + other
            }

            #[allow(clippy::unnecessary_cast)] // of f64
            fn to_f64(total: $total) -> f64 {
                total as f64
            }
        }
    )*};
}

summable!(i128: i8, i16, i32, i64, u8, u16, u32, u64);
summable!(f64: f32, f64);

/// Sum of a number of each value; see [`sum`].
#[derive(Clone, Copy, Debug)]
pub struct Sum<F>(F);

/// Returns the sum of `number` of each value.
pub fn sum<T, N: Summable, F: Fn(&T) -> N + Send + 'static>(number: F) -> Sum<F> {
    Sum(number)
}

impl<T, N: Summable, F: Fn(&T) -> N + Send + 'static> Aggregate<T> for Sum<F> {
    type State = N::Total;
    type Output = N::Total;

    fn init(&self) -> N::Total {
        N::Total::default()
    }

    fn add(&self, state: &mut N::Total, value: &T) {
        *state = (self.0)(value).add_to(*state);
    }

    fn merge(&self, state: &mut N::Total, later: &N::Total) {
        *state = N::add_totals(*state, *later);
    }

    fn output(&self, state: &N::Total) -> N::Total {
        *state
    }
}

/// Arithmetic mean of a number of each value; see [`mean`].
#[derive(Clone, Copy, Debug)]
pub struct Mean<F>(F);

/// Returns the mean of `number` of each value.
pub fn mean<T, N: Summable, F: Fn(&T) -> N + Send + 'static>(number: F) -> Mean<F> {
    Mean(number)
}

impl<T, N: Summable, F: Fn(&T) -> N + Send + 'static> Aggregate<T> for Mean<F> {
    /// Sum and number.
    type State = (N::Total, u64);
    type Output = f64;

    fn init(&self) -> (N::Total, u64) {
        (N::Total::default(), 0)
    }

    fn add(&self, state: &mut (N::Total, u64), value: &T) {
        *state = ((self.0)(value).add_to(state.0), state.1 + 1);
    }

    fn merge(&self, state: &mut (N::Total, u64), later: &(N::Total, u64)) {
        *state = (N::add_totals(state.0, later.0), state.1 + later.1);
    }

    fn output(&self, &(total, count): &(N::Total, u64)) -> f64 {
        N::to_f64(total) / count as f64
    }
}
