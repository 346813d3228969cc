//! Messages between the daemon and its workers: one JSON object per line, over the worker's standard input and output.

use std::io::{self, BufRead, Write};

use sakiyomi_report::result::DaemonProcess;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

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
    /// A process is no longer followed. The worker has used this CPU time so far.
    Ended { process: DaemonProcess, own_cpu_ns: u64 },
    /// A process cannot be followed.
    Refused(u32),
    /// CPU time of the worker so far.
    Cpu(u64),
}

/// Writes a message.
pub(super) fn send(to: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}

/// Reads the next message; `None` at the end. Unknown messages, as of another version, are skipped.
pub(super) fn receive<M: DeserializeOwned>(from: &mut impl BufRead) -> Option<M> {
    let mut line = String::new();
    loop {
        line.clear();
        if from.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Ok(message) = serde_json::from_str(&line) {
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
}
