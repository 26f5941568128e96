use std::sync::Mutex;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Node;
use model::Timestamp;
use tokio::task::JoinSet;

use super::*;
use crate::node_view;

/// A server with at most one lease that refuses what it is told to.
#[derive(Default)]
struct Server {
    lease: Mutex<Option<Lease>>,
    refusals: Mutex<Vec<ApiErrorKind>>,
    calls: Mutex<Vec<&'static str>>,
}

impl Server {
    fn call(&self, name: &'static str) -> Result<(), ApiError> {
        self.calls.lock().unwrap().push(name);
        match self.refusals.lock().unwrap().pop() {
            None => Ok(()),
            Some(kind) => Err(ApiError { kind, message: "refused".into(), retry_after: None }),
        }
    }

    fn take_calls(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }
}

#[async_trait]
impl ApiLeases for Server {
    async fn get(&self) -> Result<Lease, ApiError> {
        self.call("get")?;
        let missing =
            ApiError { kind: ApiErrorKind::NotFound, message: "no lease".into(), retry_after: None };
        self.lease.lock().unwrap().clone().ok_or(missing)
    }

    async fn create(&self, lease: &Lease) -> Result<Lease, ApiError> {
        self.call("create")?;
        *self.lease.lock().unwrap() = Some(lease.clone());
        Ok(lease.clone())
    }

    async fn replace(&self, lease: &Lease) -> Result<Lease, ApiError> {
        self.call("replace")?;
        *self.lease.lock().unwrap() = Some(lease.clone());
        Ok(lease.clone())
    }
}

struct Epoch;

impl Clock for Epoch {
    fn now(&self) -> Timestamp {
        Timestamp::from_secs(5)
    }
}

struct Kept {
    server: Arc<Server>,
    publish: watch::Sender<NodeView>,
    cancel: CancellationToken,
    task: JoinSet<()>,
}

impl Kept {
    fn start(server: Server) -> Self {
        let (publish, view) = node_view::channel();
        let server = Arc::new(server);
        let parts = Parts {
            leases: server.clone(),
            terms: LeaseTerms { node: "n".into(), duration_seconds: 40 },
            view,
            deadline: Duration::from_secs(10),
            clock: Arc::new(Epoch),
        };
        let cancel = CancellationToken::new();
        let mut task = JoinSet::new();
        task.spawn(run(parts, cancel.clone()));
        Self { server, publish, cancel, task }
    }

    fn show_node(&self) {
        let mut node = Node::default();
        node.metadata.uid = Some("u-1".into());
        self.publish.send_replace(NodeView::of(Arc::new(node)));
    }

    async fn pass(&self, seconds: u64) -> Vec<&'static str> {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        self.server.take_calls()
    }

    async fn stop(mut self) {
        self.cancel.cancel();
        self.task.join_next().await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_made_when_its_owner_is_known_and_renewed_each_quarter() {
    let kept = Kept::start(Server::default());
    assert_eq!(kept.pass(60).await, ["get"]);
    kept.show_node();
    assert_eq!(kept.pass(1).await, ["create"]);
    let lease = kept.server.lease.lock().unwrap().clone().unwrap();
    assert_eq!(lease.metadata.owner_references.unwrap()[0].uid, "u-1");
    assert_eq!(kept.pass(41).await, ["replace"; 4]);
    kept.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_exists_is_renewed_at_once() {
    let server = Server { lease: Mutex::new(Some(Lease::default())), ..Server::default() };
    let kept = Kept::start(server);
    assert_eq!(kept.pass(1).await, ["get", "replace"]);
    assert!(kept.server.lease.lock().unwrap().as_ref().unwrap().spec.is_some());
    kept.stop().await;
}

#[tokio::test(start_paused = true)]
async fn failures_are_tried_again_at_once_and_then_with_pauses() {
    let server = Server { lease: Mutex::new(Some(Lease::default())), ..Server::default() };
    let kept = Kept::start(server);
    kept.pass(1).await;
    *kept.server.refusals.lock().unwrap() = vec![ApiErrorKind::Unreachable; 7];
    let calls = kept.pass(11).await;
    assert_eq!(calls[..5], ["replace"; 5]);
    assert_eq!(calls[5..], ["get", "get", "get", "replace"]);
    // A conflict means that it has to be read.
    *kept.server.refusals.lock().unwrap() = vec![ApiErrorKind::Conflict];
    assert_eq!(kept.pass(10).await, ["replace", "get", "replace"]);
    kept.stop().await;
}
