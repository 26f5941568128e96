//! The open streaming connections.

use std::future::Future;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The connections stay open after the requests that opened them have ended.
#[derive(Clone, Debug, Default)]
pub struct StreamSessions {
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl StreamSessions {
    /// Waits for the cancellation, then stops and joins all connections.
    pub async fn run(self, cancel: CancellationToken) {
        cancel.cancelled().await;
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    #[must_use]
    pub fn count(&self) -> usize {
        self.tasks.len()
    }

    pub(super) fn start(&self, session: impl Future<Output = ()> + Send + 'static) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = session => {}
            }
        });
    }
}
