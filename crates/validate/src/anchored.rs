//! Anchored replay: each request is issued at its measured time, so that an error does not propagate to later requests.

use sakiyomi_drive::Drive;
use sakiyomi_model::{Class, Nanos, WriteClass};

use crate::labels::is_hit;
use crate::measured::Measured;
use crate::replay::{Simulated, serve, while_going};
use crate::spindle::Spindle;

/// Result of an anchored replay.
#[derive(Clone, Debug, PartialEq)]
pub struct Anchored {
    /// Simulated requests, in the order of the measured ones.
    pub simulated: Vec<Simulated>,
    /// Coherence of the predicted spindle phase: 1 if it is always right, near 0 if no better than chance (because the
    /// issue times are too inaccurate, or the geometry is wrong).
    pub coherence: f64,
    /// Number of accesses to the medium, of which the coherence is; it is 0 below three.
    pub accesses: u64,
}

/// Replays `measured`, which is [in order](crate::in_order), on a new `drive`. Each request is issued at its measured
/// time, or at the end of the previous one if that is later. The phase of the spindle is estimated from the earlier
/// requests.
#[must_use]
pub fn anchored(drive: Drive, measured: &[Measured]) -> Anchored {
    anchored_while(drive, measured, &mut || true).expect("nothing stops it")
}

/// Like [`anchored()`], while `go_on` returns true, which is called once in some thousand requests; `None` if it returned
/// false.
#[must_use]
pub fn anchored_while(
    mut drive: Drive,
    measured: &[Measured],
    go_on: &mut dyn FnMut() -> bool,
) -> Option<Anchored> {
    let mut spindle = Spindle::new(drive.revolution());
    let mut free_at = Nanos::ZERO;
    let mut simulated = Vec::with_capacity(measured.len());
    for (number, request) in (0..).zip(while_going(measured, go_on)) {
        let request = request.ok()?;
        let at = request.issued.max(free_at);
        drive.turn_spindle(spindle.lead(at));
        let completion = serve(&mut drive, number, request, at);
        free_at = completion.finish;
        let own = Simulated::of(&completion);
        let medium = match own.class {
            Class::Read(_) => !is_hit(&own),
            Class::Write(class) => class == WriteClass::Media,
            _ => false,
        };
        if medium {
            let late = request.response.0 as i64 - own.response.0 as i64;
            spindle.observe(at, late);
        }
        simulated.push(own);
    }
    Some(Anchored { simulated, coherence: spindle.coherence(), accesses: spindle.accesses() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::follow_on;
    use crate::sample::{drive, read};

    /// Returns requests all over a drive, served with a different spindle phase and a slightly slow spindle.
    fn served(lead: u64, slow: f64) -> Vec<Measured> {
        let (mut real, revolution) = (drive(), drive().revolution().0);
        let mut at = Nanos::ZERO;
        let mut requests = Vec::new();
        for number in 0..400u64 {
            let turned =
                lead + (at.0 as f64 * (1.0 - slow)) as u64 % revolution + revolution - at.0 % revolution;
            real.turn_spindle(Nanos(turned));
            let mut request = read(number * 7_919 % 400 * 100_000, 4, 0);
            let completion = serve(&mut real, number, &request, at);
            request.response = completion.response_time();
            request.think = Nanos(3_000_000 + number * 1_234_567 % 20_000_000);
            at = completion.finish + request.think;
            requests.push(request);
        }
        follow_on(&mut requests);
        requests
    }

    #[test]
    fn the_phase_is_found_and_followed() {
        for (lead, slow) in [(0, 0.0), (3_000_000, 0.0), (5_000_000, 2e-4), (1_000_000, -3e-4)] {
            let requests = served(lead, slow);
            let found = anchored(drive(), &requests);
            assert!(found.coherence > 0.9, "{lead} {slow}: {}", found.coherence);
            let near = |(request, own): (&Measured, &Simulated)| {
                request.response.0.abs_diff(own.response.0) < 500_000
            };
            let right = requests.iter().zip(&found.simulated).skip(100).filter(|pair| near(*pair)).count();
            assert!(right > 270, "{lead} {slow}: {right} of 300");
        }
    }

    #[test]
    fn times_of_issue_that_are_unknown_show() {
        let mut requests = served(0, 0.0);
        let mut seed = 1u64;
        for request in &mut requests {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            request.think = Nanos(3_000_000 + (seed >> 33) % 50_000_000);
        }
        follow_on(&mut requests);
        assert!(anchored(drive(), &requests).coherence < 0.3);
    }
}
