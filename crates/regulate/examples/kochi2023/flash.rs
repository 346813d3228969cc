//! A device that serves several requests in parallel, such as flash: `places` servers, each with its own queue.

use std::collections::BTreeMap;

use sakiyomi_model::{
    Bytes, Completion, Device, Full, Nanos, Outcome, Request, RequestId, Sectors, UNLIMITED_DEPTH,
};

pub(crate) struct Flash {
    free: Vec<Nanos>,
    time: Nanos,
    ends: BTreeMap<(Nanos, RequestId), Completion>,
    /// Time with a request outstanding, including all requests submitted so far, and its end.
    busy: Nanos,
    busy_until: Nanos,
}

impl Flash {
    /// Makes a device on which an access takes `time`, give or take a quarter.
    pub(crate) fn new(places: usize, time: Nanos) -> Flash {
        let free = vec![Nanos::ZERO; places];
        Flash { free, time, ends: BTreeMap::new(), busy: Nanos::ZERO, busy_until: Nanos::ZERO }
    }
}

impl Device for Flash {
    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Full> {
        let scattered = (request.extent.start.0 / 8).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let place = (scattered >> 33) as usize % self.free.len();
        let time = Nanos(self.time.0 * 3 / 4 + (scattered >> 20) % (self.time.0 / 2));
        let finish = self.free[place].max(now) + time;
        self.free[place] = finish;
        let end = Completion { request, submitted: now, finish, outcome: Outcome::Done, detail: None };
        self.busy += finish - now.max(self.busy_until).min(finish);
        self.busy_until = self.busy_until.max(finish);
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

    fn capacity(&self) -> Sectors {
        Sectors(1 << 40)
    }

    fn sector(&self) -> Bytes {
        Bytes(512)
    }

    fn depth(&self) -> u32 {
        UNLIMITED_DEPTH
    }

    fn busy(&self, now: Nanos) -> Nanos {
        self.busy - self.busy_until.saturating_sub(now)
    }
}
