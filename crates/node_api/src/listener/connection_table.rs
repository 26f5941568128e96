//! The open connections of a listener, and which of them is closed when there are too many.
//!
//! A connection is recognised when its first request is authenticated, or complete on a port without authentication. At a
//! limit the oldest unrecognised or the longest idle connection is closed, so that neither silent nor idle connections shut
//! out others.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

#[derive(Clone, Copy, Debug)]
pub(super) struct ConnectionLimits {
    /// Includes upgraded connections.
    pub(super) total: usize,
    /// Regular clients are recognised within milliseconds, so they need few.
    pub(super) unrecognised: usize,
    /// For clients on this machine above `total`, so that local health checks always have room.
    pub(super) local_reserve: usize,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self { total: 2048, unrecognised: 128, local_reserve: 64 }
    }
}

#[derive(Clone, Default)]
pub(super) struct ConnectionTable {
    limits: ConnectionLimits,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    next_id: u64,
    open: HashMap<u64, Entry>,
    /// Oldest first.
    unrecognised: BTreeSet<u64>,
    /// Connections by the number that they got when they became idle: longest idle first.
    idle: BTreeMap<u64, u64>,
    next_idle: u64,
}

struct Entry {
    closed: CancellationToken,
    is_recognised: bool,
    /// An upgraded connection has no further requests, and is not idle.
    is_upgraded: bool,
    requests: usize,
    /// When the last request ended.
    idle_since: Instant,
    idle: Option<u64>,
}

impl ConnectionTable {
    #[cfg(test)]
    pub(super) fn new(limits: ConnectionLimits) -> Self {
        Self { limits, state: Arc::default() }
    }

    /// Adds a connection. At a limit it closes another one; `None` if all others are in use.
    pub(super) fn add(&self, address: SocketAddr) -> Option<Arc<OpenConnection>> {
        let mut state = self.state.lock();
        while state.unrecognised.len() >= self.limits.unrecognised.max(1) {
            state.close_oldest_unrecognised();
        }
        let reserve = if address.ip().to_canonical().is_loopback() { self.limits.local_reserve } else { 0 };
        while state.open.len() >= self.limits.total + reserve {
            if !state.close_longest_idle() && !state.close_oldest_unrecognised() {
                return None;
            }
        }
        let (id, closed) = (state.next_id, CancellationToken::new());
        state.next_id += 1;
        state.unrecognised.insert(id);
        let entry = Entry {
            closed: closed.clone(),
            is_recognised: false,
            is_upgraded: false,
            requests: 0,
            idle_since: Instant::now(),
            idle: None,
        };
        state.open.insert(id, entry);
        Some(Arc::new(OpenConnection { id, closed, table: self.clone() }))
    }
}

impl State {
    fn close_oldest_unrecognised(&mut self) -> bool {
        let Some(id) = self.unrecognised.first().copied() else { return false };
        self.close(id);
        true
    }

    fn close_longest_idle(&mut self) -> bool {
        let Some(id) = self.idle.first_key_value().map(|(_, id)| *id) else { return false };
        self.close(id);
        true
    }

    fn close(&mut self, id: u64) {
        if let Some(entry) = self.remove(id) {
            entry.closed.cancel();
        }
    }

    fn remove(&mut self, id: u64) -> Option<Entry> {
        let entry = self.open.remove(&id)?;
        self.unrecognised.remove(&id);
        if let Some(idle) = entry.idle {
            self.idle.remove(&idle);
        }
        Some(entry)
    }

    /// Changes a connection, unless it is closed already, and updates the orders in which connections are closed.
    fn update(&mut self, id: u64, change: impl FnOnce(&mut Entry)) {
        let Some(entry) = self.open.get_mut(&id) else { return };
        change(entry);
        if entry.is_recognised {
            self.unrecognised.remove(&id);
        }
        let is_idle = entry.is_recognised && !entry.is_upgraded && entry.requests == 0;
        match entry.idle {
            None if is_idle => {
                entry.idle = Some(self.next_idle);
                self.idle.insert(self.next_idle, id);
                self.next_idle += 1;
            }
            Some(order) if !is_idle => {
                entry.idle = None;
                self.idle.remove(&order);
            }
            None | Some(_) => {}
        }
    }
}

/// An open connection; leaves the table when the last reference is dropped.
pub(crate) struct OpenConnection {
    id: u64,
    closed: CancellationToken,
    table: ConnectionTable,
}

impl OpenConnection {
    /// Returns when the connection must be closed in favour of newer ones.
    pub(super) async fn displaced(&self) {
        self.closed.cancelled().await;
    }

    pub(crate) fn recognise(&self) {
        self.table.state.lock().update(self.id, |entry| entry.is_recognised = true);
    }

    pub(crate) fn is_recognised(&self) -> bool {
        self.table.state.lock().open.get(&self.id).is_some_and(|entry| entry.is_recognised)
    }

    pub(super) fn upgraded(&self) {
        self.table.state.lock().update(self.id, |entry| entry.is_upgraded = true);
    }

    /// Starts a request, which ends when the result is dropped.
    pub(super) fn start_request(self: &Arc<Self>) -> ActiveRequest {
        self.table.state.lock().update(self.id, |entry| entry.requests += 1);
        ActiveRequest(Arc::clone(self))
    }

    /// How long there has been no request.
    pub(super) fn idle_time(&self) -> Duration {
        match self.table.state.lock().open.get(&self.id) {
            Some(entry) if entry.requests == 0 => entry.idle_since.elapsed(),
            Some(_) | None => Duration::ZERO,
        }
    }

    pub(super) fn is_busy(&self) -> bool {
        self.table.state.lock().open.get(&self.id).is_some_and(|entry| entry.requests > 0)
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.table.state.lock().remove(self.id);
    }
}

pub(super) struct ActiveRequest(Arc<OpenConnection>);

impl Drop for ActiveRequest {
    fn drop(&mut self) {
        self.0.table.state.lock().update(self.0.id, |entry| {
            entry.requests = entry.requests.saturating_sub(1);
            entry.idle_since = Instant::now();
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: ConnectionLimits = ConnectionLimits { total: 4, unrecognised: 2, local_reserve: 1 };

    fn remote() -> SocketAddr {
        "192.0.2.7:1000".parse().unwrap()
    }

    fn recognised(table: &ConnectionTable) -> Arc<OpenConnection> {
        let connection = table.add(remote()).unwrap();
        connection.recognise();
        connection
    }

    fn is_closed(connection: &OpenConnection) -> bool {
        connection.closed.is_cancelled()
    }

    #[tokio::test]
    async fn closes_oldest_unrecognised_connection_at_its_limit() {
        let table = ConnectionTable::new(LIMITS);
        let silent: Vec<_> = (0..3).map(|_| table.add(remote()).unwrap()).collect();
        assert_eq!(silent.iter().map(|one| is_closed(one)).collect::<Vec<_>>(), [true, false, false]);
        // A recognised connection does not count.
        silent[1].recognise();
        let _next = table.add(remote()).unwrap();
        assert!(!is_closed(&silent[1]) && !is_closed(&silent[2]));
    }

    #[tokio::test]
    async fn closes_longest_idle_connection_when_all_are_taken() {
        let table = ConnectionTable::new(LIMITS);
        let all: Vec<_> = (0..4).map(|_| recognised(&table)).collect();
        // The first one was used last, the second one is in use, the third one was upgraded.
        drop(all[0].start_request());
        let _request = all[1].start_request();
        all[2].upgraded();
        let _fifth = recognised(&table);
        assert_eq!(all.iter().map(|one| is_closed(one)).collect::<Vec<_>>(), [false, false, false, true]);
        let _sixth = recognised(&table);
        assert!(is_closed(&all[0]));
        assert!(!is_closed(&all[1]) && !is_closed(&all[2]), "connections in use are closed");
    }

    #[tokio::test]
    async fn local_clients_have_room_when_all_connections_are_in_use() {
        let table = ConnectionTable::new(LIMITS);
        let all: Vec<_> = (0..4).map(|_| recognised(&table)).collect();
        let _requests: Vec<_> = all.iter().map(OpenConnection::start_request).collect();
        assert!(table.add(remote()).is_none());
        for address in ["127.0.0.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            assert!(table.add(address.parse().unwrap()).is_some(), "{address}");
        }
    }

    #[tokio::test]
    async fn closed_connections_take_no_memory() {
        let table = ConnectionTable::new(LIMITS);
        drop((0..9).map(|_| recognised(&table)).collect::<Vec<_>>());
        let state = table.state.lock();
        assert!(state.open.is_empty() && state.unrecognised.is_empty() && state.idle.is_empty());
    }
}
