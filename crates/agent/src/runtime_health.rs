//! Whether the runtime answers, checked each few seconds and at once when a stage doubts it.

use std::sync::Arc;
use std::time::Duration;

use decide::node_status::readiness::{LONGEST_WITHOUT_LIST, network_problem, runtime_problem};
use model::{RuntimeConditions, RuntimeHandler};
use ports::runtime::RuntimeService;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Time between checks while all is well.
const PERIOD: Duration = Duration::from_secs(5);
/// Deadline of one check.
const DEADLINE: Duration = Duration::from_secs(10);
/// First and longest wait between checks while the runtime is away.
const AWAY_FIRST: Duration = Duration::from_millis(100);
const AWAY_LONGEST: Duration = Duration::from_secs(5);

/// What is known of the runtime.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Why the runtime cannot be used; `None` when it can.
    pub runtime_problem: Option<String>,
    /// Why its network cannot be used; `None` when it can.
    pub network_problem: Option<String>,
    /// What the runtime can do.
    pub abilities: Arc<RuntimeAbilities>,
    /// What it said; `None` when it does not answer.
    pub answer: Option<Arc<RuntimeConditions>>,
}

/// What a runtime can do beyond what every one can.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuntimeAbilities {
    /// Its handlers; empty when it does not name them.
    pub handlers: Vec<RuntimeHandler>,
    /// Whether it honours `supplementalGroupsPolicy`.
    pub supplemental_groups_policy: bool,
}

/// The published health and the bell that asks for a check.
#[derive(Clone, Debug)]
pub struct RuntimeHealth {
    current: watch::Receiver<Health>,
    bell: Arc<Notify>,
    /// When the runtime's pods were last listed.
    last_list: Arc<watch::Sender<Option<Instant>>>,
}

impl RuntimeHealth {
    /// What is known now.
    #[must_use]
    pub fn now(&self) -> Health {
        self.current.borrow().clone()
    }

    /// Whether pods can be worked on.
    #[must_use]
    pub fn runtime_is_ready(&self) -> bool {
        self.current.borrow().runtime_problem.is_none()
            && self.since_list().is_none_or(|age| age <= LONGEST_WITHOUT_LIST)
    }

    /// Notes that the runtime's pods were listed.
    pub fn listed(&self) {
        self.last_list.send_replace(Some(Instant::now()));
    }

    /// How long ago the runtime's pods were listed; `None` when they never were.
    #[must_use]
    pub fn since_list(&self) -> Option<Duration> {
        self.last_list.borrow().map(|at| at.elapsed())
    }

    /// Asks for a check: a call failed as if the runtime were away.
    pub fn doubt(&self) {
        self.bell.notify_one();
    }

    /// A handle that waits for changes from now on.
    #[must_use]
    pub fn subscribe(&self) -> Self {
        let mut handle = self.clone();
        handle.current.mark_unchanged();
        handle
    }

    /// Waits for a change.
    pub async fn changed(&mut self) {
        if self.current.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

/// The checking task.
pub struct Checker {
    runtime: Arc<dyn RuntimeService>,
    publish: watch::Sender<Health>,
    bell: Arc<Notify>,
}

/// A checker and the handle to what it finds.
#[must_use]
pub fn checker(runtime: Arc<dyn RuntimeService>) -> (Checker, RuntimeHealth) {
    let unknown = Health {
        runtime_problem: Some("the runtime has not answered yet".to_owned()),
        network_problem: None,
        abilities: Arc::default(),
        answer: None,
    };
    let (publish, current) = watch::channel(unknown);
    let bell = Arc::new(Notify::new());
    let health =
        RuntimeHealth { current, bell: Arc::clone(&bell), last_list: Arc::new(watch::Sender::new(None)) };
    (Checker { runtime, publish, bell }, health)
}

impl Checker {
    /// Checks until cancelled.
    pub async fn run(self, cancel: CancellationToken) {
        let mut wait = AWAY_FIRST;
        loop {
            let health = self.check().await;
            let ready = health.runtime_problem.is_none();
            self.publish_if_new(health);
            if ready {
                wait = AWAY_FIRST;
            }
            let pause = if ready { PERIOD } else { wait };
            tokio::select! {
                () = cancel.cancelled() => return,
                () = tokio::time::sleep(pause) => {}
                () = self.bell.notified(), if ready => {}
            }
            if !ready {
                wait = (wait * 2).min(AWAY_LONGEST);
            }
        }
    }

    async fn check(&self) -> Health {
        let conditions = match tokio::time::timeout(DEADLINE, self.runtime.conditions()).await {
            Ok(Ok(conditions)) => conditions,
            Ok(Err(error)) => return away(error.to_string()),
            Err(_) => return away(format!("no answer within {DEADLINE:?}")),
        };
        Health {
            runtime_problem: runtime_problem(&conditions),
            network_problem: network_problem(&conditions),
            abilities: Arc::new(RuntimeAbilities {
                handlers: conditions.handlers.clone(),
                supplemental_groups_policy: conditions.supplemental_groups_policy,
            }),
            answer: Some(Arc::new(conditions)),
        }
    }

    fn publish_if_new(&self, health: Health) {
        self.publish.send_if_modified(|current| {
            if *current == health {
                return false;
            }
            match (&current.runtime_problem, &health.runtime_problem) {
                (None, Some(problem)) => tracing::error!(%problem, "the container runtime is not ready"),
                (Some(_), None) => tracing::info!("the container runtime is ready"),
                (Some(_), Some(_)) | (None, None) => {}
            }
            if let (None, Some(problem)) = (&current.network_problem, &health.network_problem) {
                tracing::warn!(%problem, "the runtime's network is not ready");
            }
            *current = health;
            true
        });
    }
}

fn away(problem: String) -> Health {
    Health { runtime_problem: Some(problem), network_problem: None, abilities: Arc::default(), answer: None }
}
