//! The state of a server that its connections share.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

use sakiyomi_io::Volume;
use sakiyomi_io::buffer::{Account, BufferPool, class_size};
use sakiyomi_model::{Nanos, StreamId};
use sakiyomi_realtime::{Dispatcher, Issuer, Past, Rates, Totals};
use sakiyomi_regulate::{Rate, RateError};

use crate::address::{Listener, Stream};
use crate::protocol::{Export, PAYLOAD_MAX_BYTES};

/// Numbers of connections begin after those of the exports, so that both can own rates.
const EXPORT_OWNERS_MAX: u32 = 1 << 16;

/// Statistics of a server.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The drive's time since the start.
    pub at: Nanos,
    /// Busy time of the device; `None` without a drive and rates.
    pub busy: Option<Nanos>,
    /// Counts and times of requests.
    pub totals: Totals,
    /// Owners with a rate at present, and statistics of all; `None` without rates.
    pub rates: Option<(usize, Past)>,
    /// Connections that have begun.
    pub connections: u64,
    /// Requests that were refused as invalid, unsupported, or because the server was being stopped.
    pub refused: u64,
}

/// State that all connections share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) volume: Arc<Volume>,
    /// Whether a flush must reach the medium: not if nothing is left of the content.
    pub(crate) is_kept: bool,
    pub(crate) dispatcher: Dispatcher,
    pub(crate) exports: Vec<Export>,
    pub(crate) export_rates: Vec<bool>,
    pub(crate) connection_rate: Option<Rate>,
    pub(crate) best_effort: bool,
    pub(crate) pool: BufferPool,
    pub(crate) listener: Listener,
    pub(crate) stopping: AtomicBool,
    pub(crate) refused: AtomicU64,
    pub(crate) connections: Mutex<Connections>,
    pub(crate) changed: Condvar,
}

#[derive(Debug, Default)]
pub(crate) struct Connections {
    pub(crate) begun: u32,
    pub(crate) sockets: BTreeMap<u32, Arc<Stream>>,
}

/// Returns the data that a connection may hold: one largest request at any offset, or many smaller ones.
pub(crate) fn account_bytes() -> usize {
    class_size(PAYLOAD_MAX_BYTES as usize + 2 * 4096)
}

pub(crate) fn export_owner(index: usize) -> u32 {
    // More exports than owners would share the last one.
    1 + (index as u32).min(EXPORT_OWNERS_MAX - 2)
}

impl Shared {
    pub(crate) fn volume(&self) -> &Arc<Volume> {
        &self.volume
    }

    pub(crate) fn dispatcher(&self) -> &Dispatcher {
        &self.dispatcher
    }

    pub(crate) fn exports(&self) -> &[Export] {
        &self.exports
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    pub(crate) fn count_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn account_bytes(&self) -> usize {
        account_bytes()
    }

    /// Opens the account of a connection's data.
    pub(crate) fn account(&self) -> Result<Account, sakiyomi_io::Error> {
        self.pool.account(account_bytes())
    }

    /// Makes all that was written durable, if the content is kept.
    pub(crate) fn sync(&self) -> io::Result<()> {
        if self.is_kept { self.volume.sync() } else { Ok(()) }
    }

    /// Enters a connection with this number to an export; returns its stream and owner.
    ///
    /// # Errors
    /// The reason for which its rate cannot be kept.
    pub(crate) fn enter(&self, export: usize, number: u32) -> Result<Issuer, String> {
        let process = StreamId(number);
        if self.export_rates.get(export) == Some(&true) {
            return Ok(Issuer { process, owner: StreamId(export_owner(export)) });
        }
        let owner = EXPORT_OWNERS_MAX.saturating_add(number);
        if let Some(rate) = self.connection_rate {
            self.set_rate(owner, rate).map_err(|error| error.to_string())?;
        }
        Ok(Issuer { process, owner: StreamId(owner) })
    }

    /// Removes the owner of a connection, with its rate.
    pub(crate) fn leave(&self, issuer: Issuer) {
        let owner = issuer.owner.0;
        if owner > EXPORT_OWNERS_MAX {
            // A device that has stopped keeps no rates.
            let _ = self.dispatcher.ask(Box::new(move |rates, now| rates.gone(now, owner)));
        }
    }

    pub(crate) fn set_rate(&self, owner: u32, rate: Rate) -> Result<(), RateError> {
        let best_effort = self.best_effort;
        let set = self.ask(move |rates, now| rates.set(now, owner, rate, best_effort));
        // Without a device there is no regulator.
        set.unwrap_or(Err(RateError::Unregulated)).map(drop)
    }

    /// Runs a query on the device's thread; `None` if there is none.
    fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Rates<'_>, Nanos) -> T + Send + 'static,
    ) -> Option<T> {
        let (sender, receiver) = mpsc::sync_channel(1);
        let asked = self.dispatcher.ask(Box::new(move |rates, now| {
            // The receiver exists: the caller waits for it.
            let _ = sender.send(question(rates, now));
        }));
        asked.ok()?;
        receiver.recv().ok()
    }

    pub(crate) fn connections(&self) -> MutexGuard<'_, Connections> {
        // No operation under this lock can panic half-way.
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn snapshot(&self, at: Nanos) -> Snapshot {
        let rates = self.ask(|rates, now| {
            let seen = rates.snapshot(now, u32::MAX, false, 0);
            (seen.device.regulated, seen.past)
        });
        Snapshot {
            at,
            busy: self.dispatcher.busy(),
            totals: self.dispatcher.watch().totals(),
            rates,
            connections: self.connections().begun.into(),
            refused: self.refused.load(Ordering::Relaxed),
        }
    }

    /// Waits until no connection is left, or `patience` has passed; returns whether none is left.
    pub(crate) fn wait_for_connections(&self, patience: Duration) -> bool {
        let waited = self
            .changed
            .wait_timeout_while(self.connections(), patience, |connections| !connections.sockets.is_empty());
        waited.unwrap_or_else(PoisonError::into_inner).0.sockets.is_empty()
    }

    pub(crate) fn end_sockets(&self) {
        self.connections().sockets.values().for_each(|socket| socket.shutdown());
    }
}
