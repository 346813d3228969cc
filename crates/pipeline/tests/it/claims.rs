//! Files that one pipeline at a time writes.

use std::fs;
use std::path::Path;

use sakiyomi_pipeline::{Pipeline, Run, Standard};
use sakiyomi_stream::{Settings, Stream};
use sakiyomi_testing::Scratch;

/// Ways to write a file.
const APPENDS: &str = "append = true\n";
const REPLACES: &str = "";

fn description(files: &[(&Path, &str)]) -> String {
    let sinks = files.iter().enumerate().map(|(number, (file, keys))| {
        format!("[sink.s{number}]\ninput = \"in\"\nto = \"file:{}\"\n{keys}", file.display())
    });
    "[source.in]\nfrom = \"generator\"\nrows = 10\n".to_owned() + &sinks.collect::<String>()
}

fn open(files: &[(&Path, &str)], is_resumable: bool) -> Result<(Pipeline, Stream, Run), String> {
    let pipeline = Pipeline::parse(&description(files), "claims.toml").unwrap();
    let built = match is_resumable {
        true => pipeline.build_resumable(Standard::default(), None),
        false => pipeline.build(Standard::default()),
    };
    let (stream, run) = built.map_err(|error| error.to_string())?;
    Ok((pipeline, stream, run))
}

fn finish((pipeline, stream, run): (Pipeline, Stream, Run)) {
    let workers = vec![0; pipeline.operators().count()];
    stream.start(Settings::unpinned(1), &workers).unwrap().finish().unwrap();
    run.finish().unwrap();
}

#[test]
fn a_file_that_one_pipeline_writes_is_refused_to_others_until_it_has_appeared() {
    let scratch = Scratch::new("pipeline_claims");
    let path = scratch.path("rows");
    std::os::unix::fs::symlink("rows", scratch.path("link")).unwrap();
    let ways = [(APPENDS, false), (APPENDS, true), (REPLACES, false), (REPLACES, true)];
    for exists in [false, true] {
        for (way, is_resumable) in ways {
            if exists {
                fs::write(&path, "").unwrap();
            }
            let first = open(&[(&path, way)], is_resumable).unwrap();
            for (other_way, other_is_resumable) in ways {
                for name in ["rows", "link"] {
                    let other = scratch.path(name);
                    let refused = open(&[(&other, other_way)], other_is_resumable).map(drop).unwrap_err();
                    let reason = "another process writes it; wait for its end, or write another file";
                    assert_eq!(refused, format!("sink.s0: cannot open {}: {reason}", other.display()));
                }
            }
            // Another file is another matter.
            finish(open(&[(&scratch.path("other"), way)], false).unwrap());
            finish(first);
            finish(open(&[(&path, way)], false).unwrap());
            fs::remove_file(&path).unwrap();
            fs::remove_file(scratch.path("other")).unwrap();
            assert_eq!(scratch.entries(), 1, "no lock and no partial file is left beside the link");
        }
    }
}

#[test]
fn outputs_of_one_pipeline_share_a_file_that_both_append_to_and_no_other() {
    let scratch = Scratch::new("pipeline_claims_shared");
    let path = scratch.path("rows");
    finish(open(&[(&path, APPENDS), (&path, APPENDS)], false).unwrap());
    assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 20);
    for ways in [[REPLACES, REPLACES], [APPENDS, REPLACES], [REPLACES, APPENDS]] {
        let refused = open(&ways.map(|way| (path.as_path(), way)), false).map(drop).unwrap_err();
        let reason =
            "another output of this pipeline writes it; give each its own file, or append = true to both";
        assert_eq!(refused, format!("sink.s1: cannot open {}: {reason}", path.display()));
    }
    assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 20);
    let null = Path::new("/dev/null");
    finish(open(&[(null, REPLACES), (null, APPENDS)], false).unwrap());
    assert_eq!(scratch.entries(), 1);
}
