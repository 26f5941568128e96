//! Watches the node's own Node object and publishes it.

use std::sync::Arc;

use futures::StreamExt;
use ports::api::Feed;
use ports::api::nodes::ApiNodes;
use tokio::sync::watch::Sender;
use tokio_util::sync::CancellationToken;

use crate::node::node_view::NodeView;

/// Publishes every version of the node until cancelled.
pub async fn run(nodes: Arc<dyn ApiNodes>, publish: Sender<NodeView>, cancel: CancellationToken) {
    let mut feed = nodes.watch();
    loop {
        let Some(item) = cancel.run_until_cancelled(feed.next()).await else { return };
        let set = |node| drop(publish.send_replace(NodeView::of(Arc::new(node))));
        match item {
            Some(Feed::Listed(found)) => found.into_iter().take(1).for_each(set),
            Some(Feed::Applied(node)) => set(node),
            Some(Feed::Deleted(_)) => {
                tracing::error!(
                    "Node object was deleted; it is created again at the next start of the agent"
                );
            }
            Some(Feed::Failed(error)) => tracing::warn!(%error, "watch of the Node object failed, retrying"),
            None => return cancel.cancelled().await,
        }
    }
}
