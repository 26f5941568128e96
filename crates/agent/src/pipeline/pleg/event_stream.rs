use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use model::RuntimeEvent;
use ports::runtime::{Runtime, RuntimeError, RuntimeErrorKind};
use tokio::sync::mpsc;

/// Failures in a row after which retries slow down.
pub(super) const FAST_RETRIES: u32 = 5;
const RETRY_DELAY: Duration = Duration::from_secs(1);
const SLOW_RETRY_DELAY: Duration = Duration::from_secs(30);
/// Delay before a runtime without an event stream is tried again: it may have been upgraded.
const UNSUPPORTED_RETRY_DELAY: Duration = Duration::from_secs(300);
/// A stream without an error for this long counts as open: runtimes return an error only with the first message.
const OPEN_TIMEOUT: Duration = Duration::from_millis(200);

/// Sent to the generator.
#[derive(Debug)]
pub(super) enum StreamUpdate {
    Opened,
    Event(RuntimeEvent),
    Failed {
        reason: String,
        /// The number of failures in a row.
        failures: u32,
    },
    Unsupported,
}

/// Follows the runtime's event stream, and opens it again after a failure.
pub(super) async fn follow(runtime: Arc<dyn Runtime>, updates: mpsc::UnboundedSender<StreamUpdate>) {
    let mut failures = 0;
    loop {
        let mut opened = false;
        let ended = read_stream(&*runtime, &updates, &mut opened).await;
        let wait = if ended.kind == RuntimeErrorKind::Unimplemented {
            send(&updates, StreamUpdate::Unsupported);
            UNSUPPORTED_RETRY_DELAY
        } else {
            failures = if opened { 1 } else { failures + 1 };
            send(&updates, StreamUpdate::Failed { reason: ended.to_string(), failures });
            if failures < FAST_RETRIES { RETRY_DELAY } else { SLOW_RETRY_DELAY }
        };
        tokio::time::sleep(wait).await;
    }
}

/// Opens one stream and reads it to its end.
async fn read_stream(
    runtime: &dyn Runtime,
    updates: &mpsc::UnboundedSender<StreamUpdate>,
    opened: &mut bool,
) -> RuntimeError {
    let events = match runtime.events().await {
        Ok(events) => events,
        Err(error) => return error,
    };
    let mut events = pin!(events.peekable());
    let first = tokio::time::timeout(OPEN_TIMEOUT, events.as_mut().peek()).await;
    if matches!(first, Err(_) | Ok(Some(Ok(_)))) {
        *opened = true;
        send(updates, StreamUpdate::Opened);
    }
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => send(updates, StreamUpdate::Event(event)),
            Err(error) => return error,
        }
    }
    RuntimeError {
        operation: "get_container_events",
        kind: RuntimeErrorKind::Unavailable,
        message: "the stream ended".to_owned(),
    }
}

fn send(updates: &mpsc::UnboundedSender<StreamUpdate>, update: StreamUpdate) {
    // Fails only while the agent stops.
    let _ = updates.send(update);
}
