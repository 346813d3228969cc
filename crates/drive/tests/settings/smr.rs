//! Keys of shingled tracks.

use sakiyomi_drive::Drive;
use sakiyomi_drive::log::{DiskCause, DiskEvent};
use sakiyomi_drive::replay::Arrival;
use sakiyomi_model::{Bytes, Device, Nanos};

use crate::common::{Random, Story, bare, tell, with, write};

pub(crate) const KEYS: &[&str] = &["smr.band", "smr.media_cache", "smr.idle_delay"];

const BAND_SECTORS: u64 = 2000;
const LOG_SECTORS: u64 = 8000;

/// Bands of four tracks of the first zone, and a log of a thousand writes.
const SHINGLED: [(&str, &str); 4] =
    [("smr.band", "1024000"), ("smr.media_cache", "4096000"), ("smr.idle_delay", "0"), ("queue.depth", "1")];

fn shingled(changes: &[(&str, &str)], writes: &[Arrival]) -> Story {
    tell(&with(&[&SHINGLED, changes].concat()), writes)
}

fn cleans(story: &Story) -> Vec<DiskEvent> {
    story.accesses().into_iter().filter(|access| access.cause == DiskCause::Clean).collect()
}

/// Returns random writes of eight sectors over some bands, issued as fast as they complete.
fn writes(count: usize, bands: u64) -> Vec<Arrival> {
    let mut random = Random::new(3);
    (0..count).map(|_| write(random.below(bands * BAND_SECTORS / 8) * 8, 8)).collect()
}

/// The law of SMR: writes are as fast as the log until it is full, and then as slow as rewriting bands.
#[test]
fn media_cache_takes_writes_until_it_is_exhausted_then_their_rate_is_that_of_rewriting_bands() {
    let story = shingled(&[], &writes(1300, 2000));
    let free = LOG_SECTORS as usize / 8;
    let cleans = cleans(&story);
    let full = story.done[free - 1].finish;
    assert!(cleans.iter().all(|clean| clean.start >= full), "the log has room for {free} writes");
    // In the log each write waits for the next revolution.
    let before = full.as_secs_f64() / free as f64;
    assert!((0.009..0.0115).contains(&before), "{before} s a write");
    // Reading and writing a band takes four revolutions each, and the arm moves there and back.
    let rewriting = cleans.iter().map(|clean| clean.end - clean.start).fold(Nanos::ZERO, |a, b| a + b);
    let clean = rewriting.as_secs_f64() / cleans.len() as f64;
    assert!((0.09..0.14).contains(&clean), "{clean} s a band");
    // Half as many writes as bands are in the log: most bands hold one.
    let writes = (1300 - free) as f64;
    let freed = writes / cleans.len() as f64;
    assert!((1.0..2.0).contains(&freed), "{freed} writes in a band");
    let end = story.done.last().expect("writes").finish;
    let after = (end - full).as_secs_f64() / writes;
    let expected = clean / freed + before;
    assert!((0.85..1.3).contains(&(after / expected)), "{after} s a write, expected {expected}");
    assert!(after > 6.0 * before, "{after} s a write after {before}");
}

#[test]
fn band_decides_what_a_rewriting_takes() {
    let time = |band| {
        let story = shingled(&[("smr.band", band)], &writes(1002, 1));
        let clean = cleans(&story)[0];
        assert_eq!(clean.wanted.0 * 512, band.parse::<u64>().unwrap());
        (clean.end - clean.start).as_secs_f64()
    };
    let (short, long) = (time("1024000"), time("4096000"));
    assert!((3.0..4.2).contains(&(long / short)), "{short} s and {long} s");
}

#[test]
fn media_cache_takes_its_addresses() {
    let capacity = |spec| Drive::new(&spec).unwrap().capacity().to_bytes(Bytes(512)).0;
    assert_eq!(capacity(bare()) - capacity(with(&[("smr.media_cache", "4096000")])), 4_096_000);
    let refused = bare().with_settings([("smr.media_cache", "100GB")]).unwrap_err().to_string();
    assert!(refused.contains("smr.media_cache: 97656250KiB; expected whole sectors"), "{refused}");
}

#[test]
fn idle_delay_cleans_bands_before_a_write_needs_it() {
    let mut load = writes(900, 3);
    let pause = Nanos::SECOND * 60;
    load.extend(writes(500, 3).into_iter().map(|write| Arrival { at: pause, ..write }));
    let by_delay = |delay| {
        let story = shingled(&[("smr.idle_delay", delay)], &load);
        let (all, end) = (cleans(&story), story.done.last().expect("writes").finish);
        let idle = all.iter().filter(|clean| clean.end <= pause).count();
        (idle, all.iter().filter(|clean| clean.start > pause && clean.start < end).count())
    };
    let (idle, forced) = by_delay("0");
    assert!(idle == 0 && forced > 0, "only when the log is exhausted");
    assert_eq!(by_delay("2s"), (3, 0), "all bands in the pause, and the log then takes the rest");
}
