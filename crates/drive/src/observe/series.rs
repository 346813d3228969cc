//! Chunks for charts: a bounded number of points, however long a run lasts.

/// Chunks that can be merged with the next chunk.
pub trait Join {
    /// Merges the next chunk into this one.
    fn join(&mut self, next: &Self);
}

/// Maximum number of points kept.
pub const POINTS_MAX: usize = 2000;

/// A sequence of chunks, in which neighbors are merged if there are more than [`POINTS_MAX`].
#[derive(Clone, Debug)]
pub struct Series<P> {
    points: Vec<P>,
    /// Log₂ of the number of chunks per point.
    doublings: u32,
    open: Option<(P, u64)>,
}

impl<P> Default for Series<P> {
    fn default() -> Self {
        Series { points: Vec::new(), doublings: 0, open: None }
    }
}

impl<P: Join> Series<P> {
    /// Appends the next chunk.
    pub fn push(&mut self, chunk: P) {
        let (point, joined) = match self.open.take() {
            None => (chunk, 1),
            Some((mut point, joined)) => {
                point.join(&chunk);
                (point, joined + 1)
            }
        };
        if joined < self.chunks_per_point() {
            self.open = Some((point, joined));
            return;
        }
        self.points.push(point);
        if self.points.len() > POINTS_MAX {
            self.halve();
        }
    }

    /// Closes the last point, which may contain fewer chunks.
    #[must_use]
    pub fn finish(mut self) -> Series<P> {
        self.points.extend(self.open.take().map(|(point, _)| point));
        self
    }

    fn halve(&mut self) {
        self.doublings += 1;
        let odd = self.points.len() % 2 == 1;
        let mut joined: Vec<P> = Vec::with_capacity(POINTS_MAX);
        for (index, point) in self.points.drain(..).enumerate() {
            match joined.last_mut() {
                Some(last) if index % 2 == 1 => last.join(&point),
                _ => joined.push(point),
            }
        }
        // An odd last point is half full and stays open.
        if odd {
            self.open = joined.pop().map(|point| (point, self.chunks_per_point() / 2));
        }
        self.points = joined;
    }

    /// Returns the points, in order.
    #[must_use]
    pub fn points(&self) -> &[P] {
        &self.points
    }

    /// Returns the number of chunks per point; the last point may have fewer.
    #[must_use]
    pub fn chunks_per_point(&self) -> u64 {
        1 << self.doublings
    }
}

#[cfg(test)]
mod tests {
    use super::super::Point;
    use super::*;
    use proptest::prelude::*;
    use sakiyomi_model::Nanos;

    proptest! {
        #[test]
        fn joining_keeps_every_command_and_stays_bounded(chunks in 0u64..20_000) {
            let mut series = Series::default();
            for number in 0..chunks {
                let mut chunk = Point::new(Nanos(number));
                chunk.end = Nanos(number + 1);
                chunk.counts.commands = 1;
                series.push(chunk);
            }
            let series = series.finish();
            prop_assert!(series.points().len() <= POINTS_MAX + 1);
            prop_assert_eq!(series.points().iter().map(|point| point.counts.commands).sum::<u64>(), chunks);
            for pair in series.points().windows(2) {
                prop_assert_eq!(pair[0].end, pair[1].start);
                prop_assert_eq!(pair[0].counts.commands, series.chunks_per_point());
            }
        }
    }
}
