//! The built-in drives: valid, explained, and as fast as their sources say.

use sakiyomi_drive::spec::{BUILTIN, DriveSpec, builtin, explain};

#[test]
fn every_builtin_drive_is_possible_and_survives_its_own_toml() {
    for drive in BUILTIN {
        let spec = drive.spec();
        let again = DriveSpec::from_toml(&spec.to_toml(), drive.id).expect("what is written reads back");
        assert_eq!(spec, again, "{}", drive.id);
    }
}

#[test]
fn every_figure_of_a_builtin_drive_names_its_source() {
    for drive in BUILTIN {
        for key in ["rpm", "head_switch", "depth", "link_rate", "heads", "sectors ="] {
            let line = drive.toml.lines().find(|line| line.starts_with(key)).unwrap_or_default();
            assert!(line.contains('#'), "{}: `{key}` has no source: {line}", drive.id);
        }
    }
}

#[test]
fn every_key_of_a_drive_is_explained() {
    for drive in BUILTIN {
        for (key, _) in drive.spec().entries() {
            assert!(
                explain().iter().any(|entry| entry.matches(&key)),
                "{}: {key} is not explained",
                drive.id
            );
        }
    }
}

#[test]
fn setting_a_key_changes_it_and_unknown_ones_are_refused_with_a_hint() {
    let mut spec = BUILTIN[0].spec();
    spec.set("cache.read_ahead.max", "1MiB").unwrap();
    spec.set("interface.overhead.read_hit.after_write", "10us").unwrap();
    spec.set("geometry.zones.3.offset", "7").unwrap();
    spec.set("servo.write_settle", "-0.2ms").unwrap();
    spec.check().unwrap();
    let entries = spec.entries();
    let value = |key: &str| entries.iter().find(|entry| entry.0 == key).map(|entry| entry.1.as_str());
    assert_eq!(value("cache.read_ahead.max"), Some("1MiB"));
    assert_eq!(value("interface.overhead.read_hit.after_read"), Some("60us"));
    assert_eq!(value("interface.overhead.read_hit.after_write"), Some("10us"));
    assert_eq!(value("servo.write_settle"), Some("-200us"));
    let error = spec.set("cache.readahead.max", "1MiB").unwrap_err().to_string();
    assert_eq!(
        error,
        "no setting is called `cache.readahead.max`; did you mean cache.read_ahead.max? \
         `sakiyomi drive show NAME --explain` lists them all"
    );
    let error = spec.set("queue.depth", "many").unwrap_err().to_string();
    assert_eq!(error, "queue.depth=many: expected a whole number, 1 to 256");
}

#[test]
fn a_key_of_an_absent_table_can_be_set_alone_and_the_others_stay_as_they_held() {
    let mut spec = builtin("spinpoint-hd160jj").unwrap().spec();
    spec.servo.seek_write = None;
    spec.set("interface.overhead.write_miss.after_write", "70us").unwrap();
    spec.set("interface.overhead.write_data.after_read", "10us").unwrap();
    spec.set("servo.seek_write.average", "10ms").unwrap();
    spec.check().unwrap();
    let entries = spec.entries();
    let value = |key: &str| entries.iter().find(|entry| entry.0 == key).map(|entry| entry.1.as_str());
    assert_eq!(value("interface.overhead.write_data.after_read"), Some("10us"));
    assert_eq!(value("interface.overhead.write_data.after_write"), Some("70us"));
    assert_eq!(value("servo.seek_write.average"), Some("10ms"));
    assert_eq!(value("servo.seek_write.full_stroke"), value("servo.seek.full_stroke"));
}

#[test]
fn impossible_drives_are_refused_with_key_and_reason() {
    let cases = [
        ("servo.rpm", "0", "servo.rpm: 0 revolutions per minute; expected 100 to 100000"),
        ("queue.depth", "0", "queue.depth: 0 commands; expected 1 to 256"),
        ("geometry.sector", "300", "geometry.sector: 300 bytes; expected 256, 512, 1024, 2048 or 4096"),
        ("geometry.zones.1.first_cylinder", "5", "first_cylinder = 5 lies inside the zone before"),
        ("geometry.zones.0.slips", "[5, 5]", "slips are not in ascending order, or one is listed twice"),
        ("geometry.zones.0.remaps", "[[5, 6]]", "a remap must lead to a spare sector"),
        ("cache.write.limit", "1GiB", "cache.write.limit: 1GiB does not fit cache.size"),
        ("cache.write.low_watermark", "0.9", "expected a share from 0 to cache.write.high_watermark"),
        ("cache.read_ahead.min", "1GiB", "is more than cache.read_ahead.max"),
        ("interface.overhead.read_hit", "1h", "is longer than a second; check the unit"),
    ];
    for (key, value, expected) in cases {
        let mut spec = BUILTIN[0].spec();
        spec.set(key, value).unwrap();
        let error = spec.check().unwrap_err().to_string();
        assert!(error.contains(expected), "{key}={value}: {error}");
    }
}

#[test]
fn each_remap_needs_a_spare_of_its_own() {
    let mut spec = BUILTIN[0].spec();
    let zone = &spec.geometry.zones[0];
    let last =
        u64::from(zone.cylinders) * u64::from(spec.geometry.heads) * u64::from(zone.sectors_per_track) - 1;
    spec.geometry.sectors = None;
    spec.set("geometry.zones.0.spares", "2").unwrap();
    spec.set("geometry.zones.0.remaps", &format!("[[5, {last}], [7, {}]]", last - 1)).unwrap();
    spec.check().unwrap();
    spec.set("geometry.zones.0.remaps", &format!("[[5, {last}], [7, {last}]]")).unwrap();
    let error = spec.check().unwrap_err().to_string();
    assert!(error.contains(&format!("two remaps lead to sector {last}")), "{error}");
}
