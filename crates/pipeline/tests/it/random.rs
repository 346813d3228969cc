//! Random pipelines against plain loops over the same records.

use std::io::Cursor;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64;

use crate::harness::run_on;

/// Pipelines that are tried.
const CASES: u64 = 40;

/// A record of the input, and of each step of the loop.
#[derive(Clone, Debug, PartialEq)]
struct Record {
    n: Option<i64>,
    t: String,
}

fn below(random: &mut Pcg64, bound: u64) -> u64 {
    random.next_u64() % bound
}

/// A step as a function on records.
type Function = Box<dyn Fn(Vec<Record>) -> Vec<Record>>;

/// A step, and the same as a function on records.
fn step(random: &mut Pcg64, index: usize) -> (String, Function) {
    let constant = below(random, 100) as i64 - 50;
    let (text, function): (String, Function) = match below(random, 4) {
        0 => (
            format!("op = \"filter\"\nwhere = \"n > {constant}\""),
            Box::new(move |records| {
                records.into_iter().filter(|record| record.n.is_some_and(|n| n > constant)).collect()
            }),
        ),
        1 => (
            "op = \"filter\"\nwhere = \"n is null or t like '%1%'\"".to_owned(),
            Box::new(|records| {
                records.into_iter().filter(|record| record.n.is_none() || record.t.contains('1')).collect()
            }),
        ),
        2 => (
            format!("op = \"select\"\ncolumns = \"n + {constant} AS n, t\""),
            Box::new(move |records| {
                records.into_iter().map(|Record { n, t }| Record { n: n.map(|n| n + constant), t }).collect()
            }),
        ),
        _ => (
            "op = \"select\"\ncolumns = \"upper(t) || '1' AS t, n\"".to_owned(),
            Box::new(|records| {
                records.into_iter().map(|Record { n, t }| Record { n, t: t.to_uppercase() + "1" }).collect()
            }),
        ),
    };
    (format!("[[step]]\nname = \"s{index}\"\n{text}\n"), function)
}

#[test]
fn any_pipeline_gives_the_result_of_a_loop_on_any_placement() {
    for seed in 0..CASES {
        let mut random = Pcg64::seed_from_u64(seed);
        let record = |random: &mut Pcg64| Record {
            n: (below(random, 10) > 0).then(|| below(random, 200) as i64 - 100),
            t: format!("t{}\u{e9}", below(random, 1000)),
        };
        let mut records: Vec<Record> = (0..below(&mut random, 2000)).map(|_| record(&mut random)).collect();
        let line =
            |Record { n, t }: &Record| format!("{},{t}\n", n.map(|n| n.to_string()).unwrap_or_default());
        let input: String = records.iter().map(line).collect();
        let mut description = "[source.in]\nfrom = \"stdin\"\nformat = \"csv\"\nfields = [\"n\", \"t\"]\n\
                               columns = { n = \"int64\" }\n"
            .to_owned();
        for index in 0..1 + below(&mut random, 5) as usize {
            let (text, function) = step(&mut random, index);
            description += &text;
            records = function(records);
        }
        description += "[[step]]\nname = \"last\"\nop = \"select\"\ncolumns = \"n, t\"\n\
                        [sink.out]\nto = \"stdout\"\nformat = \"csv\"\nheader = false\n";
        let expected: String = records.iter().map(line).collect();
        let cut = below(&mut random, 6) as usize;
        let ended =
            run_on(&description, Cursor::new(input.into_bytes()), |operator| usize::from(operator > cut));
        let ended = ended.unwrap_or_else(|error| panic!("seed {seed}: {error}\n{description}"));
        assert_eq!(ended.written.text(), expected, "seed {seed}:\n{description}");
    }
}
