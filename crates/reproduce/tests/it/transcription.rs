//! The figures of the papers, transcribed a second time: from the papers' tables and text, and not from `published.toml`.
//!
//! A figure that was never entered there, or was mistyped, is found by comparison.

use std::collections::BTreeMap;

use sakiyomi_reproduce::{Paper, published};

/// A figure: paper, identifier, value or the lower end of a range, its upper end, unit.
type Row = (Paper, String, f64, Option<f64>, &'static str);

/// Several figures of one unit, whose identifiers are `prefix` and a name.
fn rows<'a>(
    paper: Paper,
    prefix: &str,
    unit: &'static str,
    named: impl IntoIterator<Item = (&'a str, f64)>,
) -> Vec<Row> {
    named.into_iter().map(|(name, value)| (paper, format!("{prefix}{name}"), value, None, unit)).collect()
}

fn range(paper: Paper, id: &str, (from, to): (f64, f64), unit: &'static str) -> Row {
    (paper, id.to_owned(), from, Some(to), unit)
}

fn prefetching() -> Vec<Row> {
    let files = ["1", "2", "3", "4", "5", "6", "7", "8"];
    let speed_ups = [
        ("a", [32.9, 37.6, 37.9, 32.7, 37.3, 38.8, 35.4, 37.0]),
        ("b", [36.1, 32.6, 39.2, 28.5, 39.0, 34.0, 38.5, 35.2]),
    ];
    let times = [
        ("a.1", 17.31, 13.03),
        ("a.2", 29.65, 21.54),
        ("a.3", 47.66, 34.55),
        ("a.4", 67.11, 50.56),
        ("a.5", 82.80, 60.30),
        ("a.6", 101.04, 72.79),
        ("a.7", 120.04, 88.65),
        ("a.8", 136.99, 100.02),
        ("b.1", 19.16, 14.08),
        ("b.2", 32.90, 24.80),
        ("b.3", 56.25, 40.42),
        ("b.4", 71.16, 55.40),
        ("b.5", 97.57, 70.20),
        ("b.6", 118.11, 88.15),
        ("b.7", 138.29, 99.87),
        ("b.8", 154.81, 114.52),
    ];
    let paper = Paper::Waseda2006;
    let speed_ups = speed_ups.into_iter().flat_map(|(machine, values)| {
        let of_machine = rows(paper, &format!("{machine}."), "%", files.into_iter().zip(values));
        of_machine.into_iter().map(|(paper, id, value, to, unit)| (paper, id + ".speedup", value, to, unit))
    });
    let times = times.into_iter().flat_map(|(file, standard, prefetch)| {
        rows(paper, &format!("{file}."), "s", [("standard", standard), ("prefetch", prefetch)])
    });
    let means = [("a.mean.speedup", 36.2), ("b.mean.speedup", 35.3), ("best.speedup", 39.2)];
    speed_ups
        .chain(times)
        .chain(rows(paper, "", "%", means))
        .chain(rows(paper, "", "KB", [("a.stable_from", 256.0), ("b.stable_from", 128.0)]))
        .chain(rows(paper, "", "MB", [("a.no_pollution_to", 512.0), ("b.no_pollution_to", 512.0)]))
        .collect()
}

fn cpu_bottleneck() -> Vec<Row> {
    let paper = Paper::Waseda2013;
    // Comparisons without numbers are bounds.
    let ratios = [
        ("query1.aio", 1.0),
        ("query1.pread", 1.0),
        ("stream.static", 1.0),
        ("stream.gain", 1.0),
        ("stream.rise", 1.0),
        ("stream.relocating", 1.0),
    ];
    [
        vec![
            range(paper, "show.throughput", (5000.0, 5500.0), "MB/s"),
            range(paper, "show.cpu", (70.0, 80.0), "%"),
            range(paper, "phase.1", (4000.0, 5000.0), "MB/s"),
            range(paper, "phase.5", (4000.0, 5000.0), "MB/s"),
        ],
        rows(paper, "phase.", "MB/s", [("2", 2000.0), ("3", 100.0), ("4", 0.0)]),
        rows(paper, "", "ratio", ratios),
        rows(paper, "", "results", [("stream.order", 0.0)]),
    ]
    .concat()
}

fn regulation() -> Vec<Row> {
    let paper = Paper::Kochi2023;
    let rates = ["10", "15", "20", "25", "30"];
    let best = [
        ("PC1", [9.0, 5.0, 4.0, 3.0, 2.0]),
        ("PC2", [7.0, 5.0, 3.0, 3.0, 2.0]),
        ("PC3", [6.0, 4.0, 3.0, 3.0, 2.0]),
    ];
    let by_rate = best.into_iter().flat_map(|(computer, best)| {
        let accuracies = ["formula", "corrected"].map(|kind| {
            // With correction at most 1.1; without it above or below, which is the relation.
            rows(paper, &format!("{kind}.{computer}."), "ratio", rates.map(|rate| (rate, 1.1)))
        });
        let best = rows(paper, &format!("best.{computer}."), "requests", rates.into_iter().zip(best));
        [best, accuracies.concat()].concat()
    });
    let reached = [("PC2.10", 7.0), ("PC2.20", 3.0), ("PC2.25", 3.0), ("PC2.30", 2.0)];
    let reached_pc3 = [("PC3.10", 6.0), ("PC3.15", 4.0), ("PC3.20", 3.0), ("PC3.25", 3.0), ("PC3.30", 2.0)];
    let overshoots = [("overshoot.PC2", 4.0), ("overshoot.PC2.20", 2.0)];
    let iops = [
        ("cost.step", 5.0),
        ("cost.PC2.10", 9.0),
        ("cost.PC2.20", 11.0),
        ("release.LS.gain", 15.0),
        ("release.LC.gain", 7.0),
    ];
    by_rate
        .chain(rows(paper, "reached.", "requests", reached.into_iter().chain(reached_pc3)))
        .chain(rows(paper, "", "requests", overshoots))
        .chain(rows(paper, "settled.", "I/Os", [("PC2", 800.0), ("PC3", 750.0)]))
        .chain(rows(paper, "", "IOPS", iops))
        .chain(rows(paper, "", "ratio", [("release.LS.accuracy", 1.15)]))
        // The same accuracy, with our tolerance.
        .chain([range(paper, "release.LC.change", (-0.05, 0.05), "ratio")])
        .collect()
}

fn tasks() -> Vec<Row> {
    let paper = Paper::Cerium2014;
    let threads = ["1", "4", "8", "12"];
    let tables = [
        ("128KiB.mmap.", [20.179, 22.861, 22.789, 22.713]),
        ("128KiB.read.", [21.351, 15.737, 14.785, 12.520]),
        ("128KiB.blocked-any.", [18.531, 15.646, 15.287, 14.028]),
        ("128KiB.blocked-io.", [13.930, 14.634, 14.774, 10.295]),
        ("16KiB.mmap.", [15.353, 11.287, 11.707, 11.137]),
        ("16KiB.read.", [16.846, 11.730, 11.487, 11.437]),
        ("16KiB.blocked-any.", [13.297, 11.984, 10.887, 11.146]),
        ("16KiB.blocked-io.", [11.503, 11.437, 11.365, 11.412]),
    ];
    let tables = tables
        .into_iter()
        .flat_map(|(prefix, times)| rows(paper, prefix, "s", threads.into_iter().zip(times)));
    tables
        .chain(rows(paper, "cached.", "s", [("mmap", 0.878), ("read", 1.469), ("blocked-io", 0.866)]))
        .chain(rows(paper, "", "ratio", [("second_run.10GB", 1.0)]))
        .collect()
}

fn cache() -> Vec<Row> {
    let paper = Paper::Hitachi2013;
    let percents = [("short.hit", 39.2), ("long.hit", 72.4), ("short.idle", 55.8), ("long.idle", 69.1)];
    [
        rows(paper, "", "%", percents),
        rows(paper, "", "seeks", [("short.seeks", 6908.0), ("long.seeks", 3209.0)]),
        rows(paper, "", "ms", [("short.mean", 5.0), ("long.mean", 2.5), ("worst.change", 0.0)]),
        rows(paper, "", "commands", [("full_hits.change", 0.0)]),
        vec![range(paper, "commands", (11_400.0, 11_600.0), "commands")],
        rows(paper, "", "ratio", [("miss.best", 1.0), ("miss.worst", 209.0), ("speed", 130.0)]),
        rows(paper, "spread.", "decades", [("all", 4.0), ("misses", 2.0)]),
    ]
    .concat()
}

#[test]
fn the_published_figures_are_those_of_the_papers() {
    let transcribed = [prefetching(), cpu_bottleneck(), regulation(), tasks(), cache()].concat();
    let many = transcribed.len();
    let transcribed: BTreeMap<(Paper, String), _> = transcribed
        .into_iter()
        .map(|(paper, id, value, to, unit)| ((paper, id), (value, to, unit)))
        .collect();
    assert_eq!(transcribed.len(), many, "a figure was transcribed twice");
    let published = published();
    let entered: BTreeMap<(Paper, String), _> = published
        .iter()
        .map(|figure| ((figure.paper, figure.id.clone()), (figure.value, figure.to, figure.unit.as_str())))
        .collect();
    let differing: Vec<_> = transcribed.iter().filter(|(key, row)| entered.get(key) != Some(*row)).collect();
    assert!(differing.is_empty(), "published.toml lacks these, or has others: {differing:?}");
    let unknown: Vec<_> = entered.keys().filter(|key| !transcribed.contains_key(key)).collect();
    assert!(unknown.is_empty(), "only published.toml has these: {unknown:?}");
}

#[test]
fn without_correction_the_thesis_has_five_misses() {
    use sakiyomi_reproduce::Relation;
    let all = published();
    let missing = all.iter().filter(|figure| {
        figure.paper == Paper::Kochi2023
            && figure.id.starts_with("formula.")
            && figure.relation == Relation::MoreThan
    });
    let ids: Vec<&str> = missing.map(|figure| figure.id.trim_start_matches("formula.")).collect();
    assert_eq!(ids, ["PC2.10", "PC2.20", "PC3.10", "PC3.15", "PC3.20"]);
}
