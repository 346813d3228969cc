//! A reproduction of two papers.

use sakiyomi_report::result::*;

pub(crate) fn reproduction() -> Document<ReproduceResult> {
    let figure = |id: &str, what: &str, published: f64, median: f64| ReproducedFigure {
        id: id.to_owned(),
        place: "table 3".to_owned(),
        what: what.to_owned(),
        unit: "s".to_owned(),
        relation: "exactly".to_owned(),
        published,
        published_to: None,
        simulated: Some(ReproducedValue { median, min: 0.9 * median, max: 1.1 * median, runs: 3 }),
        deviation_ratio: Some(median / published - 1.0),
        ..ReproducedFigure::default()
    };
    let calibrated = ReproducedFigure {
        is_calibrated: true,
        note: "The compute rate is calibrated to this figure.".to_owned(),
        ..figure("a.1.prefetch", "0.61 GB, with prefetching", 13.03, 13.11)
    };
    let bound = ReproducedFigure {
        relation: "at most".to_owned(),
        unit: "ratio".to_owned(),
        is_met: true,
        deviation_ratio: Some(0.0),
        ..figure("accuracy", "accuracy", 1.1, 1.05)
    };
    let gain = ReproducedFigure {
        unit: "%".to_owned(),
        live: Some(ReproducedValue { median: 7.4, min: 5.0, max: 8.8, runs: 3 }),
        live_conditions: Some(ReproducedValue { median: 8.2, min: 8.2, max: 8.2, runs: 1 }),
        live_deviation_ratio: Some(-0.796),
        live_from_simulated_ratio: Some(-0.007),
        live_note: "Live, nothing is written.".to_owned(),
        ..figure("a.mean.speedup", "mean speed-up", 36.2, 35.5)
    };
    let absent = ReproducedFigure {
        simulated: None,
        live: Some(ReproducedValue { median: 2410.0, min: 2300.0, max: 2450.0, runs: 3 }),
        deviation_ratio: None,
        published_to: Some(5500.0),
        unit: "MB/s".to_owned(),
        note: "Not in virtual time: the CPU time of system calls is not simulated.".to_owned(),
        ..figure("show.throughput", "sequential direct reads", 5000.0, 0.0)
    };
    let curve = |picture: &str, points: [(f64, f64); 2], published: Vec<(f64, f64)>| ReproducedCurve {
        picture: picture.to_owned(),
        panel: "machine A".to_owned(),
        label: "with prefetching".to_owned(),
        points: points.to_vec(),
        published,
    };
    let first = ReproducedPaper {
        name: "waseda2006".to_owned(),
        title: "Fukayama et al., Waseda 2006: a prefetching thread".to_owned(),
        figures: vec![figure("a.1.standard", "0.61 GB, standard", 17.31, 22.0), calibrated, gain, bound],
        curves: vec![
            curve("gain_by_limit", [(4096.0, -2.0), (16_777_216.0, 35.5)], Vec::new()),
            curve("time_by_size", [(0.61, 13.11), (4.66, 100.04)], vec![(0.61, 13.03), (4.66, 100.02)]),
        ],
        live: vec!["Left out: a program on an emulated drive: /dev/fuse does not exist.".to_owned()],
    };
    let second = ReproducedPaper {
        name: "waseda2013".to_owned(),
        title: "Ueda, Waseda 2013: the CPU time of file I/O".to_owned(),
        figures: vec![absent],
        curves: Vec::new(),
        live: vec!["Measured here: sequential direct reads of 16 MiB by one thread.".to_owned()],
    };
    let result = ReproduceResult { effort: "quick".to_owned(), papers: vec![first, second] };
    Document::new(super::run(), result)
}
