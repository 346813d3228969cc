//! A made-up regulated device, for the tests.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use sakiyomi_report::result::{
    IorateBypass, IorateDevice, IorateOwner, IorateProgram, IorateResult, IorateTarget,
};

const MS: u64 = 1_000_000;

/// Returns an owner whose rate is met, one whose rate is not met, a group, and others.
pub(crate) fn iorate() -> IorateResult {
    let owner = |number, target, name: &str| IorateOwner {
        number,
        target,
        name: name.to_owned(),
        rate_percent: None,
        every_ns: None,
        best_effort: false,
        ideal_ns: None,
        mean_ns: Some(91 * MS),
        accuracy_ratio: None,
        cov_ratio: Some(0.31),
        ios: 12_345,
        late: 0,
        unanswered: 4,
        ios_per_s: Some(10.9),
    };
    let kept = IorateOwner {
        rate_percent: Some(20),
        ideal_ns: Some(50_500_000),
        mean_ns: Some(50_600_000),
        accuracy_ratio: Some(1.002),
        cov_ratio: Some(0.018),
        ios: 1234,
        late: 3,
        unanswered: 1,
        ios_per_s: Some(19.8),
        ..owner(1, IorateTarget::Process { pid: 4711 }, "tar")
    };
    let missed = IorateOwner {
        every_ns: Some(15 * MS),
        best_effort: true,
        ideal_ns: Some(15 * MS),
        mean_ns: Some(23_400_000),
        accuracy_ratio: Some(1.56),
        cov_ratio: Some(0.44),
        late: 9876,
        ios_per_s: Some(42.7),
        ..owner(2, IorateTarget::Tree { pid: 4712 }, "make")
    };
    let group = owner(3, IorateTarget::Group { path: "/batch/night".to_owned() }, "/batch/night");
    let new = IorateOwner {
        mean_ns: None,
        cov_ratio: None,
        ios: 0,
        unanswered: 0,
        ios_per_s: Some(0.0),
        ..owner(4, IorateTarget::Process { pid: 99 }, "a \"b\" \x1b[2Jc")
    };
    IorateResult {
        mount: "/mnt/disk".to_owned(),
        at_ns: 754_200 * MS,
        device: IorateDevice {
            name: "deskstar-7k250".to_owned(),
            policy: "deadline".to_owned(),
            service_ns: 10_100_000,
            allowance: 4,
            parallel_ratio: 1.0,
            in_device: 5,
            waiting: 12,
            requests: 71_234,
            busy_ns: Some(740_000 * MS),
            requests_per_s: Some(95.3),
            busy_ratio: Some(0.983),
            bypass: None,
        },
        owners: vec![kept, missed, group, new],
        program: None,
    }
}

fn any_target() -> impl Strategy<Value = IorateTarget> {
    prop_oneof![
        (0u32..4).prop_map(|pid| IorateTarget::Process { pid }),
        (0u32..4).prop_map(|pid| IorateTarget::Tree { pid }),
        "/[a\"\\\\\n]{0,3}".prop_map(|path| IorateTarget::Group { path }),
    ]
}

prop_compose! {
    fn any_owner()(
        (number, target, name) in (0u64..9, any_target(), "\\PC{0,4}|[\n\x1b先]{0,40}"),
        (rate_percent, every_ns, best_effort) in (option::of(any::<u32>()), option::of(any::<u64>()), any::<bool>()),
        (ideal_ns, mean_ns) in (option::of(any::<u64>()), option::of(any::<u64>())),
        (accuracy_ratio, cov_ratio, ios_per_s) in
            (option::of(any::<f64>()), option::of(any::<f64>()), option::of(any::<f64>())),
        (ios, late, unanswered) in any::<(u64, u64, u64)>(),
    ) -> IorateOwner {
        IorateOwner {
            number, target, name, rate_percent, every_ns, best_effort, ideal_ns, mean_ns, accuracy_ratio, cov_ratio, ios,
            late, unanswered, ios_per_s,
        }
    }
}

prop_compose! {
    /// Generates any state of a mount.
    pub(crate) fn any_iorate()(
        (mount, name, policy) in ("\\PC{0,9}", "[\n\x1bx]{0,90}", "\\PC{0,9}"),
        (at_ns, service_ns, requests, busy_ns) in any::<(u64, u64, u64, Option<u64>)>(),
        (allowance, in_device, waiting) in any::<(u32, u64, u64)>(),
        (parallel_ratio, requests_per_s, busy_ratio) in any::<(f64, Option<f64>, Option<f64>)>(),
        past in option::of(("[\n\x1bx]{0,9}", any::<f64>(), any::<f64>())),
        owners in vec(any_owner(), 0..9),
    ) -> IorateResult {
        let bypass = past
            .map(|(device, requests_per_s, share_ratio)| IorateBypass { device, requests_per_s, share_ratio });
        IorateResult {
            mount,
            at_ns,
            device: IorateDevice {
                name, policy, service_ns, allowance, parallel_ratio, in_device, waiting, requests, busy_ns,
                requests_per_s, busy_ratio, bypass,
            },
            owners,
            program: Some(IorateProgram::default()),
        }
    }
}
