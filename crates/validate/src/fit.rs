//! Estimation of parameters that a datasheet does not contain, from a measured trace.
//!
//! The search is a pattern search (Hooke & Jeeves 1961) over the parameters, one at a time, up and down by a step that
//! is halved when no step gives a gain. It minimizes the demerits of separate groups of requests: reads and writes,
//! near and far from the previous request, small and large. Errors of one group thus cannot compensate for those of
//! another, and the times of a seek, a byte and a command can be distinguished. Overlap of transfers, read-ahead and
//! write caching are switches, each combination with a search of its own, because the best parameters depend on them.
//! The skew of tracks is determined by the end times of requests instead (`fit/skew.rs`). No parameter changes more
//! than tenfold, and one that the trace does not determine keeps its initial value (`fit/determined.rs`).

mod determined;
mod evidence;
mod groups;
mod parameter;
mod skew;

use sakiyomi_drive::Drive;
use sakiyomi_drive::spec::DriveSpec;
use sakiyomi_model::{Device, Nanos};

use crate::demerit::demerit;
use crate::distribution::Distribution;
use crate::measured::Measured;
use crate::replay::{Pace, free};
pub use determined::{Determined, Verdict};
use determined::{Replays, SAMPLES_MIN};
use groups::groups;
use parameter::{Parameter, Switch, parameters, switched, switches};
use skew::skewed;

/// Steps of the search, as shares of a figure.
const STEP_RATIOS: [f64; 7] = [0.5, 0.25, 0.12, 0.06, 0.03, 0.015, 0.007];
/// Share of the error by which a change must reduce it to be kept. A figure that the trace does not determine so stays
/// as it is.
const GAIN_MIN_RATIO: f64 = 1e-3;
/// Angles of the platters from which a trace of measured times is replayed. The angle at its start, and after a pause,
/// is not known; the results of all angles together are compared with the measurement.
const START_ANGLES: u64 = 8;
/// A figure stays below this many times its first value, or as many milliseconds.
const FIGURE_MAX_RATIO: f64 = 10.0;

/// A fitted drive.
#[derive(Clone, Debug, PartialEq)]
pub struct Fitted {
    /// The drive.
    pub spec: DriveSpec,
    /// The error that the search minimizes, in nanoseconds: at the start, and at the end.
    pub error_ns: [f64; 2],
    /// Verdict of the trace on each parameter; undetermined parameters keep their initial values.
    pub figures: Vec<Determined>,
    /// Number of replays.
    pub replays: u64,
}

/// Fits `start` to the requests of `measured`, which are [in order](crate::in_order) and replayed at `pace`. `go_on` is
/// called after each replay with the number of replays and the least error so far, in nanoseconds; if it returns false,
/// the search ends with its best result. Returns `None` if `start` is invalid or too small for the requests.
pub fn fit(
    start: &DriveSpec,
    measured: &[Measured],
    pace: Pace,
    go_on: &mut dyn FnMut(u64, f64) -> bool,
) -> Option<Fitted> {
    let mut search = Search { measured, groups: groups(measured), pace, replays: 0, go_on, stopped: false };
    let first = search.error(start)?;
    let start_as_given = start.clone();
    let mut candidates = vec![Best { spec: start.clone(), error: first }];
    let skewed = skewed(start, measured);
    let start = skewed.as_ref().unwrap_or(start);
    let decided = search.decided(start)?;
    for spec in switched(start) {
        if search.stopped {
            break;
        }
        if decided.iter().any(|switch| (switch.get)(&spec) != (switch.get)(start)) {
            continue;
        }
        let Some(replays) = search.replays_of(&spec) else { continue };
        let mut found = Best { error: search.error_of(&replays), spec };
        // A figure with few dependent requests would only compensate for the errors of other figures.
        let figures: Vec<Parameter> = parameters()
            .into_iter()
            .filter(|figure| figure.sample.count(&found.spec, measured, &replays[0]) >= SAMPLES_MIN)
            .collect();
        search.climb(&mut found, start, &figures);
        let is_right = found.error == 0.0;
        candidates.push(found);
        if is_right {
            break;
        }
    }
    let determined = if search.stopped { None } else { search.determined(&candidates, start) };
    let (mut found, mut figures) = determined.unwrap_or_else(|| (least(candidates), Vec::new()));
    if found.error >= first * (1.0 - GAIN_MIN_RATIO) {
        // The fit is not a gain: the drive stays as it was.
        found = Best { spec: start_as_given, error: first };
        figures.iter_mut().for_each(|figure| figure.to.clone_from(&figure.from));
    }
    Some(Fitted { spec: found.spec, error_ns: [first, found.error], figures, replays: search.replays })
}

fn least(candidates: Vec<Best>) -> Best {
    let least =
        candidates.into_iter().reduce(|a, b| if b.error < a.error * (1.0 - GAIN_MIN_RATIO) { b } else { a });
    least.expect("the start is one of them")
}

#[derive(Clone)]
struct Best {
    spec: DriveSpec,
    error: f64,
}

struct Search<'a> {
    measured: &'a [Measured],
    /// Requests by their place in `measured`.
    groups: Vec<Vec<usize>>,
    pace: Pace,
    replays: u64,
    go_on: &'a mut dyn FnMut(u64, f64) -> bool,
    stopped: bool,
}

impl Search<'_> {
    /// Returns the switches on which too few requests depend: they stay as they are.
    fn decided(&mut self, start: &DriveSpec) -> Option<Vec<Switch>> {
        let replays = self.replays_of(start)?;
        let count = |switch: &Switch| switch.sample.count(start, self.measured, &replays[0]);
        Some(switches().into_iter().filter(|switch| count(switch) < SAMPLES_MIN).collect())
    }

    /// Moves `figures` until nothing more is gained.
    fn climb(&mut self, best: &mut Best, start: &DriveSpec, figures: &[Parameter]) {
        for step in STEP_RATIOS {
            while self.round(best, start, figures, step) {}
        }
    }

    /// Tries every figure once, up and down; whether anything was gained.
    fn round(&mut self, best: &mut Best, start: &DriveSpec, figures: &[Parameter], step: f64) -> bool {
        let mut gained = false;
        for figure in figures {
            let Some(value) = (figure.get)(&best.spec) else { continue };
            let begun = (figure.get)(start).unwrap_or(value).abs().max(figure.small);
            let span = value.abs().max(figure.small) * step;
            // A step that improves the fit is repeated.
            for direction in [span, -span] {
                let mut at = value;
                loop {
                    at += direction;
                    if at.abs() > begun * FIGURE_MAX_RATIO {
                        break;
                    }
                    let mut tried = best.spec.clone();
                    (figure.set)(&mut tried, at);
                    if self.stopped || !self.consider(best, tried) {
                        break;
                    }
                    gained = true;
                }
            }
        }
        gained && !self.stopped
    }

    /// Keeps `tried` if it is worth it.
    fn consider(&mut self, best: &mut Best, tried: DriveSpec) -> bool {
        if self.stopped || tried == best.spec {
            return false;
        }
        let error = self.error(&tried);
        self.stopped = !(self.go_on)(self.replays, error.unwrap_or(best.error).min(best.error));
        match error {
            Some(error) if error < best.error * (1.0 - GAIN_MIN_RATIO) => {
                *best = Best { spec: tried, error };
                true
            }
            _ => false,
        }
    }

    /// Root mean square distance of each group from its own; `None` if the drive is invalid or too small.
    fn error(&mut self, spec: &DriveSpec) -> Option<f64> {
        let replays = self.replays_of(spec)?;
        Some(self.error_of(&replays))
    }

    fn error_of(&self, replays: &Replays) -> f64 {
        let squares: f64 = self.groups.iter().map(|group| self.square_of(replays, group)).sum();
        (squares / self.measured.len().max(1) as f64).sqrt()
    }

    /// Returns the times of each request on a drive, from each angle of the platters; `None` if the drive is invalid
    /// or too small.
    fn replays_of(&mut self, spec: &DriveSpec) -> Option<Replays> {
        let drive = Drive::new(spec).ok()?;
        let end = self.measured.iter().map(|request| request.extent.end().0).max().unwrap_or(0);
        if end > drive.capacity().0 {
            return None;
        }
        let phases = if self.pace == Pace::Closed { 1 } else { START_ANGLES };
        let replays = (0..phases)
            .map(|phase| {
                let mut drive = drive.clone();
                drive.turn_spindle(Nanos(drive.revolution().0 * phase / phases));
                self.replays += 1;
                free(drive, self.measured, self.pace)
            })
            .collect();
        Some(replays)
    }

    /// Returns the number of requests of a group, times the square of their demerit.
    fn square_of(&self, simulated: &Replays, group: &[usize]) -> f64 {
        let real: Distribution = group.iter().map(|&place| self.measured[place].response).collect();
        let all = simulated.iter().flat_map(|phase| group.iter().map(|&place| phase[place].response));
        let own: Distribution = all.collect();
        group.len() as f64 * demerit(&real, &own).powi(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{self, read};
    use sakiyomi_model::Op;

    const SMALL: &str = r#"
        name = "small"
        cache.write.enabled = false
        queue.depth = 1
        [geometry]
        sector = "512B"
        heads = 4
        zones = [{ cylinders = 1000, sectors_per_track = 300 }]
        [servo]
        rpm = 7200
        head_switch = "1ms"
        seek = { curve = "datasheet", track_to_track = "1ms", average = "8ms", full_stroke = "16ms" }
    "#;

    fn with(settings: &[(&str, &str)]) -> DriveSpec {
        sample::spec(SMALL, settings)
    }

    /// Reads and writes all over a drive, as it serves them.
    fn measured_on(spec: &DriveSpec) -> Vec<Measured> {
        so_many_measured_on(spec, 150)
    }

    fn so_many_measured_on(spec: &DriveSpec, count: u64) -> Vec<Measured> {
        sample::served(spec, count, |number| {
            let op = if number % 3 == 0 { Op::Write } else { Op::Read };
            let place = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 44;
            let think = Nanos(1_000_000 + number * 7_654_321 % 20_000_000);
            Measured { op, think, ..read(place, 4 + number % 60, 0) }
        })
    }

    #[test]
    fn a_drive_that_is_right_stays_as_it_is() {
        let spec = with(&[]);
        let fitted = fit(&spec, &measured_on(&spec), Pace::Closed, &mut |_, _| true).unwrap();
        assert_eq!((fitted.spec, fitted.error_ns), (spec, [0.0, 0.0]));
    }

    #[test]
    fn what_was_changed_is_found_again() {
        let real = with(&[
            ("interface.overhead.read_miss", "2ms"),
            ("interface.overhead.write_miss", "1.2ms"),
            ("interface.link_rate", "5MB"),
        ]);
        let requests = measured_on(&real);
        let fitted = fit(&with(&[]), &requests, Pace::Closed, &mut |_, _| true).unwrap();
        let [before, after] = fitted.error_ns;
        assert!(after < before / 5.0, "{before} {after}");
        let of = |key: &str| fitted.figures.iter().find(|figure| figure.key == key).unwrap();
        assert_eq!(of("interface.overhead.write_miss").verdict, Verdict::Fitted);
        for figure in fitted.figures.iter().filter(|figure| figure.verdict != Verdict::Fitted) {
            assert_eq!(figure.from, figure.to, "{figure:?}");
        }
    }

    #[test]
    fn a_figure_of_which_any_other_value_is_worse_is_determined_and_one_that_nothing_needs_is_not() {
        let spec = with(&[]);
        let measured = so_many_measured_on(&spec, 1000);
        let fitted = fit(&spec, &measured, Pace::Closed, &mut |_, _| true).unwrap();
        let verdict = |key: &str| fitted.figures.iter().find(|figure| figure.key == key).unwrap().verdict;
        assert_eq!(verdict("servo.seek.average"), Verdict::Fitted);
        assert_eq!(verdict("interface.overhead.read_miss"), Verdict::Fitted);
        assert_eq!(verdict("interface.overhead.read_hit"), Verdict::TooFew, "nothing is read twice");
        assert_eq!(fitted.spec, spec);
    }

    #[test]
    fn what_no_request_depends_on_stays_as_it_was() {
        // Reads here and there, no two in sequence: nothing is written, nothing is found in the cache.
        let reads = |number: u64| Measured {
            think: Nanos(1_000_000 + number * 7_654_321 % 20_000_000),
            ..read(number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 44, 4 + number % 60, 0)
        };
        let real = with(&[("interface.overhead.read_miss", "2ms"), ("interface.overhead.write_miss", "5ms")]);
        let start = with(&[]);
        let requests = sample::served(&real, 150, reads);
        let fitted = fit(&start, &requests, Pace::Closed, &mut |_, _| true).unwrap();
        let of = |key: &str| fitted.figures.iter().find(|figure| figure.key == key).unwrap();
        for key in [
            "interface.overhead.write_miss",
            "interface.link_rate_write",
            "servo.write_settle",
            "cache.read_ahead.mode",
        ] {
            assert_eq!((of(key).verdict, of(key).samples), (Verdict::TooFew, 0), "{key}");
        }
        assert_eq!(of("interface.overhead.read_miss").verdict, Verdict::Fitted);
        assert_eq!(fitted.spec.interface.overhead.write_miss, start.interface.overhead.write_miss);
        assert_eq!(fitted.spec.cache, start.cache);
        assert!(fitted.error_ns[1] < fitted.error_ns[0] / 5.0, "{:?}", fitted.error_ns);
    }

    #[test]
    fn a_search_that_is_stopped_keeps_what_it_has() {
        let requests = measured_on(&with(&[("interface.overhead.read_miss", "2ms")]));
        let fitted = fit(&with(&[]), &requests, Pace::Closed, &mut |replays, _| replays < 20).unwrap();
        assert!(fitted.replays <= 21 && fitted.error_ns[1] <= fitted.error_ns[0]);
        let small = with(&[("geometry.sectors", "1000")]);
        assert_eq!(fit(&small, &requests, Pace::Closed, &mut |_, _| true), None);
    }
}
