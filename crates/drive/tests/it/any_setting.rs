//! Any value for any key leads either to an error that states the accepted values, or to a working drive.

use sakiyomi_drive::spec::{BUILTIN, DriveSpec, SpecError, builtin, explain};
use sakiyomi_drive::{Disk, Geometry, Simulated};
use sakiyomi_model::{Device, Extent, Lba, Nanos, Op, Request, RequestId, Sectors, StreamId};

/// Negative, empty, huge and non-numeric values, and values of another unit or type.
const VALUES: &[&str] = &[
    "-1",
    "-50ms",
    "-0",
    "-0.5",
    "0",
    "0ms",
    "0B",
    "1",
    "3",
    "0.5",
    "1.5",
    "7919",
    "65537",
    "1e308",
    "nan",
    "NaN",
    "inf",
    "-inf",
    "4294967296",
    "18446744073709551615",
    "99999999999999999999999",
    "1000000h",
    "1h",
    "999ms",
    "1.5ms",
    "64KiB",
    "4KiB",
    "16TiB",
    "8EiB",
    "5 parsecs",
    "7200rpm",
    "5%",
    "true",
    "yes",
    "",
    " ",
    "\"\"",
    "''",
    "'a'",
    "\"",
    "\n",
    "a\nb",
    "\0",
    "[]",
    "[1]",
    "[[1, 2, 3]]",
    "[[1, \"2ms\"]]",
    "[\"9h\"]",
    "{}",
    "{ a = 1 }",
    "{ curve = \"table\", points = [] }",
    "{ curve = \"table\", points = [[1, \"1ms\"], [2, \"9ms\"]] }",
    "{ curve = \"datasheet\", average = \"1ms\" }",
    "{ after_read = \"1ms\", after_write = \"1h\" }",
    "2026-01-01",
    "a = 1",
    "fixed",
    "segment",
    "adaptive",
    "sptf",
    "4096",
];

/// Parts of messages of serde or Rust, which must not appear.
const JARGON: &[&str] = &[
    "invalid type",
    "invalid value",
    "invalid length",
    "unknown variant",
    "unknown field",
    "missing field",
    "f64",
    "u32",
    "u64",
    "struct ",
    "data did not match",
    "i64",
    "usize",
    "a sequence",
    "a boolean",
    "untagged",
    "Err(",
    "Some(",
    "os error",
];

fn keys() -> Vec<String> {
    let own = explain().iter().map(|entry| entry.key.replace('*', "0"));
    let before_writes = explain().iter().filter_map(|entry| {
        entry.key.strip_prefix("servo.seek.").map(|key| format!("servo.seek_write.{key}"))
    });
    own.chain(before_writes).collect()
}

/// Returns drives with each kind of seek curve.
fn drives() -> Vec<DriveSpec> {
    let base = builtin("deskstar-7k250").unwrap().spec();
    let with = |curve: &str| {
        let mut spec = base.clone();
        spec.set("servo.seek", curve).unwrap();
        spec
    };
    let two_piece = with(
        "{ curve = \"two_piece\", threshold = 600, short_base = \"1ms\", short_per_root = \"0.1ms\", long_base = \"3ms\", \
         long_per_cylinder = \"100ns\" }",
    );
    let table = with("{ curve = \"table\", points = [[1, \"1ms\"], [90000, \"15ms\"]] }");
    vec![base, two_piece, table]
}

fn is_a_sentence(error: &SpecError, key: &str, value: &str) {
    let text = error.to_string();
    let shown = format!("{key}={value}: {text}");
    assert!(!text.trim().is_empty() && text.len() < 700, "{shown}");
    // The message repeats the typed value, which may contain anything.
    let rest = if value.is_empty() { text.clone() } else { text.replace(value, "") };
    assert_eq!(rest.trim_end().lines().count(), 1, "{shown}");
    for jargon in JARGON {
        assert!(!rest.contains(jargon), "{shown}: {jargon}");
    }
    // Names the key, its table, or another key that it contradicts.
    let mut words = key.rsplit('.').take(2);
    assert!(words.any(|word| text.contains(word)) || text.contains("cache."), "{shown}");
}

/// Checks that reads and writes, near and far, each finish in less than a minute.
fn works(spec: &DriveSpec, shown: &str) {
    let mut drive = Disk::new(spec).unwrap_or_else(|error| panic!("{shown}: {error}"));
    let capacity = drive.capacity().0;
    assert!(capacity > 0, "{shown}: it holds nothing");
    let sectors = 8.min(capacity);
    let (mut done, mut now) = (Vec::new(), Nanos::ZERO);
    for number in 0..12u64 {
        let op = if number % 3 == 1 { Op::Write } else { Op::Read };
        let place = (number / 2) * 7_919_003_111 % (capacity - sectors + 1);
        let request = Request {
            id: RequestId(number),
            stream: StreamId::default(),
            op,
            fua: number % 2 == 1,
            extent: Extent::new(Lba(place), Sectors(sectors)),
            arrival: Nanos::ZERO,
        };
        drive.submit(now, Request { arrival: now, ..request }).unwrap_or_else(|_| panic!("{shown}: refused"));
        while drive.outstanding() > 0 {
            let next = drive.next_event().unwrap_or_else(|| panic!("{shown}: it stands still"));
            drive.advance(next, &mut done);
            now = next;
        }
    }
    assert_eq!(done.len(), 12, "{shown}");
    for completion in &done {
        assert!(completion.response_time() < Nanos::SECOND * 60, "{shown}: {completion:?}");
    }
}

fn capacity_bytes(spec: &DriveSpec) -> u64 {
    let geometry = Geometry::new(&spec.geometry, &spec.servo);
    geometry.capacity().to_bytes(geometry.sector()).0
}

#[test]
fn every_key_takes_any_value_as_a_drive_that_works_or_says_what_is_expected() {
    let (mut taken, mut refused) = (0, 0);
    for (number, base) in drives().iter().enumerate() {
        for key in keys() {
            for value in VALUES {
                let shown = format!("drive {number}, {key}={value}");
                match base.with_settings([(key.as_str(), *value)]) {
                    Err(error) => {
                        is_a_sentence(&error, &key, value);
                        refused += 1;
                    }
                    Ok(spec) => {
                        assert_eq!(DriveSpec::from_toml(&spec.to_toml(), "again").unwrap(), spec, "{shown}");
                        if !key.starts_with("geometry.zones")
                            && key != "geometry.heads"
                            && key != "geometry.sectors"
                        {
                            assert_eq!(capacity_bytes(&spec), capacity_bytes(base), "{shown}");
                        }
                        // An unchanged drive needs no second test.
                        if number == 0 && spec != *base {
                            works(&spec, &shown);
                        }
                        taken += 1;
                    }
                }
            }
        }
    }
    assert!(taken > 500 && refused > 5000, "{taken} {refused}");
}

#[test]
fn a_write_settles_earlier_than_a_read_by_no_more_than_its_arm_moves() {
    let base = builtin("deskstar-7k250").unwrap().spec();
    let with =
        |settle| base.with_settings([("servo.write_settle", settle)]).map_err(|error| error.to_string());
    let said = with("-50ms").unwrap_err();
    assert!(
        said.contains("servo.write_settle: -50ms: a write would be settled before its arm has moved"),
        "{said}"
    );
    assert!(with("-0.1ms").is_ok() && with("0").is_ok());
}

#[test]
fn sectors_of_another_size_do_not_make_the_drive_larger_unasked() {
    for builtin in BUILTIN {
        let base = builtin.spec();
        let other = if base.geometry.sector.0 == 512 { "4KiB" } else { "512" };
        let said = base.with_settings([("geometry.sector", other)]).unwrap_err().to_string();
        assert!(said.contains("with as many sectors on a track makes a drive of"), "{said}");
        // With an equal number of bytes per track, it is the same drive with another sector size.
        let bytes = |sectors: u32| u64::from(sectors) * base.geometry.sector.0;
        let size: u64 = if other == "512" { 512 } else { 4096 };
        let tracks: Vec<(String, String)> = (base.geometry.zones.iter().enumerate())
            .map(|(zone, spec)| {
                let sectors = bytes(spec.sectors_per_track) / size;
                (format!("geometry.zones.{zone}.sectors_per_track"), sectors.to_string())
            })
            .chain([("geometry.sector".to_owned(), other.to_owned())])
            .collect();
        let whole = DriveSpec {
            geometry: sakiyomi_drive::spec::GeometrySpec { sectors: None, ..base.geometry.clone() },
            ..base.clone()
        };
        let formatted = whole.with_settings(tracks.iter().map(|(key, value)| (key.as_str(), value.as_str())));
        let ratio = capacity_bytes(&formatted.unwrap()) as f64 / capacity_bytes(&whole) as f64;
        assert!((0.98..=1.0).contains(&ratio), "{}: {ratio}", builtin.id);
    }
}

#[test]
fn a_file_is_refused_by_line_and_key_with_what_is_expected() {
    let text = builtin("deskstar-7k250").unwrap().toml;
    let line = |start: &str| 1 + text.lines().position(|line| line.starts_with(start)).unwrap();
    let changed = |from: &str, to: &str| {
        let text: Vec<String> = text
            .lines()
            .map(|line| if line.starts_with(from) { to.to_owned() } else { line.to_owned() })
            .collect();
        DriveSpec::from_toml(&text.join("\n"), "mine.toml").unwrap_err().to_string()
    };
    let at = line("rpm");
    let said = |value: &str| changed("rpm", &format!("rpm = {value}"));
    assert_eq!(
        said("\"NaN\""),
        format!("mine.toml:{at}: servo.rpm: \"NaN\"; expected a number, 100 to 100000")
    );
    assert_eq!(
        said("nan"),
        format!("mine.toml:{at}: servo.rpm: NaN revolutions per minute; expected 100 to 100000")
    );
    assert_eq!(
        changed("rpm", "rmp = 7200"),
        format!(
            "mine.toml:{at}: servo.rmp: no setting is called `servo.rmp`; did you mean servo.rpm? \
             `sakiyomi drive show NAME --explain` lists them all"
        )
    );
    let said = said("");
    assert!(said.starts_with(&format!("mine.toml:{at}: this is not TOML: ")), "{said}");
    let missing = changed("rpm", "");
    assert!(
        missing.contains(": servo.rpm: it is missing; give a number, 100 to 100000 (Spindle speed in revolutions per minute.)"),
        "{missing}"
    );
}

#[test]
fn a_drive_s_name_that_is_nearly_right_is_suggested() {
    for (typed, meant) in [
        ("deskstar-7k25", "deskstar-7k250"),
        ("Deskstar-7K250", "deskstar-7k250"),
        ("deskstar 7k250", "deskstar-7k250"),
        ("baracuda-st2000dm006", "barracuda-st2000dm006"),
        ("wd10tpvx", "scorpio-wd10tpvx"),
    ] {
        let said = builtin(typed).unwrap_err().to_string();
        assert!(said.contains(&format!("is called `{typed}`; did you mean {meant}? ")), "{said}");
    }
    let said = builtin("floppy").unwrap_err().to_string();
    assert!(!said.contains("did you mean"), "{said}");
}

#[test]
fn a_table_and_a_zone_that_is_not_there_are_named_as_such() {
    let base = builtin("deskstar-7k250").unwrap().spec();
    let said = |key: &str| base.with_settings([(key, "1")]).unwrap_err().to_string();
    assert_eq!(
        said("cache.read_ahead"),
        "cache.read_ahead: a table, and its keys are set one by one: mode, min, max, idle_only, after_sequential, on_arrival, \
         resume_on_hit"
    );
    assert!(
        said("geometry.zones.77.offset")
            .starts_with("geometry.zones.77.offset: there is no zone 77; the drive has zones 0 to")
    );
    assert!(said("cache.segments.cont").contains("did you mean cache.segments.count? "));
}
