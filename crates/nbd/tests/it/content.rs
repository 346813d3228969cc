//! The content that is read is that which was written, whatever the device, the connections and the order.

use std::fs;
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use sakiyomi_drive::spec::builtin;
use sakiyomi_nbd::{ExportOptions, Options};
use sakiyomi_realtime::{EmulatedStorage, Regulate};
use sakiyomi_testing::{Scratch, ScratchFile, skipped};

use crate::client::{CACHE, Client, DISC, FLUSH, FUA, READ, Served, TRIM, WRITE, ZEROES, served};

const SIZE: u64 = 300_032;

/// A kind of server.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Direct,
    Buffered,
    Regulated,
    Drive,
    Fixed,
}

const KINDS: [Kind; 5] = [Kind::Direct, Kind::Buffered, Kind::Regulated, Kind::Drive, Kind::Fixed];

fn of_kind(kind: Kind, options: &mut Options) {
    match kind {
        Kind::Direct => {}
        Kind::Buffered => options.buffered = true,
        Kind::Regulated => options.regulate = Some(Regulate::default()),
        Kind::Drive => {
            let spec = Box::new(builtin("deskstar-7k250").unwrap().spec());
            options.storage = Some(EmulatedStorage::Drive(spec));
            options.speed = 1000.0;
        }
        Kind::Fixed => {
            options.storage = Some(EmulatedStorage::Fixed("latency=100us,parallel=4".parse().unwrap()));
            options.regulate = Some(Regulate::default());
        }
    }
}

fn start(kind: Kind) -> Served {
    served("nbd_content", SIZE, |_, options| of_kind(kind, options))
}

/// An operation of one of three connections.
#[derive(Clone, Debug)]
struct Step {
    connection: usize,
    kind: u16,
    flags: u16,
    offset: u64,
    length: u32,
    byte: u8,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let kind = prop::sample::select(vec![READ, READ, READ, WRITE, WRITE, WRITE, ZEROES, TRIM, FLUSH, CACHE]);
    let range = prop_oneof![
        (0..SIZE / 512, 1..64u64).prop_map(|(start, sectors)| (start * 512, sectors * 512)),
        (0..SIZE, 0..70_000u64),
    ];
    let step = (0..3usize, kind, any::<bool>(), range, any::<u8>());
    let step = step.prop_map(|(connection, kind, fua, (offset, length), byte)| {
        let (offset, length) =
            if kind == FLUSH { (0, 0) } else { (offset, length.min(SIZE - offset) as u32) };
        Step { connection, kind, flags: if fua && kind != READ { FUA } else { 0 }, offset, length, byte }
    });
    proptest::collection::vec(step, 1..40)
}

fn hold_what_an_array_does(kind: Kind, structured: bool, steps: &[Step]) {
    let served = start(kind);
    let mut clients = [0; 3].map(|_| Client::connect(&served.socket(), "", structured).unwrap());
    assert_eq!(clients[0].size, SIZE);
    let mut expected = vec![0; SIZE as usize];
    for step in steps {
        let Step { connection, kind, flags, offset, length, byte } = *step;
        let client = &mut clients[connection];
        let range = offset as usize..offset as usize + length as usize;
        let data = if kind == WRITE { vec![byte; length as usize] } else { Vec::new() };
        let reply = client.ask(kind, flags, offset, length, &data).unwrap();
        match kind {
            READ => assert_eq!(reply, expected[range], "{step:?}"),
            WRITE => expected[range].copy_from_slice(&data),
            ZEROES => expected[range].fill(0),
            TRIM => {
                let now = client.read(offset, length);
                assert!(now == expected[range.clone()] || now.iter().all(|&byte| byte == 0));
                expected[range].copy_from_slice(&now);
            }
            _ => {}
        }
    }
    if structured {
        let mut at = 0;
        for (length, is_hole) in clients[0].status(0, SIZE as u32) {
            let part = &expected[at..at + length as usize];
            assert!(!is_hole || part.iter().all(|&byte| byte == 0));
            at += length as usize;
        }
        assert_eq!(at as u64, SIZE);
    }
    assert_eq!(clients[1].read(0, SIZE as u32), expected);
    drop(clients);
    let finished = served.server.finish(Duration::from_secs(10)).unwrap();
    assert!(!finished.cut_off && finished.seen.refused == 0);
    assert_eq!(fs::read(served.scratch.path("disk")).unwrap(), expected, "the file has the content");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_disk_holds_what_an_array_does_over_several_connections(
        kind in prop::sample::select(KINDS.to_vec()), structured: bool, steps in steps(),
    ) {
        hold_what_an_array_does(kind, structured, &steps);
    }
}

/// Each connection has blocks of its own, and many requests in flight, whose replies come in any order.
#[test]
fn requests_in_flight_on_many_connections_are_answered_each_with_its_data() {
    for kind in KINDS {
        let served = served("nbd_in_flight", 4 << 20, |_, options| of_kind(kind, options));
        std::thread::scope(|scope| {
            for number in 0..4u64 {
                let mut client = Client::connect(&served.socket(), "", number % 2 == 0).unwrap();
                scope.spawn(move || {
                    let block = |index: u64| (index * 4 + number) * 4096;
                    for round in 1..6u8 {
                        let mut written: Vec<u64> = (0..64)
                            .map(|index| {
                                client.send(WRITE, 0, block(index), 4096, &[round * 16 + index as u8; 4096])
                            })
                            .collect();
                        while !written.is_empty() {
                            let (cookie, result) = client.receive().unwrap();
                            assert_eq!(result, Ok(Vec::new()));
                            written.retain(|&other| other != cookie);
                        }
                        let first = client.send(READ, 0, block(0), 4096, &[]);
                        for index in 1..64 {
                            client.send(READ, 0, block(index), 4096, &[]);
                        }
                        for _ in 0..64 {
                            let (cookie, result) = client.receive().unwrap();
                            let byte = round * 16 + (cookie - first) as u8;
                            assert!(result.unwrap() == vec![byte; 4096], "{kind:?} {round}");
                        }
                    }
                });
            }
        });
        let finished = served.server.finish(Duration::from_secs(10)).unwrap();
        assert_eq!((finished.seen.totals.accesses, finished.seen.connections), (4 * 5 * 128, 4), "{kind:?}");
        assert_eq!(finished.seen.totals.in_flight, 0);
    }
}

/// Replies to reads of such a file are sent from its pages.
#[test]
fn a_file_in_memory_holds_what_an_array_does_while_it_is_read_by_many() {
    let memory = Path::new("/dev/shm");
    if !sakiyomi_io::file::is_tmpfs(memory) {
        return skipped("a_file_in_memory_holds_what_an_array_does", "/dev/shm is no tmpfs");
    }
    let data: Vec<u8> = (0..4u32 << 20).map(|index| (index / 512) as u8 ^ (index >> 13) as u8).collect();
    let file = ScratchFile::inside(memory, "nbd", &data);
    let served = served("nbd_memory", 0, |_, options| options.content = Some(file.path().to_owned()));
    std::thread::scope(|scope| {
        for number in 0..3u64 {
            let (socket, data) = (served.socket(), &data);
            scope.spawn(move || {
                let mut client = Client::connect(&socket, "", number % 2 == 0).unwrap();
                for round in 0..40 {
                    let ranges = (0..8).map(|index| ((round * 8 + index) * 99_991 + number) % (3 << 20));
                    let ranges: Vec<(u64, u32)> =
                        ranges.zip((0..8).map(|index| 1000 + index * 40_000)).collect();
                    let first = client.cookie() + 1;
                    for &(offset, length) in &ranges {
                        client.send(READ, 0, offset, length, &[]);
                    }
                    for _ in &ranges {
                        let (cookie, result) = client.receive().unwrap();
                        let (offset, length) = ranges[(cookie - first) as usize];
                        assert!(result.unwrap() == data[offset as usize..][..length as usize]);
                    }
                }
            });
        }
    });
    let mut client = served.client();
    client.write(100, &[5; 200_000]);
    assert_eq!(client.read(99, 200_002)[..2], [data[99], 5]);
    // A client that leaves in the middle of a reply.
    client.send(READ, 0, 0, 4 << 20, &[]);
    drop(client);
    assert_eq!(served.client().read(100, 1), [5]);
}

#[test]
fn the_largest_request_is_served_and_a_larger_one_refused() {
    let served = served("nbd_largest", 64 << 20, |_, _| {});
    let mut client = served.client();
    let data: Vec<u8> = (0..32 << 20).map(|index: u32| (index / 4096) as u8).collect();
    client.write(5, &data);
    assert!(client.read(5, 32 << 20) == data);
    assert_eq!(client.ask(READ, 0, 0, (32 << 20) + 1, &[]), Err(22));
    assert_eq!(client.ask(WRITE, 0, 0, (32 << 20) + 1, &vec![0; (32 << 20) + 1]), Err(22));
    // Ranges without data may be larger.
    assert_eq!(client.ask(ZEROES, 0, 0, 64 << 20, &[]), Ok(Vec::new()));
    assert!(client.read(0, 32 << 20).iter().all(|&byte| byte == 0));
}

#[test]
fn a_disconnecting_client_gets_its_replies_first() {
    let served = served("nbd_disconnect", 1 << 20, |_, options| {
        options.storage = Some(EmulatedStorage::Fixed("latency=30ms".parse().unwrap()));
    });
    let mut client = served.client();
    let read = client.send(READ, 0, 0, 512, &[]);
    client.send(DISC, 0, 0, 0, &[]);
    assert_eq!(client.receive().unwrap(), (read, Ok(vec![0; 512])));
    assert!(client.receive().is_err(), "then it ends");
}

#[test]
fn a_read_only_disk_cannot_be_written_and_says_so() {
    let served = served("nbd_read_only", 1 << 20, |_, options| options.read_only = true);
    let mut client = served.client();
    assert!(client.flags & 2 != 0 && client.flags & 1 << 8 != 0);
    assert_eq!(client.ask(WRITE, 0, 0, 4, b"data"), Err(1));
    assert_eq!(client.ask(TRIM, 0, 0, 4, &[]), Err(1));
    assert_eq!(client.ask(FLUSH, 0, 0, 0, &[]), Ok(Vec::new()));
    assert_eq!(client.read(0, 4), [0; 4]);
}

#[test]
fn an_emulated_drive_has_its_size_and_leaves_nothing_unless_it_has_a_file() {
    let spec = builtin("deskstar-7k250").unwrap().spec();
    let storage = EmulatedStorage::Drive(Box::new(spec));
    let capacity = 250_059_350_016;
    let drive = |named: Option<&'static str>| {
        let storage = storage.clone();
        served("nbd_drive", 0, move |scratch: &Scratch, options: &mut Options| {
            options.storage = Some(storage);
            options.speed = 1e5;
            options.content = named.map(|name| scratch.path(name));
        })
    };
    let unnamed = drive(None);
    let mut client = unnamed.client();
    assert_eq!(client.size, capacity);
    client.write(capacity - 4096, &[7; 4096]);
    assert_eq!(client.read(capacity - 4096, 4096), [7; 4096]);
    assert_eq!(unnamed.scratch.entries(), 1, "the socket");
    unnamed.server.finish(Duration::from_secs(5)).unwrap();
    assert_eq!(unnamed.scratch.entries(), 0);

    let named = drive(Some("image"));
    named.client().write(0, &[1; 512]);
    named.server.finish(Duration::from_secs(5)).unwrap();
    assert_eq!(fs::metadata(named.scratch.path("image")).unwrap().len(), capacity);
}

#[test]
fn what_cannot_be_served_is_an_error_and_leaves_no_socket() {
    let scratch = Scratch::new("nbd_refused");
    let start = |change: &dyn Fn(&mut Options)| {
        let mut options = Options::new(sakiyomi_nbd::Address::Unix(scratch.path("socket")));
        options.temporary = scratch.root().to_owned();
        change(&mut options);
        let error = sakiyomi_nbd::serve(&options).unwrap_err().to_string();
        assert!(!scratch.path("socket").exists());
        error
    };
    assert!(start(&|_| {}).contains("nothing to serve"));
    assert!(start(&|options| options.content = Some("/absent".into())).contains("cannot open /absent"));
    let large = scratch.file("large", "x");
    fs::OpenOptions::new().write(true).open(&large).unwrap().set_len(1 << 40).unwrap();
    let too_large = |options: &mut Options| {
        options.content = Some(large.clone());
        options.storage = Some(EmulatedStorage::Fixed("size=1GB".parse().unwrap()));
    };
    assert!(start(&too_large).contains("take a larger drive"));
    let twice = |options: &mut Options| {
        options.content = Some(large.clone());
        options.exports = vec![ExportOptions::default(); 2];
    };
    assert!(start(&twice).contains("named twice"));
    let traced = |options: &mut Options| {
        options.content = Some(large.clone());
        options.record = Some("/absent/trace.csv".into());
    };
    assert!(start(&traced).contains("/absent"));
}
