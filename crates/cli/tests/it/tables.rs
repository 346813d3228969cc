//! Tables that commands write: figures are numbers, and `docs/reference/tables.md` describes every column.

use std::fs;

use crate::scratch::{Scratch, repository};

fn header(scratch: &Scratch, file: &str) -> Vec<String> {
    let text = fs::read_to_string(scratch.0.join(file)).unwrap();
    text.lines().next().unwrap().split(',').map(str::to_owned).collect()
}

#[test]
fn points_of_a_sweep_are_numbers_in_base_units() {
    let scratch = Scratch::new("tables_points");
    let trace = repository("traces/msr_hm0.csv.gz");
    scratch.ok(&format!(
        "sweep {trace} --drive deskstar-7k250 --vary cache.read_ahead.max=64KiB,1MiB --vary queue.age_limit=0,10ms \
         --vary queue.policy=look,sptf --out sweep"
    ));
    let text = fs::read_to_string(scratch.0.join("sweep/points.csv")).unwrap();
    let begin: Vec<String> =
        text.lines().map(|line| line.split(',').take(3).collect::<Vec<_>>().join(",")).collect();
    assert_eq!(
        begin,
        [
            "cache.read_ahead.max_bytes,queue.age_limit_ns,queue.policy",
            "65536,0,look",
            "65536,0,sptf",
            "65536,10000000,look",
            "65536,10000000,sptf",
            "1048576,0,look",
            "1048576,0,sptf",
            "1048576,10000000,look",
            "1048576,10000000,sptf",
        ]
    );
    let columns = header(&scratch, "sweep/points.csv");
    // All figures after the settings are numbers.
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!(fields.len(), columns.len());
        let (last, figures) = fields[3..].split_last().unwrap();
        assert!(figures.iter().all(|field| field.parse::<f64>().is_ok()), "{line}");
        assert!(
            last.is_empty() || last.parse::<u64>().is_ok(),
            "no point of the same drive, or its number: {line}"
        );
    }
    assert!(scratch.names("sweep").contains(&"points.parquet".to_owned()));
}

#[test]
fn the_page_on_tables_names_every_column() {
    let scratch = Scratch::new("tables_page");
    let page = fs::read_to_string(repository("docs/reference/tables.md")).unwrap();
    let trace = repository("traces/msr_hm0.csv.gz");
    scratch.ok(&format!("sim {trace} --drive deskstar-7k250 --out sim --log csv"));
    scratch.ok(&format!("sweep {trace} --drive deskstar-7k250 --vary cache.segments.count=4,8 --out sweep"));
    for file in ["sim/commands.csv", "sim/cache.csv", "sim/disk.csv", "sim/chunks.csv", "sweep/points.csv"] {
        let missing: Vec<String> = header(&scratch, file)
            .into_iter()
            .filter(|column| !page.contains(&format!("`{column}`")))
            .collect();
        assert!(missing.is_empty(), "{file}: {missing:?}");
    }
}
