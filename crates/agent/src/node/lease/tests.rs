use parking_lot::Mutex;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Node;
use testkit::fake_clock::FakeClock;
use tokio::task::JoinSet;

use super::*;
use crate::node::node_view;

/// A server with at most one lease. Each entry of `errors` fails one request.
#[derive(Default)]
struct Server {
    lease: Mutex<Option<Lease>>,
    errors: Mutex<Vec<ApiErrorKind>>,
    calls: Mutex<Vec<&'static str>>,
}

impl Server {
    fn call(&self, name: &'static str) -> Result<(), ApiError> {
        self.calls.lock().push(name);
        match self.errors.lock().pop() {
            None => Ok(()),
            Some(kind) => Err(ApiError { kind, message: "failed".into(), retry_after: None }),
        }
    }

    fn take_calls(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.calls.lock())
    }
}

#[async_trait]
impl ApiLeases for Server {
    async fn get(&self) -> Result<Lease, ApiError> {
        self.call("get")?;
        let missing =
            ApiError { kind: ApiErrorKind::NotFound, message: "no lease".into(), retry_after: None };
        self.lease.lock().clone().ok_or(missing)
    }

    async fn create(&self, lease: &Lease) -> Result<Lease, ApiError> {
        self.call("create")?;
        *self.lease.lock() = Some(lease.clone());
        Ok(lease.clone())
    }

    async fn replace(&self, lease: &Lease) -> Result<Lease, ApiError> {
        self.call("replace")?;
        *self.lease.lock() = Some(lease.clone());
        Ok(lease.clone())
    }
}

struct Fixture {
    server: Arc<Server>,
    publish: watch::Sender<NodeView>,
    cancel: CancellationToken,
    task: JoinSet<()>,
}

impl Fixture {
    fn start(server: Server) -> Self {
        let (publish, view) = node_view::channel();
        let server = Arc::new(server);
        let deps = LeaseDeps {
            leases: server.clone(),
            settings: LeaseSettings { node: "n".into(), duration_seconds: 40 },
            view,
            request_timeout: Duration::from_secs(10),
            clock: Arc::new(FakeClock::fixed(5)),
        };
        let cancel = CancellationToken::new();
        let mut task = JoinSet::new();
        task.spawn(run(deps, cancel.clone()));
        Self { server, publish, cancel, task }
    }

    fn publish_node(&self) {
        let mut node = Node::default();
        node.metadata.uid = Some("u-1".into());
        self.publish.send_replace(NodeView::of(Arc::new(node)));
    }

    async fn calls_after(&self, seconds: u64) -> Vec<&'static str> {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        self.server.take_calls()
    }

    async fn stop(mut self) {
        self.cancel.cancel();
        self.task.join_next().await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn creates_lease_once_owner_is_known_and_renews_every_quarter() {
    let fixture = Fixture::start(Server::default());
    assert_eq!(fixture.calls_after(60).await, ["get"]);
    fixture.publish_node();
    assert_eq!(fixture.calls_after(1).await, ["create"]);
    let lease = fixture.server.lease.lock().clone().unwrap();
    assert_eq!(lease.metadata.owner_references.unwrap()[0].uid, "u-1");
    assert_eq!(fixture.calls_after(41).await, ["replace"; 4]);
    fixture.stop().await;
}

#[tokio::test(start_paused = true)]
async fn renews_existing_lease_immediately() {
    let server = Server { lease: Mutex::new(Some(Lease::default())), ..Server::default() };
    let fixture = Fixture::start(server);
    assert_eq!(fixture.calls_after(1).await, ["get", "replace"]);
    assert!(fixture.server.lease.lock().as_ref().unwrap().spec.is_some());
    fixture.stop().await;
}

#[tokio::test(start_paused = true)]
async fn retries_failed_renewals_immediately_and_then_with_backoff() {
    let server = Server { lease: Mutex::new(Some(Lease::default())), ..Server::default() };
    let fixture = Fixture::start(server);
    fixture.calls_after(1).await;
    *fixture.server.errors.lock() = vec![ApiErrorKind::Unreachable; 7];
    let calls = fixture.calls_after(11).await;
    assert_eq!(calls[..5], ["replace"; 5]);
    assert_eq!(calls[5..], ["get", "get", "get", "replace"]);
    // After a conflict the lease is read again.
    *fixture.server.errors.lock() = vec![ApiErrorKind::Conflict];
    assert_eq!(fixture.calls_after(10).await, ["replace", "get", "replace"]);
    fixture.stop().await;
}
