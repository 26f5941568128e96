use std::future::Future;

use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The open connections, which live longer than the requests that opened them.
#[derive(Clone, Debug, Default)]
pub struct Sessions {
    tasks: TaskTracker,
    end: CancellationToken,
}

impl Sessions {
    /// Keeps the connections until cancelled; then ends and joins them all.
    pub async fn run(self, cancel: CancellationToken) {
        cancel.cancelled().await;
        self.end.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.tasks.len()
    }

    pub(super) fn start(&self, session: impl Future<Output = ()> + Send + 'static) {
        let end = self.end.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                () = end.cancelled() => {}
                () = session => {}
            }
        });
    }
}
