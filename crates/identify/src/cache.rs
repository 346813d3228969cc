//! The read cache of a disk, by what it serves without the medium: when read-ahead begins, how far it reaches, what
//! becomes of pages that were read, and how many segments there are. A state machine: reads out, their times in.
//!
//! A trial reads some successive pages at a random place, waits until the drive has read ahead, reads pages at other
//! places, and then asks for a page of the first place: it is served at once if the cache still has it. Distances and numbers
//! of other places are doubled while it has, and then halved to the border. The answer of most trials counts, because a
//! page can pass under the head by chance just when it is asked for.

use std::collections::VecDeque;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use sakiyomi_drive::spec::Consumed;
use sakiyomi_model::{Extent, Lba, Nanos, Sectors};

/// A read cache, as a survey shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadCache {
    /// Successive reads after the first one from which the drive reads ahead; `None` if it does not.
    pub after_sequential: Option<u32>,
    /// Sectors read ahead: at least, and less than.
    pub ahead: Option<[Sectors; 2]>,
    /// Whether pages that the host has read stay; `None` if the drive does not read ahead.
    pub consumed: Option<Consumed>,
    /// Places that are kept: at least, and less than.
    pub segments: Option<[u32; 2]>,
}

/// The next step of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Read(Extent),
    Pause(Nanos),
}

/// The probe of a read cache.
#[derive(Debug)]
pub(crate) struct CacheProbe {
    capacity: u64,
    /// Sectors of a page.
    page: u64,
    turn: Nanos,
    /// Sectors of a track, about.
    track: f64,
    random: Pcg64,
    stage: Stage,
    /// Steps of the trial under way; the last one asks.
    steps: VecDeque<Step>,
    /// Times of the asking reads of this question.
    times: Vec<Nanos>,
    /// A page that takes no longer was served from the cache.
    served_max: Nanos,
    found: ReadCache,
}

/// The question of a trial.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Pages that surely are in the cache, if there is one.
    Served,
    /// Whether the page after `lead` successive ones is there.
    Begins {
        lead: u32,
    },
    /// Whether the page at a distance is there; it is at `low`, and not at `high`.
    Reaches {
        low: u64,
        high: Option<u64>,
    },
    /// Whether a page that was read is there again: after read-ahead, or at once.
    Again {
        is_at_once: bool,
    },
    /// Whether the page is still there after other places; it is after `low`, and not after `high`.
    Keeps {
        low: u64,
        high: Option<u64>,
    },
    Finished,
}

/// Trials of a question.
const TRIALS_PER_QUESTION: usize = 5;
/// Trials by which the time of a page from the cache is known.
const SERVED_TRIALS: usize = 12;
/// Time of a page from the cache beyond the shortest one, in revolutions.
const SERVED_SPREAD_TURNS: f64 = 0.1;
/// A drive whose shortest read takes longer has no cache, in revolutions.
const SERVED_MAX_TURNS: f64 = 0.4;
/// Successive reads after which a drive that reads ahead does so.
const LEAD_MAX: u32 = 4;
/// Longest read-ahead that is looked for, in pages: 32 MiB.
const DISTANCE_MAX: u64 = 8_192;
/// Most places that are looked for: each trial reads as many.
const PLACES_MAX: u64 = 256;
/// Revolutions for read-ahead beyond those of its sectors.
const PAUSE_TURNS: f64 = 6.0;
/// Borders are found to this part of them.
const BORDER_DIVISOR: u64 = 64;

impl CacheProbe {
    /// Probes a disk of `capacity` sectors by pages of `page` sectors.
    pub(crate) fn new(capacity: u64, page: u64, turn: Nanos, track: f64, seed: u64) -> CacheProbe {
        CacheProbe {
            capacity,
            page,
            turn,
            track,
            random: Pcg64::seed_from_u64(seed),
            stage: Stage::Served,
            steps: VecDeque::new(),
            times: Vec::new(),
            served_max: Nanos::ZERO,
            found: ReadCache::default(),
        }
    }

    /// Returns the next step; `None` at the end. Each read is ended before the next step.
    pub(crate) fn next(&mut self) -> Option<Step> {
        if self.steps.is_empty() {
            self.plan()?;
        }
        self.steps.pop_front()
    }

    /// Reports the time of a read.
    pub(crate) fn ended(&mut self, time: Nanos) {
        if !self.steps.is_empty() {
            return;
        }
        self.times.push(time);
        let trials = if matches!(self.stage, Stage::Served) { SERVED_TRIALS } else { TRIALS_PER_QUESTION };
        if self.times.len() == trials {
            let times = std::mem::take(&mut self.times);
            self.stage = self.after(&times);
        }
    }

    /// Returns what was found so far.
    pub(crate) fn found(&self) -> ReadCache {
        self.found
    }

    /// Plans a trial; `None` at the end.
    fn plan(&mut self) -> Option<()> {
        let (lead, distance, places) = match self.stage {
            // The same page again, or one after several: which of them is kept depends on the drive.
            Stage::Served => (
                if self.times.len().is_multiple_of(2) { 1 } else { LEAD_MAX },
                (self.times.len() % 2) as u64,
                0,
            ),
            Stage::Begins { lead } => (lead, 1, 0),
            Stage::Reaches { low, high } => (self.lead(), asked(low, high), 0),
            Stage::Again { .. } => (self.lead(), 0, 0),
            Stage::Keeps { low, high } => {
                let distance = u64::from(self.found.after_sequential.is_some());
                (self.lead(), distance, asked(low, high))
            }
            Stage::Finished => return None,
        };
        let room = (u64::from(lead) + distance + 1) * self.page;
        let place = self.place(room);
        self.read(place, lead);
        let turns = PAUSE_TURNS + (distance * self.page) as f64 / self.track + self.part();
        if !matches!(self.stage, Stage::Again { is_at_once: true }) {
            self.steps.push_back(Step::Pause(Nanos((turns * self.turn.0 as f64) as u64)));
        }
        for _ in 0..places {
            let other = self.place(room);
            self.read(other, lead);
        }
        self.read(place + (u64::from(lead) - 1 + distance) * self.page, 1);
        Some(())
    }

    /// Successive reads by which read-ahead begins.
    fn lead(&self) -> u32 {
        self.found.after_sequential.map_or(1, |after| after + 1)
    }

    /// Returns the stage after the answer to a question.
    fn after(&mut self, times: &[Nanos]) -> Stage {
        let is_there = times.iter().filter(|time| **time <= self.served_max).count() * 2 > times.len();
        match self.stage {
            Stage::Served => {
                let least = times.iter().copied().min().unwrap_or_default();
                let turns = |turns: f64| Nanos((turns * self.turn.0 as f64) as u64);
                self.served_max = least + turns(SERVED_SPREAD_TURNS);
                if least > turns(SERVED_MAX_TURNS) { Stage::Finished } else { Stage::Begins { lead: 1 } }
            }
            Stage::Begins { lead } if is_there => {
                self.found.after_sequential = Some(lead - 1);
                Stage::Reaches { low: 1, high: None }
            }
            Stage::Begins { lead } if lead < LEAD_MAX => Stage::Begins { lead: lead + 1 },
            Stage::Begins { .. } => Stage::Keeps { low: 0, high: None },
            Stage::Reaches { low, high } => match narrowed(low, high, is_there, DISTANCE_MAX) {
                Ok((low, high)) => Stage::Reaches { low, high },
                Err((low, high)) => {
                    self.found.ahead = Some([low, high].map(|pages| Sectors(pages * self.page)));
                    Stage::Again { is_at_once: false }
                }
            },
            Stage::Again { is_at_once: false } if !is_there => Stage::Again { is_at_once: true },
            Stage::Again { is_at_once } => {
                self.found.consumed = Some(match (is_there, is_at_once) {
                    (true, false) => Consumed::Keep,
                    (true, true) => Consumed::Overwrite,
                    (false, _) => Consumed::Discard,
                });
                Stage::Keeps { low: 0, high: None }
            }
            Stage::Keeps { low, high } => match narrowed(low, high, is_there, PLACES_MAX) {
                Ok((low, high)) => Stage::Keeps { low, high },
                // The first place is one, too. A page that is gone at once was discarded when it was read.
                Err((low, high)) => {
                    let counts = [low + 1, high + 1].map(|places| places as u32);
                    self.found.segments =
                        (low > 0 || self.found.after_sequential.is_some()).then_some(counts);
                    Stage::Finished
                }
            },
            Stage::Finished => Stage::Finished,
        }
    }

    fn place(&mut self, room: u64) -> u64 {
        let pages = (self.capacity.saturating_sub(room) / self.page).max(1);
        self.random.next_u64() % pages * self.page
    }

    fn part(&mut self) -> f64 {
        (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Reads successive pages, each by itself.
    fn read(&mut self, sector: u64, pages: u32) {
        let page = Sectors(self.page);
        let read = |at: u32| Step::Read(Extent::new(Lba(sector + u64::from(at) * page.0), page));
        self.steps.extend((0..pages).map(read));
    }
}

/// The number to ask for: doubled until the answer is no, and then between.
fn asked(low: u64, high: Option<u64>) -> u64 {
    high.map_or((2 * low).max(1), |high| low + (high - low) / 2)
}

/// Returns the bounds after the answer to [`asked`], as an error if they are as close as is looked for.
fn narrowed(low: u64, high: Option<u64>, is_there: bool, max: u64) -> Result<(u64, Option<u64>), (u64, u64)> {
    let asked = asked(low, high);
    let (low, high) = if is_there { (asked, high) } else { (low, Some(asked)) };
    match high {
        None if low >= max => Err((low, u64::MAX / 2)),
        None => Ok((low, None)),
        Some(high) if high - low <= 1.max(low / BORDER_DIVISOR) => Err((low, high)),
        Some(high) => Ok((low, Some(high))),
    }
}
