use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use model::RuntimeEvent;
use ports::runtime::{Runtime, RuntimeError, RuntimeErrorKind};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Failures in a row after which the stream is only tried now and then.
pub(super) const TRIES: u32 = 5;
/// Wait between the first tries.
const SOON: Duration = Duration::from_secs(1);
/// Wait once the stream has failed too often.
const NOW_AND_THEN: Duration = Duration::from_secs(30);
/// Wait before a runtime without a stream is asked again (it may have been upgraded).
const UNSUPPORTED: Duration = Duration::from_secs(300);
/// A stream that says nothing wrong for this long counts as open: runtimes refuse only with the first message.
const SETTLE: Duration = Duration::from_millis(200);

/// What the follower tells the generator.
#[derive(Debug)]
pub(super) enum StreamNews {
    /// The stream works.
    Opened,
    /// Something happened to a container.
    Event(RuntimeEvent),
    /// The stream failed.
    Cut {
        /// Why.
        reason: String,
        /// How often in a row.
        failures: u32,
    },
    /// The runtime has none.
    Unsupported,
}

/// Follows the runtime's event stream, opening it again when it is cut.
pub(super) async fn follow(
    runtime: Arc<dyn Runtime>,
    news: mpsc::UnboundedSender<StreamNews>,
    cancel: CancellationToken,
) {
    let mut failures = 0;
    loop {
        let mut opened = false;
        let ended = tokio::select! {
            () = cancel.cancelled() => return,
            ended = once(&*runtime, &news, &mut opened) => ended,
        };
        let wait = if ended.kind == RuntimeErrorKind::Unimplemented {
            send(&news, StreamNews::Unsupported);
            UNSUPPORTED
        } else {
            failures = if opened { 1 } else { failures + 1 };
            send(&news, StreamNews::Cut { reason: ended.to_string(), failures });
            if failures < TRIES { SOON } else { NOW_AND_THEN }
        };
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// Reads one stream to its end.
async fn once(
    runtime: &dyn Runtime,
    news: &mpsc::UnboundedSender<StreamNews>,
    opened: &mut bool,
) -> RuntimeError {
    let mut events = match runtime.events().await {
        Ok(events) => events,
        Err(error) => return error,
    };
    loop {
        let next = if *opened {
            events.next().await
        } else {
            match tokio::time::timeout(SETTLE, events.next()).await {
                Ok(next) => next,
                Err(_) => {
                    *opened = true;
                    send(news, StreamNews::Opened);
                    continue;
                }
            }
        };
        match next {
            Some(Ok(event)) => {
                if !*opened {
                    *opened = true;
                    send(news, StreamNews::Opened);
                }
                send(news, StreamNews::Event(event));
            }
            Some(Err(error)) => return error,
            None => {
                return RuntimeError {
                    operation: "get_container_events",
                    kind: RuntimeErrorKind::Unavailable,
                    message: "the stream ended".to_owned(),
                };
            }
        }
    }
}

fn send(news: &mpsc::UnboundedSender<StreamNews>, item: StreamNews) {
    // Fails only while the agent stops.
    let _ = news.send(item);
}
