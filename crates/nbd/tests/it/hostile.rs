//! Clients that are wrong, slow or gone harm nobody else.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use sakiyomi_realtime::EmulatedStorage;
use sakiyomi_testing::wait_until;

use crate::client::{Client, READ, Served, WRITE, go, option, option_reply, served};

fn start() -> Served {
    served("nbd_hostile", 1 << 20, |_, _| {})
}

/// Sends bytes, and waits for the server to end the connection or for all replies.
fn send(mut socket: UnixStream, bytes: &[u8]) {
    // The server may end the connection before it has received all.
    let _ = socket.write_all(bytes);
    let _ = socket.shutdown(std::net::Shutdown::Write);
    let _ = socket.read_to_end(&mut Vec::new());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_bytes_of_a_client_leave_the_server_for_others(
        noise in proptest::collection::vec(any::<u8>(), 0..3000),
        requests in proptest::collection::vec((any::<u16>(), 0u16..9, any::<u64>(), any::<u32>()), 0..40),
        cut in 0usize..1200,
    ) {
        let served = start();
        send(Client::raw(&served.socket()).unwrap(), &noise);
        let options = [option(99, &noise), option(8, &[]), option(7, &go(""))].concat();
        send(Client::raw(&served.socket()).unwrap(), &options[..cut.min(options.len())]);
        let client = served.client();
        let mut bytes = Vec::new();
        for (flags, kind, offset, length) in requests {
            let offset = offset >> (offset % 64);
            bytes.extend(0x2560_9513u32.to_be_bytes());
            bytes.extend((flags >> (flags % 16)).to_be_bytes());
            bytes.extend(kind.to_be_bytes());
            bytes.extend(7u64.to_be_bytes());
            bytes.extend(offset.to_be_bytes());
            bytes.extend((length >> (length % 32)).to_be_bytes());
            if kind == WRITE {
                bytes.extend(&noise);
            }
        }
        bytes.truncate(bytes.len().max(cut) - cut);
        send(client.socket, &bytes);
        let mut good = served.client();
        good.write(0, b"good");
        prop_assert_eq!(good.read(0, 4), b"good");
    }
}

#[test]
fn a_request_that_is_no_request_ends_its_connection_only() {
    let served = start();
    let mut bad = served.client();
    bad.socket.write_all(&[0; 28]).unwrap();
    assert_eq!(bad.socket.read(&mut [0; 1]).unwrap(), 0);
    assert_eq!(served.client().read(0, 1), [0]);
}

/// It has sent requests for gigabytes and reads nothing: its requests wait, not those of others, and memory is bounded.
#[test]
fn a_client_that_does_not_read_harms_no_other() {
    for latency in [None, Some("latency=100us,parallel=64")] {
        let served = served("nbd_slow", 64 << 20, |_, options| {
            options.storage = latency.map(|text| EmulatedStorage::Fixed(text.parse().unwrap()));
        });
        let mut slow = served.client();
        slow.socket.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
        let header = |cookie: u64| {
            let mut bytes = 0x2560_9513u32.to_be_bytes().to_vec();
            bytes.extend([0; 4]);
            bytes.extend(cookie.to_be_bytes());
            bytes.extend([0; 8]);
            bytes.extend((1u32 << 20).to_be_bytes());
            bytes
        };
        // Until the server does not receive any more.
        let sent = (0..100_000).take_while(|&cookie| slow.socket.write_all(&header(cookie)).is_ok()).count();
        assert!(sent > 30 && sent < 100_000, "{sent}");
        let mut good = served.client();
        let begun = Instant::now();
        for index in 0..200 {
            assert_eq!(good.read(index * 4096, 4096), [0; 4096]);
        }
        assert!(begun.elapsed() < Duration::from_secs(20));
        assert!(served.server.seen().totals.in_flight <= 64);
        // It can still be stopped.
        served.server.finish(Duration::from_millis(300)).unwrap();
    }
}

#[test]
fn a_client_that_vanishes_in_the_middle_leaves_nothing_behind() {
    for latency in [None, Some("latency=20ms")] {
        let served = served("nbd_vanished", 1 << 20, |_, options| {
            options.storage = latency.map(|text| EmulatedStorage::Fixed(text.parse().unwrap()));
        });
        for round in 0..70 {
            let mut connected = None;
            // More than are allowed at a time: those before must have left.
            wait_until("connections are left", || {
                connected = Client::connect(&served.socket(), "", true).ok();
                connected.is_some()
            });
            let mut client = connected.unwrap();
            for _ in 0..3 {
                client.send(READ, 0, 0, 4096, &[]);
            }
            client.send(WRITE, 0, 0, 1000, &[round; 500]);
            drop(client);
        }
        wait_until("requests are left", || served.server.seen().totals.in_flight == 0);
    }
}

#[test]
fn more_connections_than_allowed_are_closed_and_the_others_go_on() {
    let served = start();
    let mut clients: Vec<Client> = (0..64).map(|_| served.client()).collect();
    assert!(Client::connect(&served.socket(), "", false).is_err());
    assert!(clients.iter_mut().all(|client| client.read(0, 1) == [0]));
    drop(clients);
    wait_until("there is room again", || Client::connect(&served.socket(), "", false).is_ok());
}

#[test]
fn an_unknown_export_is_refused_and_another_can_be_chosen() {
    let served = start();
    let mut socket = Client::raw(&served.socket()).unwrap();
    socket.write_all(&option(7, &go("absent"))).unwrap();
    let (kind, why) = option_reply(&mut socket).unwrap();
    assert_eq!((kind, &why[..]), (1 << 31 | 6, &b"no export has this name"[..]));
    socket.write_all(&option(7, &go(""))).unwrap();
    assert_eq!(option_reply(&mut socket).unwrap().0, 3);
}
