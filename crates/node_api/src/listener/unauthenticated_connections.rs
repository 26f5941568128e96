//! Limits the connections on which no request has been authenticated yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

/// One more connection closes the oldest. Regular clients authenticate within milliseconds, so a flood of
/// unauthenticated connections does not lock them out.
const MAX_UNAUTHENTICATED: usize = 128;

#[derive(Clone, Default)]
pub(super) struct UnauthenticatedConnections(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    next_id: u64,
    /// Oldest first.
    open: BTreeMap<u64, CancellationToken>,
}

impl UnauthenticatedConnections {
    pub(super) fn add(&self) -> UnauthenticatedConnection {
        let mut state = self.0.lock();
        while state.open.len() >= MAX_UNAUTHENTICATED {
            if let Some((_, oldest)) = state.open.pop_first() {
                oldest.cancel();
            }
        }
        let (id, closed) = (state.next_id, CancellationToken::new());
        state.next_id += 1;
        state.open.insert(id, closed.clone());
        UnauthenticatedConnection { id, closed, all: self.clone() }
    }
}

/// Dropped when the connection ends or a request is authenticated.
pub(crate) struct UnauthenticatedConnection {
    id: u64,
    closed: CancellationToken,
    all: UnauthenticatedConnections,
}

impl UnauthenticatedConnection {
    /// Cancelled when newer connections displace this one.
    pub(super) fn closed(&self) -> CancellationToken {
        self.closed.clone()
    }
}

impl Drop for UnauthenticatedConnection {
    fn drop(&mut self) {
        self.all.0.lock().open.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closes_oldest_unauthenticated_connection_at_limit() {
        let connections = UnauthenticatedConnections::default();
        let mut all: Vec<UnauthenticatedConnection> =
            (0..MAX_UNAUTHENTICATED).map(|_| connections.add()).collect();
        assert!(all.iter().all(|connection| !connection.closed.is_cancelled()));
        // An authenticated connection no longer counts.
        drop(all.remove(0));
        let (first, second) = (connections.add(), connections.add());
        assert!(all[0].closed.is_cancelled() && !all[1].closed.is_cancelled());
        assert!(!first.closed.is_cancelled() && !second.closed.is_cancelled());
        drop((all, first, second));
        assert!(connections.0.lock().open.is_empty());
    }
}
