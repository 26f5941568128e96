//! Ensures that the image of a container is present before the container is created.
//!
//! Collects the inputs (present images, matching credentials), decides (`decide::images::image_pull`) and pulls. Concurrent
//! requests for the same image with the same credentials and namespace share one pull and its result.

use values::duration::GoDuration;

mod credentials;
mod pull;
pub mod pull_ledger;
mod pull_secrets;
mod rate_limit;
mod service_accounts;
mod single_flight;

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use decide::images::image_access::Shown;
use decide::images::image_pull::{
    PullDecision, decide_pull, parse_image_name, pull_problem, size_class, with_default_tag,
};
use decide::pipeline::backoff::{self, BackoffDecision, BackoffEntry, PULL_BACKOFF};
use model::{
    ContainerProblem, ContainerRef, EventSubject, EventType, ImageSpec, ImageStatus, Pod, PodUid,
    RecordedEvent, RegistryCredential, SandboxSpec, Timestamp,
};
use ports::clock::Clock;
use ports::host::pod_folders::FileError;
use ports::runtime::Runtime;
use ports::served::event_recorder::EventRecorder;
use ports::served::objects::Objects;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::images::pull_ledger::PullLedger;
use crate::metrics::Metrics;
pub use credentials::{Credentials, CredentialsDeps};
use pull::{PullKey, Pulled, pull, storage_annotations};
use pull_secrets::pull_secrets;
use rate_limit::PullRateLimiter;
pub use service_accounts::ServiceAccounts;
use single_flight::SingleFlight;

/// How long a failed pull has the reason `ErrImagePull` before it changes to `ImagePullBackOff`.
const PULL_ERROR_DURATION: Duration = Duration::from_secs(2);

/// An image that is present and may be used.
#[derive(Clone, Debug)]
pub struct ReadyImage {
    pub status: ImageStatus,
    /// The reference for creating containers.
    pub reference: String,
    /// The runtime handler of the image; empty unless [`PullSettings::by_handler`] is set.
    pub handler: String,
}

/// Why an image is not available.
#[derive(Clone, Debug)]
pub struct ImageProblem {
    /// Reason and message for the container's waiting state.
    pub problem: ContainerProblem,
    /// When the next attempt is useful; `None` for a failure without backoff.
    pub retry_at: Option<Timestamp>,
}

impl ImageProblem {
    /// A failure without backoff.
    #[must_use]
    pub fn failed(reason: &str, message: String) -> Self {
        Self { problem: ContainerProblem { reason: reason.to_owned(), message }, retry_at: None }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct PullSettings {
    /// `None` for no limit.
    pub max_parallel: Option<usize>,
    /// 0 for no limit.
    pub per_second: u32,
    pub burst: u32,
    /// Whether each runtime handler has separate images (`RuntimeClassInImageCriApi`).
    pub by_handler: bool,
}

pub struct ImagesDeps {
    pub runtime: Arc<dyn Runtime>,
    pub events: Arc<dyn EventRecorder>,
    pub clock: Arc<dyn Clock>,
    pub metrics: Arc<Metrics>,
    /// Source of pull secrets.
    pub objects: Arc<dyn Objects>,
    pub credentials: Credentials,
    /// Checks access to present images; `None` allows every pod to use them.
    pub ledger: Option<Arc<PullLedger>>,
    pub settings: PullSettings,
}

#[derive(Clone)]
pub struct Images {
    inner: Arc<Inner>,
}

struct Inner {
    deps: ImagesDeps,
    slots: Option<Semaphore>,
    limiter: PullRateLimiter,
    pulls: SingleFlight<PullKey, Result<Pulled, String>>,
    failures: Mutex<HashMap<(PodUid, String), Failure>>,
}

#[derive(Clone, Debug)]
struct Failure {
    entry: BackoffEntry,
    failed_at: Timestamp,
    problem: ContainerProblem,
}

impl Images {
    #[must_use]
    pub fn new(deps: ImagesDeps) -> Self {
        let settings = deps.settings;
        let inner = Inner {
            deps,
            slots: settings.max_parallel.map(|slots| Semaphore::new(slots.max(1))),
            limiter: PullRateLimiter::new(settings.per_second, settings.burst),
            pulls: SingleFlight::default(),
            failures: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Ensures that a container's image is present. The sandbox is passed to runtimes that pull images per pod.
    ///
    /// # Errors
    /// The reason and message for the container's waiting state.
    pub async fn ensure(
        &self,
        pod: &Pod,
        container: ContainerRef<'_>,
        sandbox: &SandboxSpec,
    ) -> Result<ReadyImage, ImageProblem> {
        let request = Request {
            inner: &self.inner,
            pod,
            sandbox,
            field_path: container.field_path(),
            image: container.container.image.as_deref().unwrap_or_default(),
            policy: container.container.image_pull_policy.as_deref(),
        };
        let ensured = request.ensure().await;
        if let Err(problem) = &ensured {
            let message = format!("Error: {}", problem.problem.reason);
            request.record_event(EventType::Warning, "Failed", message);
        }
        ensured
    }

    /// Ensures that the image of an image volume is present.
    ///
    /// # Errors
    /// The reason and message for the waiting state of the pod's containers.
    pub async fn ensure_for_volume(
        &self,
        pod: &Pod,
        (reference, policy): (&str, Option<&str>),
        sandbox: &SandboxSpec,
    ) -> Result<ReadyImage, ImageProblem> {
        let field_path = String::new();
        Request { inner: &self.inner, pod, sandbox, field_path, image: reference, policy }.ensure().await
    }

    /// Drops the backoff entries of a finished pod.
    pub fn forget(&self, uid: &PodUid) {
        self.inner.failures.lock().retain(|(pod, _), _| pod != uid);
        self.inner.deps.metrics.starts.forget(uid);
    }
}

struct Request<'a> {
    inner: &'a Arc<Inner>,
    pod: &'a Pod,
    sandbox: &'a SandboxSpec,
    field_path: String,
    image: &'a str,
    policy: Option<&'a str>,
}

impl Request<'_> {
    async fn ensure(&self) -> Result<ReadyImage, ImageProblem> {
        let image = self.image;
        let name = with_default_tag(image).map_err(|error| {
            self.record_event(EventType::Warning, "InspectFailed", error.to_string());
            ImageProblem::failed("InvalidImageName", error.to_string())
        })?;
        let spec = ImageSpec {
            image: name.clone(),
            user_specified_image: image.to_owned(),
            runtime_handler: match self.inner.deps.settings.by_handler {
                true => self.sandbox.runtime_handler.clone(),
                false => String::new(),
            },
            annotations: self.pod.metadata.annotations.clone().unwrap_or_default(),
        };
        let present = match self.policy {
            Some("Always") => None,
            Some(_) | None => self.inspect(&spec).await?,
        };
        let decision = match decide_pull(self.policy, &name, present.as_ref()) {
            PullDecision::UsePresent(reference) => self.check_access(&spec, reference).await,
            decision => decision,
        };
        self.count(present.is_some(), matches!(decision, PullDecision::Pull));
        match decision {
            PullDecision::UsePresent(reference) => {
                let status = present.unwrap_or_default();
                let checked =
                    if self.inner.deps.ledger.is_some() { " and can be accessed by the pod" } else { "" };
                let message = format!("Container image {image:?} already present on machine{checked}");
                self.record_event(EventType::Normal, "Pulled", message);
                Ok(ReadyImage { status, reference, handler: spec.runtime_handler })
            }
            PullDecision::NeverPresent => {
                let message = format!("Container image {image:?} is not present with pull policy of Never");
                self.record_event(EventType::Warning, "ErrImageNeverPull", message.clone());
                Err(ImageProblem::failed("ErrImageNeverPull", message))
            }
            PullDecision::Pull => self.pull(spec).await,
        }
    }

    /// An image that this pod may not use is treated as missing, so that the pod cannot find out that it is present.
    async fn check_access(&self, spec: &ImageSpec, reference: String) -> PullDecision {
        let Some(ledger) = &self.inner.deps.ledger else { return PullDecision::UsePresent(reference) };
        let credentials = async { Shown::of(&self.credentials(spec).await) };
        if ledger.may_use(self.image, &reference, credentials).await {
            return PullDecision::UsePresent(reference);
        }
        match self.policy {
            Some("Never") => PullDecision::NeverPresent,
            Some(_) | None => PullDecision::Pull,
        }
    }

    fn count(&self, present: bool, pull_required: bool) {
        let policy = self.policy.unwrap_or("IfNotPresent");
        let present = match (policy, present) {
            // The policy skips the check.
            ("Always", _) => "unknown",
            (_, true) => "true",
            (_, false) => "false",
        };
        self.inner.deps.metrics.images.ensured(policy, present, pull_required);
    }

    async fn inspect(&self, spec: &ImageSpec) -> Result<Option<ImageStatus>, ImageProblem> {
        self.inner.deps.runtime.image_status(spec).await.map_err(|error| {
            // As upstream, the message has an empty image name.
            let message = format!("Failed to inspect image \"\": {}", error.message);
            self.record_event(EventType::Warning, "InspectFailed", message.clone());
            ImageProblem::failed("ImageInspectError", message)
        })
    }

    async fn pull(&self, spec: ImageSpec) -> Result<ReadyImage, ImageProblem> {
        let image = self.image;
        let next = self.check_backoff()?;
        let credentials = self.credentials(&spec).await;
        self.record_event(EventType::Normal, "Pulling", format!("Pulling image {image:?}"));
        let (queued_at, started_at) = (Instant::now(), self.inner.deps.clock.now());
        let key = PullKey {
            image: spec.image.clone(),
            handler: spec.runtime_handler.clone(),
            namespace: self.pod.namespace().to_owned(),
            credentials,
            storage_annotations: storage_annotations(&spec.annotations),
        };
        let begin = || pull(Arc::clone(self.inner), spec, key.clone(), self.sandbox.clone());
        let intent = match &self.inner.deps.ledger {
            Some(ledger) => Some(ledger.begin(self.image).await.map_err(|error| self.intent_failed(&error))?),
            None => None,
        };
        let outcome = self.inner.pulls.join(key.clone(), begin).await;
        if let (Some(ledger), Some(intent)) = (&self.inner.deps.ledger, intent) {
            match &outcome {
                Ok(pulled) => ledger.pulled(intent, &pulled.reference, pulled.used.as_ref()).await,
                Err(_) => ledger.failed(intent).await,
            }
        }
        let pulled = match outcome {
            Ok(pulled) => pulled,
            Err(message) => return Err(self.pull_failed(next, &message)),
        };
        let waited = queued_at.elapsed();
        // A request that joined a running pull has waited less than the whole pull took.
        let took = pulled.took.min(waited);
        self.inner.failures.lock().remove(&self.failure_key());
        self.record_event(
            EventType::Normal,
            "Pulled",
            format!(
                "Successfully pulled image {image:?} in {} ({} including waiting). Image size: {} bytes.",
                GoDuration::from(took).truncated_to_millis(),
                GoDuration::from(waited).truncated_to_millis(),
                pulled.status.size
            ),
        );
        self.inner.deps.metrics.starts.pulled(&self.pod.uid, started_at, self.inner.deps.clock.now());
        self.inner.deps.metrics.images.pull_duration.observe([size_class(pulled.status.size)], waited);
        Ok(ReadyImage { status: pulled.status, reference: pulled.reference, handler: key.handler })
    }

    fn intent_failed(&self, error: &FileError) -> ImageProblem {
        let message = format!(
            "Failed to record image pull intent for container image {:?}: {error}: {}",
            self.image, error.source
        );
        ImageProblem::failed("ErrImagePull", message)
    }

    async fn credentials(&self, spec: &ImageSpec) -> Vec<RegistryCredential> {
        let Ok(name) = parse_image_name(&spec.image) else { return Vec::new() };
        let secrets = pull_secrets(&*self.inner.deps.objects, self.pod).await;
        if !secrets.unusable.is_empty() {
            let names = secrets.unusable.join(", ");
            let message = format!(
                "Unable to retrieve some image pull secrets ({names}); attempting to pull the image may not succeed."
            );
            let reason = "FailedToRetrieveImagePullSecret";
            self.record_event_at(String::new(), EventType::Warning, reason, message);
        }
        self.inner.deps.credentials.for_repository(self.pod, &secrets.entries, &name.repository).await
    }

    /// The backoff entry for a failure of this pull, or the reason why the pull must wait.
    fn check_backoff(&self) -> Result<BackoffEntry, ImageProblem> {
        let last = self.inner.failures.lock().get(&self.failure_key()).cloned();
        let now = self.inner.deps.clock.now();
        let (entry, failed_at) = match &last {
            Some(failure) => (Some(failure.entry), failure.failed_at),
            None => (None, now),
        };
        match backoff::decide(entry, failed_at, now, PULL_BACKOFF) {
            BackoffDecision::Retry { next } => Ok(next),
            BackoffDecision::Wait { until, .. } => {
                let message = format!("Back-off pulling image {:?}", self.image);
                self.record_event(EventType::Normal, "BackOff", message.clone());
                let message = match last {
                    Some(Failure { problem, .. }) => {
                        format!("{message}: {}: {}", problem.reason, problem.message)
                    }
                    None => message,
                };
                let problem = ContainerProblem { reason: "ImagePullBackOff".to_owned(), message };
                Err(ImageProblem { problem, retry_at: Some(until) })
            }
        }
    }

    fn pull_failed(&self, entry: BackoffEntry, message: &str) -> ImageProblem {
        let image = self.image;
        self.record_event(EventType::Warning, "Failed", format!("Failed to pull image {image:?}: {message}"));
        let failed_at = self.inner.deps.clock.now();
        let problem = pull_problem(image, message);
        let failure = Failure { entry, failed_at, problem: problem.clone() };
        self.inner.failures.lock().insert(self.failure_key(), failure);
        // Retries before the end of the backoff, so that the status changes to `ImagePullBackOff`.
        ImageProblem { problem, retry_at: Some(failed_at.after(entry.delay.min(PULL_ERROR_DURATION))) }
    }

    fn failure_key(&self) -> (PodUid, String) {
        (self.pod.uid.clone(), self.image.to_owned())
    }

    fn record_event(&self, kind: EventType, reason: &str, message: String) {
        self.record_event_at(self.field_path.clone(), kind, reason, message);
    }

    fn record_event_at(&self, field_path: String, kind: EventType, reason: &str, message: String) {
        let subject = EventSubject::pod(self.pod, field_path);
        let now = self.inner.deps.clock.now();
        self.inner.deps.events.record(RecordedEvent::new(subject, kind, reason, message, now));
    }
}
