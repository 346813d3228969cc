//! A device that serves several requests beside each other, as flash does: so many places, each with its own queue.

use std::collections::BTreeMap;

use sakiyomi_model::{
    Breakdown, Class, Completion, Device, Full, Nanos, Outcome, ReadClass, Request, RequestId,
};

pub(crate) struct Flash {
    free: Vec<Nanos>,
    time: Nanos,
    ends: BTreeMap<(Nanos, RequestId), Completion>,
}

impl Flash {
    /// An access takes `time`, a quarter more or less.
    pub(crate) fn new(places: usize, time: Nanos) -> Flash {
        Flash { free: vec![Nanos::ZERO; places], time, ends: BTreeMap::new() }
    }
}

impl Device for Flash {
    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Full> {
        let scattered = (request.extent.start.0 / 8).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let place = (scattered >> 33) as usize % self.free.len();
        let time = Nanos(self.time.0 * 3 / 4 + (scattered >> 20) % (self.time.0 / 2));
        let finish = self.free[place].max(now) + time;
        self.free[place] = finish;
        let breakdown = Breakdown { queue: finish - now - time, transfer: time, ..Breakdown::default() };
        let class = Class::Read(ReadClass::PureMiss);
        let end = Completion { request, submitted: now, finish, outcome: Outcome::Done, class, breakdown };
        self.ends.insert((finish, request.id), end);
        Ok(())
    }

    fn next_event(&self) -> Option<Nanos> {
        self.ends.first_key_value().map(|((finish, _), _)| *finish)
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        while let Some(end) = self.ends.first_entry().filter(|end| end.key().0 <= now) {
            done.push(end.remove());
        }
    }
}
