//! Checks the health of the runtime every few seconds, and immediately when a stage requests it.

use std::sync::Arc;
use std::time::Duration;

use decide::node::node_status::readiness::{MAX_RELIST_AGE, network_problem, runtime_problem};
use model::{RuntimeConditions, RuntimeHandler};
use ports::runtime::RuntimeService;
use timing::{Backoff, BackoffPolicy, random};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Applies while the runtime is healthy.
const CHECK_PERIOD: Duration = Duration::from_secs(5);
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);
/// Delay between checks while the runtime is not ready.
const BACKOFF: BackoffPolicy = BackoffPolicy::doubling(Duration::from_millis(100), Duration::from_secs(5));

/// Result of the last check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Why the runtime cannot be used; `None` when it can.
    pub runtime_problem: Option<String>,
    /// Why the network of the runtime cannot be used; `None` when it can.
    pub network_problem: Option<String>,
    pub features: Arc<RuntimeFeatures>,
    /// `None` when the runtime does not respond.
    pub conditions: Option<Arc<RuntimeConditions>>,
}

/// Optional features of the runtime.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeFeatures {
    /// Empty when the runtime does not report them.
    pub handlers: Vec<RuntimeHandler>,
    /// Whether the runtime supports `supplementalGroupsPolicy`.
    pub supplemental_groups_policy: bool,
}

/// Handle to the published health, which can also request a check.
#[derive(Clone, Debug)]
pub struct RuntimeHealth {
    current: watch::Receiver<Health>,
    check_requests: Arc<Notify>,
    /// Time of the last successful relist.
    last_list: Arc<watch::Sender<Option<Instant>>>,
}

impl RuntimeHealth {
    #[must_use]
    pub fn now(&self) -> Health {
        self.current.borrow().clone()
    }

    /// Whether pods can be synced.
    #[must_use]
    pub fn runtime_is_ready(&self) -> bool {
        self.current.borrow().runtime_problem.is_none()
            && self.since_list().is_none_or(|age| age <= MAX_RELIST_AGE)
    }

    /// Records a successful relist.
    pub fn record_list(&self) {
        self.last_list.send_replace(Some(Instant::now()));
    }

    /// Time since the last successful relist; `None` before the first one.
    #[must_use]
    pub fn since_list(&self) -> Option<Duration> {
        self.last_list.borrow().map(|at| at.elapsed())
    }

    /// Requests an immediate check, after a call failed in a way that suggests that the runtime is down.
    pub fn request_check(&self) {
        self.check_requests.notify_one();
    }

    /// A handle that waits for changes from now on.
    #[must_use]
    pub fn subscribe(&self) -> Self {
        let mut handle = self.clone();
        handle.current.mark_unchanged();
        handle
    }

    pub async fn changed(&mut self) {
        if self.current.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

pub struct Checker {
    runtime: Arc<dyn RuntimeService>,
    publish: watch::Sender<Health>,
    check_requests: Arc<Notify>,
}

#[must_use]
pub fn checker(runtime: Arc<dyn RuntimeService>) -> (Checker, RuntimeHealth) {
    let (publish, current) = watch::channel(unavailable("the runtime has not responded yet".to_owned()));
    let check_requests = Arc::new(Notify::new());
    let health = RuntimeHealth {
        current,
        check_requests: Arc::clone(&check_requests),
        last_list: Arc::new(watch::Sender::new(None)),
    };
    (Checker { runtime, publish, check_requests }, health)
}

impl Checker {
    /// Runs until cancelled.
    pub async fn run(self, cancel: CancellationToken) {
        let mut backoff = Backoff::new(BACKOFF);
        loop {
            let health = self.check().await;
            let ready = health.runtime_problem.is_none();
            self.publish_if_changed(health);
            let delay = if ready {
                backoff.reset();
                CHECK_PERIOD
            } else {
                backoff.next(random())
            };
            tokio::select! {
                () = cancel.cancelled() => return,
                () = tokio::time::sleep(delay) => {}
                () = self.check_requests.notified(), if ready => {}
            }
        }
    }

    async fn check(&self) -> Health {
        let conditions = match tokio::time::timeout(CHECK_TIMEOUT, self.runtime.conditions()).await {
            Ok(Ok(conditions)) => conditions,
            Ok(Err(error)) => return unavailable(error.to_string()),
            Err(_) => return unavailable(format!("no response within {CHECK_TIMEOUT:?}")),
        };
        Health {
            runtime_problem: runtime_problem(&conditions),
            network_problem: network_problem(&conditions),
            features: Arc::new(RuntimeFeatures {
                handlers: conditions.handlers.clone(),
                supplemental_groups_policy: conditions.supplemental_groups_policy,
            }),
            conditions: Some(Arc::new(conditions)),
        }
    }

    fn publish_if_changed(&self, health: Health) {
        self.publish.send_if_modified(|current| {
            if *current == health {
                return false;
            }
            match (&current.runtime_problem, &health.runtime_problem) {
                (None, Some(problem)) => tracing::error!(%problem, "container runtime is not ready"),
                (Some(_), None) => tracing::info!("container runtime is ready"),
                (Some(_), Some(_)) | (None, None) => {}
            }
            if let (None, Some(problem)) = (&current.network_problem, &health.network_problem) {
                tracing::warn!(%problem, "container runtime network is not ready");
            }
            *current = health;
            true
        });
    }
}

fn unavailable(problem: String) -> Health {
    Health {
        runtime_problem: Some(problem),
        network_problem: None,
        features: Arc::default(),
        conditions: None,
    }
}
