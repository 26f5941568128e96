//! The signals that stop the agent.

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};

/// Signals, and contention for the lock file.
pub(crate) struct Stop {
    terminate: tokio::signal::unix::Signal,
    interrupt: tokio::signal::unix::Signal,
    pub(super) contention: Option<futures::future::BoxFuture<'static, ()>>,
}

pub(crate) fn stop_signals() -> anyhow::Result<Stop> {
    Ok(Stop {
        terminate: signal(SignalKind::terminate()).context("listen for SIGTERM")?,
        interrupt: signal(SignalKind::interrupt()).context("listen for SIGINT")?,
        contention: None,
    })
}

impl Stop {
    pub(crate) async fn next(&mut self) -> &'static str {
        let contention = async {
            match &mut self.contention {
                Some(contention) => contention.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            () = contention => "contention for --lock-file",
        }
    }
}
