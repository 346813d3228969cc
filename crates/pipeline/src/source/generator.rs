//! Rows that are made up, at intended times.

use std::sync::Arc;

use rand_core::Rng;
use rand_pcg::Pcg64;
use sakiyomi_stream::{Decode, Encode, Frame, Next, Overload, SaveState, Source, StateError};

use super::SourceSettings;
use super::clock::{EventClock, Verdict};
use crate::control::Control;
use crate::row::{Cell, Cells, Row};
use crate::source::SourceCounts;
use crate::spec::Generator;

/// The stream of the generator of random numbers (PCG-64).
const PCG_STREAM: u128 = 19;

/// Nanoseconds between two rows without a rate, for their event times.
const EVENT_PERIOD_NS: f64 = 1000.0;

/// Random numbers that a row takes.
const NUMBERS_PER_ROW: u128 = 2;

/// Layout of the saved state.
const FRAME: Frame = Frame { kind: "a generator", version: 1 };

/// Time after which a generator looks again whether the outputs have caught up.
const PAUSE_NS: u64 = 200_000;

/// Emits rows of a number, a key, a value from 0 to 1 and the intended time. A row that is late keeps its intended time, so
/// that latencies count from it.
pub(crate) struct GeneratorSource {
    generator: Generator,
    /// For each column of the row the one of the generator.
    columns: Vec<usize>,
    clock: Option<EventClock>,
    overload: Overload,
    control: Arc<Control>,
    counts: Arc<SourceCounts>,
    random: Pcg64,
    next: u64,
}

impl GeneratorSource {
    pub(crate) fn new(
        generator: Generator,
        columns: Vec<usize>,
        settings: SourceSettings,
    ) -> GeneratorSource {
        let SourceSettings { clock, overload, control, counts, .. } = settings;
        let random = Pcg64::new(u128::from(generator.seed), PCG_STREAM);
        GeneratorSource { generator, columns, clock, overload, control, counts, random, next: 0 }
    }

    fn row(&mut self) -> Row {
        let (key, value) = (self.random.next_u64(), self.random.next_u64());
        let cell = |&column: &usize| match column {
            0 => Cell::Int(self.next as i64),
            1 => Cell::Int((key % self.generator.keys) as i64),
            2 => Cell::Float((value >> 11) as f64 / (1_u64 << 53) as f64),
            _ => Cell::Int(self.event_ns() as i64),
        };
        Row::new(self.columns.iter().map(cell).collect::<Cells>(), None)
    }

    /// Returns the intended time of the next row since the start.
    fn due_ns(&self) -> u64 {
        self.generator.rate_per_s.map_or(0, |rate| (self.next as f64 * 1e9 / rate) as u64)
    }

    fn event_ns(&self) -> u64 {
        match self.generator.rate_per_s {
            Some(_) => self.due_ns(),
            None => (self.next as f64 * EVENT_PERIOD_NS) as u64,
        }
    }
}

impl Source for GeneratorSource {
    type Out = Row;

    fn next(&mut self, now_ns: u64) -> Next<Row> {
        loop {
            if self.control.is_stopped() || self.generator.rows == Some(self.next) {
                return Next::End;
            }
            if self.control.is_halted() {
                return Next::At(now_ns + PAUSE_NS);
            }
            if let Some(time_ns) = self.clock.as_mut().and_then(EventClock::due) {
                return Next::Watermark(time_ns);
            }
            let due_ns = self.due_ns();
            if due_ns > now_ns {
                return match self.clock.as_mut().and_then(EventClock::flush) {
                    Some(time_ns) => Next::Watermark(time_ns),
                    None => Next::At(due_ns),
                };
            }
            if self.control.is_paused() {
                return Next::At(now_ns + PAUSE_NS);
            }
            let value = self.row();
            self.next += 1;
            let arrival_ns = if self.generator.rate_per_s.is_some() { due_ns } else { now_ns };
            if self.clock.as_mut().is_none_or(|clock| clock.note(&value) == Verdict::OnTime) {
                return Next::Value { value, arrival_ns };
            }
            self.counts.add_late();
        }
    }

    fn overload(&self) -> Overload {
        self.overload
    }

    fn state(&mut self) -> Option<&mut dyn SaveState> {
        Some(self)
    }
}

impl SaveState for GeneratorSource {
    fn save(&self, out: &mut Vec<u8>) {
        let clock = self.clock.as_ref().map(EventClock::position);
        FRAME.save(out, |body| (self.generator.seed, self.next, clock).encode(body));
    }

    fn load(&mut self, bytes: &[u8]) -> Result<(), StateError> {
        let (next, clock) = FRAME.load(bytes, |body| {
            body.setting("a seed of", &self.generator.seed)?;
            Ok((u64::decode(body)?, Option::decode(body)?))
        })?;
        self.next = next;
        self.random = Pcg64::new(u128::from(self.generator.seed), PCG_STREAM);
        self.random.advance(u128::from(next) * NUMBERS_PER_ROW);
        if let (Some(own), Some(saved)) = (&mut self.clock, clock) {
            own.set_position(saved);
        }
        Ok(())
    }
}
