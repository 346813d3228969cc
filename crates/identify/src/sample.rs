//! Synthetic requests for tests.

use proptest::collection::vec;
use proptest::prelude::*;
use sakiyomi_drive::Drive;
use sakiyomi_drive::spec::DriveSpec;
use sakiyomi_model::{Extent, Lba, Nanos, Op, Sectors};
use sakiyomi_validate::{Measured, Pace, follow_on, free};

/// Returns a drive with some of its keys set.
pub(crate) fn spec(toml: &str, settings: &[(&str, &str)]) -> DriveSpec {
    let mut spec = DriveSpec::from_toml(toml, "sample").unwrap();
    settings.iter().for_each(|(key, value)| spec.set(key, value).unwrap());
    spec
}

/// Returns successive requests with the response times of a drive.
pub(crate) fn served(spec: &DriveSpec, count: u64, request: impl FnMut(u64) -> Measured) -> Vec<Measured> {
    let mut requests: Vec<Measured> = (0..count).map(request).collect();
    let simulated = free(Drive::new(spec).unwrap(), &requests, Pace::Closed);
    requests.iter_mut().zip(simulated).for_each(|(request, own)| request.response = own.response);
    follow_on(&mut requests);
    requests
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

/// Generates reads and writes, some sequential.
pub(crate) fn any_measured() -> impl Strategy<Value = Vec<Measured>> {
    let one = (any::<bool>(), 0u64..400, 1u64..64, 0u64..30_000_000, 0u64..20_000_000);
    let one = one.prop_map(|(is_read, place, sectors, response, think)| Measured {
        op: if is_read { Op::Read } else { Op::Write },
        think: Nanos(think),
        ..read(place * 32, sectors, response)
    });
    vec(one, 1..40)
}
