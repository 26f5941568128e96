//! Follows the own Node object and publishes it.

use std::sync::Arc;

use futures::StreamExt;
use ports::api::Feed;
use ports::api::nodes::ApiNodes;
use tokio::sync::watch::Sender;
use tokio_util::sync::CancellationToken;

use crate::node_view::NodeView;

/// Publishes the node whenever the API server shows a new form of it, until cancelled.
pub async fn run(nodes: Arc<dyn ApiNodes>, publish: Sender<NodeView>, cancel: CancellationToken) {
    let mut feed = nodes.watch();
    loop {
        let news = tokio::select! {
            () = cancel.cancelled() => return,
            news = feed.next() => news,
        };
        match news {
            Some(Feed::Listed(found)) => {
                if let Some(node) = found.into_iter().next() {
                    publish.send_replace(NodeView::of(Arc::new(node)));
                }
            }
            Some(Feed::Applied(node)) => {
                publish.send_replace(NodeView::of(Arc::new(node)));
            }
            Some(Feed::Deleted(_)) => {
                tracing::error!(
                    "the Node object was deleted; it is made again when the agent is started anew"
                );
            }
            Some(Feed::Failed(error)) => tracing::warn!(%error, "watch of the Node object"),
            None => return cancel.cancelled().await,
        }
    }
}
