//! Evidence of a measured trace about a figure: the number of its requests that depend on the figure.

use sakiyomi_drive::Geometry;
use sakiyomi_drive::spec::{DriveSpec, SeekSpec};
use sakiyomi_model::{Class, Lba, Op, WriteClass};

use crate::labels::is_hit;
use crate::measured::Measured;
use crate::replay::Simulated;

/// Maximum distance of a short seek, as a share of the cylinders.
const SHORT_SEEK_MAX_RATIO: f64 = 0.01;

/// Requests on which a figure depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sample {
    Reads,
    ReadHits,
    ReadMisses,
    SequentialReads,
    Writes,
    CachedWrites,
    MediaWrites,
    TrackChanges,
    Seeks,
    ShortSeeks,
    LongSeeks,
}

impl Sample {
    /// Returns the name of such a request, in the singular.
    pub(super) fn name(self) -> &'static str {
        match self {
            Sample::Reads => "read",
            Sample::ReadHits => "read hit",
            Sample::ReadMisses => "read miss",
            Sample::SequentialReads => "sequential read",
            Sample::Writes => "write",
            Sample::CachedWrites => "cached write",
            Sample::MediaWrites => "uncached write",
            Sample::TrackChanges => "track change",
            Sample::Seeks => "seek",
            Sample::ShortSeeks => "short seek",
            Sample::LongSeeks => "long seek",
        }
    }

    /// Returns how many of the requests are such ones, as `spec` serves them.
    pub(super) fn count(self, spec: &DriveSpec, measured: &[Measured], simulated: &[Simulated]) -> usize {
        let all = || measured.iter().zip(simulated);
        let reads =
            |hit: bool| all().filter(|(request, own)| request.op == Op::Read && is_hit(own) == hit).count();
        let writes = |medium: bool| {
            let to_medium = |own: &Simulated| own.class == Class::Write(WriteClass::Media);
            all().filter(|(request, own)| request.op == Op::Write && to_medium(own) == medium).count()
        };
        let of = |op| measured.iter().filter(|request| request.op == op).count();
        match self {
            Sample::Reads => of(Op::Read),
            Sample::Writes => of(Op::Write),
            Sample::ReadHits => reads(true),
            Sample::ReadMisses => reads(false),
            Sample::CachedWrites => writes(false),
            Sample::MediaWrites => writes(true),
            Sample::SequentialReads => {
                let follows = |pair: &&[Measured]| {
                    pair.iter().all(|request| request.op == Op::Read)
                        && pair[1].extent.start == pair[0].extent.end()
                };
                measured.windows(2).filter(follows).count()
            }
            Sample::TrackChanges => {
                let without_a_seek = steps(spec, measured, simulated).filter(|step| *step == 0).count();
                without_a_seek + transfers_over_tracks(spec, measured)
            }
            Sample::Seeks => steps(spec, measured, simulated).filter(|step| *step > 0).count(),
            Sample::ShortSeeks => {
                let long = first_long(spec);
                steps(spec, measured, simulated).filter(|step| (1..long).contains(step)).count()
            }
            Sample::LongSeeks => {
                let long = first_long(spec);
                steps(spec, measured, simulated).filter(|step| *step >= long).count()
            }
        }
    }
}

/// Returns the shortest distance of a long seek, in cylinders.
fn first_long(spec: &DriveSpec) -> u32 {
    match spec.servo.seek {
        SeekSpec::TwoPiece { threshold, .. } => threshold,
        SeekSpec::Datasheet { .. } | SeekSpec::Table { .. } => {
            let cylinders = Geometry::new(&spec.geometry, &spec.servo).cylinders();
            (f64::from(cylinders) * SHORT_SEEK_MAX_RATIO).ceil().max(1.0) as u32 + 1
        }
    }
}

/// Returns the number of requests that continue on another track.
fn transfers_over_tracks(spec: &DriveSpec, measured: &[Measured]) -> usize {
    let geometry = Geometry::new(&spec.geometry, &spec.servo);
    let fits = |request: &&Measured| request.extent.end() <= Lba(geometry.capacity().0);
    let goes_over = |request: &&Measured| {
        let sectors = request.extent.sectors.0;
        sectors > 0 && u64::from(geometry.run(request.extent.start, sectors).sectors) < sectors
    };
    measured.iter().filter(fits).filter(goes_over).count()
}

/// Returns how many cylinders lie between each request that needs the medium and the previous one; those on the very
/// track of the previous one are left out.
fn steps<'a>(
    spec: &DriveSpec,
    measured: &'a [Measured],
    simulated: &'a [Simulated],
) -> impl Iterator<Item = u32> + 'a {
    let geometry = Geometry::new(&spec.geometry, &spec.servo);
    let last = geometry.capacity().0.saturating_sub(1);
    let place = move |sector: u64| {
        let run = geometry.run(Lba(sector.min(last)), 1);
        (run.cylinder, run.head)
    };
    let moves = measured.windows(2).zip(simulated.iter().skip(1));
    moves.filter(|(_, own)| !is_hit(own) && own.class != Class::Write(WriteClass::Absorbed)).filter_map(
        move |(pair, _)| {
            let from = place(pair[0].extent.end().0.saturating_sub(1));
            let to = place(pair[1].extent.start.0);
            (from != to).then(|| from.0.abs_diff(to.0))
        },
    )
}
