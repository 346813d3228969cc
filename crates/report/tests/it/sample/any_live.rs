//! Arbitrary mounts and regulated devices.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::{any_iorate, number};
use sakiyomi_report::result::{MountResult, MountWindow, TopResult, TopShare, TopWindow};

pub(crate) fn any_mount() -> impl Strategy<Value = MountResult> {
    let counts = (number(), number(), number(), number());
    let window = (number(), number(), counts, option::of(number()), option::of(any::<f64>())).prop_map(
        |(start_ns, end_ns, (accesses, read_bytes, written_bytes, hits), busy_ns, accuracy_ratio)| {
            MountWindow {
                start_ns,
                end_ns,
                accesses,
                read_bytes,
                written_bytes,
                response_mean_ns: busy_ns,
                in_flight_max: accesses,
                reads: accesses,
                hits,
                busy_ns,
                rated_ios: hits,
                accuracy_ratio,
            }
        },
    );
    (vec(window, 0..30), number(), "[ -~]{0,20}").prop_map(|(windows, elapsed_ns, directory)| MountResult {
        windows,
        elapsed_ns,
        directory,
        ..MountResult::default()
    })
}

pub(crate) fn any_top() -> impl Strategy<Value = TopResult> {
    let share = (0u64..6, number(), option::of(any::<f64>()))
        .prop_map(|(number, ios, accuracy_ratio)| TopShare { number, ios, accuracy_ratio });
    let window = (number(), number(), number(), option::of(number()), vec(share, 0..4)).prop_map(
        |(start_ns, end_ns, requests, busy_ns, owners)| TopWindow {
            start_ns,
            end_ns,
            requests,
            busy_ns,
            in_device_max: requests,
            waiting_max: requests,
            owners,
            others_ios: requests,
        },
    );
    (any_iorate(), vec(window, 0..20)).prop_map(|(seen, windows)| TopResult {
        mount: seen.mount,
        device: seen.device,
        owners: seen.owners,
        windows,
    })
}
