//! Synthetic requests for tests.

use proptest::collection::{SizeRange, vec};
use proptest::prelude::*;
use sakiyomi_drive::Drive;
use sakiyomi_drive::spec::builtin;
use sakiyomi_model::{Breakdown, Class, Extent, Lba, Nanos, Op, ReadClass, Sectors};

use crate::measured::Measured;
use crate::replay::Simulated;

pub(crate) fn drive() -> Drive {
    Drive::new(&builtin("deskstar-7k250").expect("a built-in drive").spec()).expect("a possible drive")
}

/// Returns a read issued at zero.
pub(crate) fn read(start: u64, sectors: u64, response: u64) -> Measured {
    Measured {
        op: Op::Read,
        fua: false,
        extent: Extent::new(Lba(start), Sectors(sectors)),
        issued: Nanos::ZERO,
        response: Nanos(response),
        think: Nanos::ZERO,
        label: None,
    }
}

pub(crate) fn simulated(response: u64, class: ReadClass) -> Simulated {
    Simulated { response: Nanos(response), class: Class::Read(class), breakdown: Breakdown::default() }
}

/// Returns a simulation that equals the measurement.
pub(crate) fn exact(measured: &[Measured]) -> Vec<Simulated> {
    measured.iter().map(|request| simulated(request.response.0, ReadClass::PureMiss)).collect()
}

pub(crate) fn any_times(count: impl Into<SizeRange>) -> impl Strategy<Value = Vec<Nanos>> {
    vec((0u64..60_000_000).prop_map(Nanos), count)
}

/// Generates reads and writes, some sequential, in random order of time.
pub(crate) fn any_measured() -> impl Strategy<Value = Vec<Measured>> {
    let one = (any::<bool>(), 0u64..400, 1u64..64, 0u64..100_000_000, 0u64..30_000_000, 0u64..20_000_000);
    let one = one.prop_map(|(is_read, place, sectors, issued, response, think)| Measured {
        op: if is_read { Op::Read } else { Op::Write },
        issued: Nanos(issued),
        think: Nanos(think),
        ..read(place * 32, sectors, response)
    });
    vec(one, 1..40)
}
