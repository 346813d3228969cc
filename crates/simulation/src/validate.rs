//! A simulated drive compared with a measured one.

mod result;

use sakiyomi_drive::Drive;
use sakiyomi_drive::spec::DriveSpec;
use sakiyomi_model::Nanos;
use sakiyomi_report::ValidateResult;
use sakiyomi_report::number::duration;
use sakiyomi_validate::{free_while, part};

use crate::measurement::Measurement;
use crate::{Error, MeasuredTrace, Step, Steps};
use result::{BothReplays, judged};

/// The part of a trace on which a drive is judged; earlier requests are replayed to warm up the drive.
#[derive(Clone, Copy, Debug, Default)]
pub struct Judged {
    /// Only requests issued at this time or later.
    pub from: Nanos,
    /// Only requests issued before this time.
    pub until: Option<Nanos>,
}

/// The outcome of a validation.
#[derive(Clone, Debug)]
pub struct Validated {
    /// The result document's `result`.
    pub result: ValidateResult,
    /// The requests that were simulated, in both replays of the whole trace.
    pub commands: u64,
    /// The simulated time of both replays.
    pub simulated: Nanos,
}

/// Replays a measured trace on `spec`, at its measured times and freely, and judges the differences. `settings` are those
/// that differ from the drive's own file.
///
/// # Errors
/// If the part is empty, the drive is impossible, the trace has no measured times or does not fit the drive, or `progress`
/// returned false ([`Error::Stopped`]).
pub fn validate(
    trace: &MeasuredTrace,
    spec: &DriveSpec,
    settings: &[String],
    Judged { from, until }: Judged,
    progress: Steps<'_>,
) -> Result<Validated, Error> {
    if let Some(until) = until.filter(|&until| from >= until) {
        return Err(Error::Option(format!(
            "--from ({}) is not before --until ({}): no request is issued between them",
            duration(from.0),
            duration(until.0)
        )));
    }
    let drive = || Drive::new(spec).map_err(Error::from);
    let mut measurement = Measurement::read(trace, &drive()?, progress)?;
    let count = measurement.requests.len();
    let mut goes_on = |what| progress(Step::Replaying { requests: count, what });
    let anchored = measurement.anchor(drive, &mut || goes_on("replayed at their times"))?;
    let requests = &measurement.requests;
    let part = part(requests, from, until.unwrap_or(Nanos::MAX));
    let end = measurement.end();
    if part.is_empty() {
        return Err(Error::Option(format!(
            "{}: no request was issued between --from and --until; the last one ended {} after the start",
            measurement.trace,
            duration(end.0)
        )));
    }
    let free = free_while(drive()?, requests, measurement.pace, &mut || goes_on("replayed freely"));
    let free = free.filter(|_| goes_on("judged")).ok_or(Error::Stopped)?;
    let figures = judged(&BothReplays { measured: requests, free, anchored }, part);
    let result = ValidateResult {
        trace: measurement.trace.clone(),
        drive: spec.name.clone(),
        settings: settings.to_vec(),
        replay: measurement.describe_replay(trace),
        from_ns: from.0,
        until_ns: until.map(|until| until.0),
        ..figures
    };
    // Both replays cover the whole trace.
    Ok(Validated { commands: 2 * result.requests, simulated: end * 2, result })
}
