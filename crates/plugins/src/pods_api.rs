//! Server of the Pods API on `pods-api/pods-api.sock`, for programs on the node that need its pods (gate `PodsAPI`).

mod pod_message;

use std::path::Path;
use std::sync::Arc;

use futures::StreamExt as _;
use ports::served::pods::{PodChange, Pods};
use tonic::codegen::BoxStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use crate::pods_v1alpha1 as v1alpha1;
use crate::pods_v1alpha1::pods_server::{Pods as PodsRpc, PodsServer};
use crate::serving::{ServeError, UnaryLimit, bind};
use pod_message::pod_message;

/// Serves the API on a socket until `stop` completes.
///
/// # Errors
/// If the socket cannot be created, or the server fails.
pub async fn serve_pods(
    path: &Path,
    pods: Arc<dyn Pods>,
    stop: impl Future<Output = ()>,
) -> Result<(), ServeError> {
    let listener = bind(path)?;
    let server = PodsServer::new(PodsService { pods, limit: UnaryLimit::default() });
    let served = Server::builder().add_service(server).serve_with_incoming_shutdown(listener, stop);
    served.await.map_err(ServeError::Serve)
}

struct PodsService {
    pods: Arc<dyn Pods>,
    limit: UnaryLimit,
}

#[tonic::async_trait]
impl PodsRpc for PodsService {
    async fn watch_pods(
        &self,
        _: Request<v1alpha1::WatchPodsRequest>,
    ) -> Result<Response<BoxStream<v1alpha1::WatchPodsEvent>>, Status> {
        Ok(Response::new(Box::pin(self.pods.watch().map(|change| Ok(event(&change))))))
    }

    async fn list_pods(
        &self,
        _: Request<v1alpha1::ListPodsRequest>,
    ) -> Result<Response<v1alpha1::ListPodsResponse>, Status> {
        self.limit.check()?;
        let pods = self.pods.list().iter().map(pod_message).collect();
        Ok(Response::new(v1alpha1::ListPodsResponse { pods }))
    }

    async fn get_pod(
        &self,
        request: Request<v1alpha1::GetPodRequest>,
    ) -> Result<Response<v1alpha1::GetPodResponse>, Status> {
        self.limit.check()?;
        let uid = request.into_inner().pod_uid;
        match self.pods.get(&uid) {
            Some(pod) => Ok(Response::new(v1alpha1::GetPodResponse { pod: pod_message(&pod) })),
            None => Err(Status::not_found(format!("pod with UID {uid} not found"))),
        }
    }
}

fn event(change: &PodChange) -> v1alpha1::WatchPodsEvent {
    let (kind, pod) = match change {
        PodChange::Added(pod) => (v1alpha1::EventType::Added, pod_message(pod)),
        PodChange::Modified(pod) => (v1alpha1::EventType::Modified, pod_message(pod)),
        PodChange::Deleted(pod) => (v1alpha1::EventType::Deleted, pod_message(pod)),
        PodChange::InitialSyncComplete => (v1alpha1::EventType::InitialSyncComplete, Vec::new()),
    };
    v1alpha1::WatchPodsEvent { r#type: kind.into(), pod }
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use serde_json::{Value, json};
    use tokio::sync::oneshot;
    use tonic::Code;
    use v1alpha1::EventType;
    use v1alpha1::pods_client::PodsClient;

    use super::*;
    use crate::connect::dial;

    struct OnePod;

    fn web() -> Value {
        json!({"metadata": {"name": "web", "uid": "u"}})
    }

    impl Pods for OnePod {
        fn list(&self) -> Vec<Value> {
            vec![web()]
        }

        fn get(&self, uid: &str) -> Option<Value> {
            (uid == "u").then(web)
        }

        fn watch(&self) -> stream::BoxStream<'static, PodChange> {
            let changes = [
                PodChange::Added(web()),
                PodChange::InitialSyncComplete,
                PodChange::Modified(web()),
                PodChange::Deleted(web()),
            ];
            stream::iter(changes).boxed()
        }
    }

    #[tokio::test]
    async fn serves_pods_and_their_changes_on_a_socket() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("pods-api/pods-api.sock");
        let (stop, stopped) = oneshot::channel::<()>();
        let path = socket.clone();
        let server =
            tokio::spawn(
                async move { serve_pods(&path, Arc::new(OnePod), async { drop(stopped.await) }).await },
            );
        let channel = loop {
            match dial(&socket).await {
                Ok(channel) => break channel,
                Err(_) => tokio::task::yield_now().await,
            }
        };
        let mut client = PodsClient::new(channel);
        let listed = client.list_pods(v1alpha1::ListPodsRequest {}).await.unwrap().into_inner();
        assert_eq!(listed.pods, [pod_message(&web())]);
        let request = |uid: &str| v1alpha1::GetPodRequest { pod_uid: uid.to_owned() };
        assert_eq!(client.get_pod(request("u")).await.unwrap().into_inner().pod, pod_message(&web()));
        let missing = client.get_pod(request("x")).await.unwrap_err();
        assert_eq!((missing.code(), missing.message()), (Code::NotFound, "pod with UID x not found"));
        let mut watch = client.watch_pods(v1alpha1::WatchPodsRequest {}).await.unwrap().into_inner();
        let mut kinds = Vec::new();
        while let Some(event) = watch.message().await.unwrap() {
            assert_eq!(event.pod.is_empty(), event.r#type() == EventType::InitialSyncComplete);
            kinds.push(event.r#type());
        }
        let expected =
            [EventType::Added, EventType::InitialSyncComplete, EventType::Modified, EventType::Deleted];
        assert_eq!(kinds, expected);
        let mut refused = None;
        for _ in 0..200 {
            refused = client.list_pods(v1alpha1::ListPodsRequest {}).await.err().or(refused);
        }
        let refused = refused.unwrap();
        assert_eq!((refused.code(), refused.message()), (Code::ResourceExhausted, "rejected by rate limit"));
        drop((client, watch));
        stop.send(()).unwrap();
        server.await.unwrap().unwrap();
    }
}
