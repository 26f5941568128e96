//! Connections on which nobody was recognised yet.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

/// Strangers at a time. When one more comes the oldest has to go: who means well is recognised within moments, so a
/// flood of those who do not keeps nobody out.
const AT_ONCE: usize = 128;

/// All strangers, oldest first.
#[derive(Clone, Default)]
pub(super) struct Strangers(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    next: u64,
    waiting: BTreeMap<u64, CancellationToken>,
}

impl Strangers {
    /// One more.
    pub(super) fn admit(&self) -> Stranger {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while state.waiting.len() >= AT_ONCE {
            if let Some((_, oldest)) = state.waiting.pop_first() {
                oldest.cancel();
            }
        }
        let (id, sent_away) = (state.next, CancellationToken::new());
        state.next += 1;
        state.waiting.insert(id, sent_away.clone());
        Stranger { id, sent_away, strangers: self.clone() }
    }
}

/// A stranger, until it is dropped.
pub(crate) struct Stranger {
    id: u64,
    sent_away: CancellationToken,
    strangers: Strangers,
}

impl Stranger {
    /// Cancelled when it has to go.
    pub(super) fn sent_away(&self) -> CancellationToken {
        self.sent_away.clone()
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.strangers.0.lock().unwrap_or_else(PoisonError::into_inner).waiting.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_stranger_has_to_go() {
        let strangers = Strangers::default();
        let mut all: Vec<Stranger> = (0..AT_ONCE).map(|_| strangers.admit()).collect();
        assert!(all.iter().all(|stranger| !stranger.sent_away.is_cancelled()));
        // One who was recognised is none any more.
        drop(all.remove(0));
        let (first, second) = (strangers.admit(), strangers.admit());
        assert!(all[0].sent_away.is_cancelled() && !all[1].sent_away.is_cancelled());
        assert!(!first.sent_away.is_cancelled() && !second.sent_away.is_cancelled());
        drop((all, first, second));
        assert!(strangers.0.lock().unwrap().waiting.is_empty());
    }
}
