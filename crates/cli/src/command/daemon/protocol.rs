//! Messages between the daemon and its workers: one JSON object per line, over the worker's standard input and output.

use std::io::{self, BufRead, Read, Write};
use std::time::Duration;

use sakiyomi_report::result::DaemonProcess;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Time between two reports of a worker that is well.
pub(super) const REPORT_PERIOD: Duration = Duration::from_secs(5);

/// Messages to a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Order {
    /// Follow a process.
    Follow {
        process: u32,
        name: String,
        /// Whether its command has just started: it is followed with its descendants, its start is learned, and what was
        /// learned is prefetched.
        is_young: bool,
    },
    /// The worker's part of the memory budget, in bytes.
    Memory(u64),
}

/// Messages from a worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Report {
    /// Following a process has ended.
    Ended(DaemonProcess),
    /// The files of a process may not be inspected.
    Refused(u32),
    /// CPU time of the worker so far, in nanoseconds; at least once in [`REPORT_PERIOD`].
    Cpu(u64),
}

/// Writes a message.
pub(super) fn send(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}

/// Longest message, in bytes: the other side may belong to another user.
const MESSAGE_MAX_BYTES: u64 = 64 << 10;

/// Reads the next message; `None` at the end, or if a message is too long. Unknown messages, as of another version, are
/// skipped.
pub(super) fn receive<M: DeserializeOwned>(from: &mut impl BufRead) -> Option<M> {
    let mut line = Vec::new();
    loop {
        line.clear();
        from.take(MESSAGE_MAX_BYTES).read_until(b'\n', &mut line).ok()?;
        if line.last() != Some(&b'\n') {
            return None;
        }
        if let Ok(message) = serde_json::from_slice(&line) {
            return Some(message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_in_order_and_unknown_ones_are_skipped() {
        let orders =
            [Order::Memory(5), Order::Follow { process: 7, name: "a\nb".to_owned(), is_young: true }];
        let mut line = b"{\"later\":1}\n".to_vec();
        orders.iter().for_each(|order| send(&mut line, order).unwrap());
        let mut from = line.as_slice();
        let received: Vec<Order> = std::iter::from_fn(|| receive(&mut from)).collect();
        assert_eq!(received, orders);
    }

    #[test]
    fn a_message_without_an_end_is_not_collected() {
        let endless = vec![b'x'; 1 << 20];
        let mut from = endless.as_slice();
        assert_eq!(receive::<Order>(&mut from), None);
        assert!(from.len() as u64 >= (1 << 20) - MESSAGE_MAX_BYTES);
    }
}
