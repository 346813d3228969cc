//! A made-up mount and a made-up regulated device over their time, for the tests and the gallery.

use sakiyomi_report::result::*;

const SECOND: u64 = 1_000_000_000;

/// Returns a mount that reads a file, waits, and then seeks, with a rate at the end.
pub(crate) fn mount() -> MountResult {
    let windows: Vec<MountWindow> = (0..90).map(second).collect();
    let accesses = windows.iter().map(|window| window.accesses).sum();
    MountResult {
        directory: "/mnt/disk".to_owned(),
        drive: Some("deskstar-7k250".to_owned()),
        elapsed_ns: 90 * SECOND,
        accesses,
        read_bytes: windows.iter().map(|window| window.read_bytes).sum(),
        written_bytes: windows.iter().map(|window| window.written_bytes).sum(),
        response_ns: MountTimes { mean: 5_140_000, p50: 3_040_000, p99: 16_700_000, max: 35_000_000 },
        lateness_ns: Some(MountTimes { mean: 53_900, p50: 20_700, p99: 600_000, max: 9_520_000 }),
        busy_ratio: Some(0.61),
        by_class: [("full_hit", 1242), ("active_hit", 1957), ("pure_miss", 269)]
            .map(|(class, count)| MountClass { class: class.to_owned(), count })
            .into(),
        recorded: Some(accesses),
        rates: Some(MountRates { owners: 1, ios: 400, late: 12, accuracy_ratio: Some(1.004), bypass: None }),
        windows,
    }
}

/// Returns the same as a block device.
pub(crate) fn serve() -> ServeResult {
    let MountResult { drive, elapsed_ns, accesses, read_bytes, written_bytes, response_ns, .. } = mount();
    let MountResult { lateness_ns, busy_ratio, by_class, recorded, rates, windows, .. } = mount();
    ServeResult {
        uri: "nbd+unix:///?socket=/run/disk.sock".to_owned(),
        content: Some("disk.img".to_owned()),
        drive,
        size_bytes: 250_059_350_016,
        elapsed_ns,
        connections: 4,
        accesses,
        refused: 2,
        read_bytes,
        written_bytes,
        response_ns,
        lateness_ns,
        busy_ratio,
        by_class,
        recorded,
        rates,
        program: Some(IorateProgram {
            words: vec!["nbdcopy".to_owned()],
            exit_code: Some(0),
            signal: None,
            elapsed_ns: 80 * SECOND,
        }),
        windows,
    }
}

fn second(index: u64) -> MountWindow {
    let (accesses, each, mean) = match index {
        0..30 => (460 + index % 7, 131_072, Some(2_100_000)),
        30..45 => (0, 0, None),
        _ => (118 + index % 5, 65_536, Some(8_000_000 + index * 10_000)),
    };
    MountWindow {
        start_ns: index * SECOND,
        end_ns: (index + 1) * SECOND,
        accesses,
        read_bytes: accesses * each,
        written_bytes: if index >= 60 { 40 * 4096 } else { 0 },
        response_mean_ns: mean,
        in_flight_max: accesses.min(1 + index % 3),
        reads: accesses,
        hits: accesses * 4 / 5,
        busy_ns: Some(if accesses > 0 { SECOND * (40 + index % 20) / 60 } else { 0 }),
        rated_ios: if index >= 45 { accesses } else { 0 },
        accuracy_ratio: (index >= 45).then_some(1.0 + (index % 4) as f64 / 200.0),
    }
}

/// Returns two programs on a device: one with a rate, and one that interferes with it.
pub(crate) fn top() -> TopResult {
    let owner = |number: u64, pid, name: &str| IorateOwner {
        number,
        target: IorateTarget::Process { pid },
        name: name.to_owned(),
        rate_percent: None,
        every_ns: None,
        best_effort: false,
        ideal_ns: None,
        mean_ns: Some(2_740_000),
        accuracy_ratio: None,
        cov_ratio: Some(1.097),
        ios: 9000,
        late: 0,
        unanswered: 1,
        ios_per_s: Some(150.0),
    };
    let rated = IorateOwner {
        rate_percent: Some(20),
        ideal_ns: Some(50_000_000),
        mean_ns: Some(50_100_000),
        accuracy_ratio: Some(1.002),
        cov_ratio: Some(0.018),
        ios: 1200,
        late: 3,
        ..owner(1, 4711, "tar")
    };
    let window = |index: u64| TopWindow {
        start_ns: index * SECOND,
        end_ns: (index + 1) * SECOND,
        requests: 180,
        busy_ns: Some(SECOND * (50 + index % 10) / 60),
        in_device_max: 1 + index % 4,
        waiting_max: index % 3,
        owners: vec![
            TopShare { number: 1, ios: 20, accuracy_ratio: Some(1.0 + (index % 5) as f64 / 100.0) },
            TopShare { number: 2, ios: 150, accuracy_ratio: None },
        ],
        others_ios: 10,
    };
    TopResult {
        mount: "/mnt/disk".to_owned(),
        device: IorateDevice {
            name: "deskstar-7k250".to_owned(),
            policy: "deadline".to_owned(),
            service_ns: 10_000_000,
            allowance: 4,
            parallel_ratio: 1.0,
            ..IorateDevice::default()
        },
        owners: vec![rated, owner(2, 815, "cp")],
        windows: (0..60).map(window).collect(),
    }
}
