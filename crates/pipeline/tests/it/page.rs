//! The examples of the page docs/reference/stream.md.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use sakiyomi_pipeline::Pipeline;

#[test]
fn the_examples_of_the_page_are_accepted() {
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/stream.md");
    let page = std::fs::read_to_string(page).unwrap();
    let examples: Vec<&str> =
        page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(examples.len() >= 4);
    for example in examples {
        let pipeline =
            Pipeline::parse(example, "docs/reference/stream.md").unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(pipeline.planner().unwrap().operators().len(), pipeline.operators().count());
    }
}

#[test]
fn the_page_names_every_key_and_operator() {
    let page = include_str!("../../../../docs/reference/stream.md");
    let keys = [
        "from",
        "format",
        "columns",
        "fields",
        "parse",
        "split",
        "header",
        "separator",
        "event_time",
        "out_of_order",
        "late",
        "idle",
        "bad",
        "overload",
        "listen",
        "start",
        "direct",
        "rate",
        "rows",
        "keys",
        "seed",
        "cost",
        "share",
        "op",
        "name",
        "input",
        "selectivity",
        "replicas",
        "where",
        "by",
        "window",
        "compute",
        "k",
        "per",
        "keys_max",
        "with",
        "on",
        "within",
        "table",
        "in_flight",
        "method",
        "pass",
        "file",
        "missing",
        "to",
        "append",
        "ring_slots",
    ];
    for key in keys {
        assert!(page.contains(&format!("`{key}`")), "{key}");
    }
}

/// Changed descriptions that are tried.
const CASES: u64 = 400;

#[test]
fn changed_descriptions_are_accepted_or_refused_in_one_sentence() {
    let page = include_str!("../../../../docs/reference/stream.md");
    let examples: Vec<&str> =
        page.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    let mut random = Pcg64::seed_from_u64(19);
    let mut below = |bound: usize| (random.next_u64() % bound as u64) as usize;
    for _ in 0..CASES {
        let mut bytes = examples[below(examples.len())].as_bytes().to_vec();
        for _ in 0..1 + below(4) {
            let (at, other) = (below(bytes.len()), below(bytes.len()));
            match below(4) {
                0 => drop(bytes.remove(at)),
                1 => bytes[at] = b"\"'=[](){},.:-0919aA \n\\*"[below(23)],
                2 => bytes.swap(at, other),
                _ => {
                    let piece = bytes[at.min(other)..at.max(other).min(at.min(other) + 20)].to_vec();
                    bytes.splice(at..at, piece);
                }
            }
        }
        let Ok(text) = String::from_utf8(bytes) else { continue };
        if let Err(error) = Pipeline::parse(&text, "changed.toml") {
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }
}
