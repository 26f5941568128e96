//! Makes sure a container's image is there before the container is made.
//!
//! Gather (is it there, which credentials match), decide (`decide::image_pull`), act (pull). Pulls of the same image
//! with the same credentials for the same namespace are one pull; all who want it hear how it went.

mod accounts;
mod credentials;
mod limiter;
mod pull;
mod pull_secrets;
mod single_flight;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use decide::backoff::{self, Entry, Limits, Verdict};
use decide::go_duration::to_milliseconds_text;
use decide::image_access::Shown;
use decide::image_pull::{
    PullDecision, decide_pull, parse_image_name, pull_problem, size_class, with_default_tag,
};
use model::{
    ContainerProblem, ContainerRef, EventSubject, EventType, ImageSpec, ImageStatus, Pod, PodUid,
    RecordedEvent, RegistryCredential, SandboxSpec, Timestamp,
};
use ports::clock::Clock;
use ports::event_recorder::EventRecorder;
use ports::objects::Objects;
use ports::pod_folders::FileError;
use ports::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::metrics::Metrics;
use crate::pull_ledger::PullLedger;
pub use accounts::Accounts;
pub use credentials::{CredentialParts, Credentials};
use limiter::Limiter;
use pull::{PullKey, Pulled, place, pull};
use pull_secrets::pull_secrets;
use single_flight::SingleFlight;

/// How long a failed pull is shown as such before it is shown as backing off.
const FAILURE_SHOWN: Duration = Duration::from_secs(2);
/// Wait after a failed pull: 10 s doubling to 5 min.
const PULL_LIMITS: Limits = Limits {
    initial: Duration::from_secs(10),
    cap: Duration::from_secs(300),
    forget_after: Duration::from_secs(600),
};

/// An image that is there.
#[derive(Clone, Debug)]
pub struct ReadyImage {
    /// What the runtime knows of it.
    pub status: ImageStatus,
    /// The reference containers are made from.
    pub reference: String,
    /// The runtime handler it is for, where images are told apart by it.
    pub handler: String,
}

/// Why an image is not there.
#[derive(Clone, Debug)]
pub struct ImageProblem {
    /// Reason and message for the container's waiting state.
    pub problem: ContainerProblem,
    /// When the next try makes sense; `None` after a fresh failure.
    pub retry_at: Option<Timestamp>,
}

impl ImageProblem {
    /// A fresh failure.
    #[must_use]
    pub fn failed(reason: &str, message: String) -> Self {
        Self { problem: ContainerProblem { reason: reason.to_owned(), message }, retry_at: None }
    }
}

/// How pulls are bounded.
#[derive(Clone, Copy, Debug)]
pub struct PullSettings {
    /// Pulls side by side; `None` for no bound.
    pub at_once: Option<usize>,
    /// Pulls per second; 0 for no bound.
    pub per_second: u32,
    /// Pulls in a burst.
    pub burst: u32,
    /// Whether images are told apart by the runtime handler they are for (`RuntimeClassInImageCriApi`).
    pub by_handler: bool,
}

/// What the image service needs.
pub struct Parts {
    /// The runtime.
    pub runtime: Arc<dyn Runtime>,
    /// Events.
    pub events: Arc<dyn EventRecorder>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Metrics.
    pub metrics: Arc<Metrics>,
    /// Where pull secrets come from.
    pub objects: Arc<dyn Objects>,
    /// The node's credentials.
    pub credentials: Credentials,
    /// Who may use images that are there; `None` for everybody.
    pub ledger: Option<Arc<PullLedger>>,
    /// Bounds.
    pub settings: PullSettings,
}

/// The image service.
#[derive(Clone)]
pub struct Images {
    inner: Arc<Inner>,
}

struct Inner {
    runtime: Arc<dyn Runtime>,
    events: Arc<dyn EventRecorder>,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    objects: Arc<dyn Objects>,
    credentials: Credentials,
    ledger: Option<Arc<PullLedger>>,
    slots: Option<Semaphore>,
    limiter: Limiter,
    by_handler: bool,
    pulls: SingleFlight<PullKey, Result<Pulled, String>>,
    failures: Mutex<HashMap<(PodUid, String), Failure>>,
}

#[derive(Clone, Debug)]
struct Failure {
    entry: Entry,
    failed_at: Timestamp,
    problem: ContainerProblem,
}

impl Images {
    /// A service over a runtime.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let settings = parts.settings;
        Self {
            inner: Arc::new(Inner {
                runtime: parts.runtime,
                events: parts.events,
                clock: parts.clock,
                metrics: parts.metrics,
                objects: parts.objects,
                credentials: parts.credentials,
                ledger: parts.ledger,
                slots: settings.at_once.map(|slots| Semaphore::new(slots.max(1))),
                limiter: Limiter::new(settings.per_second, settings.burst),
                by_handler: settings.by_handler,
                pulls: SingleFlight::default(),
                failures: Mutex::default(),
            }),
        }
    }

    /// Makes sure that a container's image is there. The sandbox is what runtimes that pull per pod are told of it.
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
            wanted: container.container.image.as_deref().unwrap_or_default(),
            policy: container.container.image_pull_policy.as_deref(),
        };
        let ensured = request.ensure().await;
        if let Err(problem) = &ensured {
            let message = format!("Error: {}", problem.problem.reason);
            request.tell(EventType::Warning, "Failed", message);
        }
        ensured
    }

    /// Makes sure that the image of an image volume is there.
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
        Request { inner: &self.inner, pod, sandbox, field_path, wanted: reference, policy }.ensure().await
    }

    /// Forgets the failures of a pod that is over.
    pub fn forget(&self, uid: &PodUid) {
        self.inner.failures().retain(|(pod, _), _| pod != uid);
        self.inner.metrics.starts.forget(uid);
    }
}

impl Inner {
    fn failures(&self) -> std::sync::MutexGuard<'_, HashMap<(PodUid, String), Failure>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Request<'a> {
    inner: &'a Arc<Inner>,
    pod: &'a Pod,
    sandbox: &'a SandboxSpec,
    field_path: String,
    wanted: &'a str,
    policy: Option<&'a str>,
}

impl Request<'_> {
    async fn ensure(&self) -> Result<ReadyImage, ImageProblem> {
        let wanted = self.wanted;
        let name = with_default_tag(wanted).map_err(|error| {
            self.tell(EventType::Warning, "InspectFailed", error.to_string());
            ImageProblem::failed("InvalidImageName", error.to_string())
        })?;
        let spec = ImageSpec {
            image: name.clone(),
            user_specified_image: wanted.to_owned(),
            runtime_handler: match self.inner.by_handler {
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
                    if self.inner.ledger.is_some() { " and can be accessed by the pod" } else { "" };
                let message = format!("Container image {wanted:?} already present on machine{checked}");
                self.tell(EventType::Normal, "Pulled", message);
                Ok(ReadyImage { status, reference, handler: spec.runtime_handler })
            }
            PullDecision::NeverPresent => {
                let message = format!("Container image {wanted:?} is not present with pull policy of Never");
                self.tell(EventType::Warning, "ErrImageNeverPull", message.clone());
                Err(ImageProblem::failed("ErrImageNeverPull", message))
            }
            PullDecision::Pull => self.pull(spec).await,
        }
    }

    /// An image that is there is not everybody's. One that this pod may not use is treated as if it were not there, so
    /// that nobody learns of it.
    async fn check_access(&self, spec: &ImageSpec, reference: String) -> PullDecision {
        let Some(ledger) = &self.inner.ledger else { return PullDecision::UsePresent(reference) };
        let shown = async { Shown::of(&self.credentials(spec).await) };
        if ledger.may_use(self.wanted, &reference, shown).await {
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
            // Nobody looked.
            ("Always", _) => "unknown",
            (_, true) => "true",
            (_, false) => "false",
        };
        self.inner.metrics.images.ensured(policy, present, pull_required);
    }

    async fn inspect(&self, spec: &ImageSpec) -> Result<Option<ImageStatus>, ImageProblem> {
        self.inner.runtime.image_status(spec).await.map_err(|error| {
            // Upstream names the image it did not get, which has no name.
            let message = format!("Failed to inspect image \"\": {}", error.message);
            self.tell(EventType::Warning, "InspectFailed", message.clone());
            ImageProblem::failed("ImageInspectError", message)
        })
    }

    async fn pull(&self, spec: ImageSpec) -> Result<ReadyImage, ImageProblem> {
        let image = self.wanted;
        let next = self.check_back_off()?;
        let credentials = self.credentials(&spec).await;
        self.tell(EventType::Normal, "Pulling", format!("Pulling image {image:?}"));
        let (queued, began) = (Instant::now(), self.inner.clock.now());
        let key = PullKey {
            image: spec.image.clone(),
            handler: spec.runtime_handler.clone(),
            namespace: self.pod.namespace().to_owned(),
            credentials,
            place: place(&spec.annotations),
        };
        let begin = || pull(Arc::clone(self.inner), spec, key.clone(), self.sandbox.clone());
        let intent = match &self.inner.ledger {
            Some(ledger) => Some(ledger.begin(self.wanted).await.map_err(|error| self.not_begun(&error))?),
            None => None,
        };
        let outcome = self.inner.pulls.join(key.clone(), begin).await;
        if let (Some(ledger), Some(intent)) = (&self.inner.ledger, intent) {
            match &outcome {
                Ok(pulled) => ledger.pulled(intent, &pulled.reference, pulled.used.as_ref()).await,
                Err(_) => ledger.failed(intent).await,
            }
        }
        let pulled = match outcome {
            Ok(pulled) => pulled,
            Err(message) => return Err(self.pull_failed(next, &message)),
        };
        let waited = queued.elapsed();
        // Who joined late has waited less than the pull took.
        let took = pulled.took.min(waited);
        self.inner.failures().remove(&self.failure_key());
        self.tell(
            EventType::Normal,
            "Pulled",
            format!(
                "Successfully pulled image {image:?} in {} ({} including waiting). Image size: {} bytes.",
                to_milliseconds_text(took),
                to_milliseconds_text(waited),
                pulled.status.size
            ),
        );
        self.inner.metrics.starts.pulled(&self.pod.uid, began, self.inner.clock.now());
        self.inner.metrics.images.pulled(size_class(pulled.status.size), waited);
        Ok(ReadyImage { status: pulled.status, reference: pulled.reference, handler: key.handler })
    }

    fn not_begun(&self, error: &FileError) -> ImageProblem {
        let message = format!(
            "Failed to record image pull intent for container image {:?}: {error}: {}",
            self.wanted, error.source
        );
        ImageProblem::failed("ErrImagePull", message)
    }

    async fn credentials(&self, spec: &ImageSpec) -> Vec<RegistryCredential> {
        let Ok(name) = parse_image_name(&spec.image) else { return Vec::new() };
        let own = pull_secrets(&*self.inner.objects, self.pod).await;
        if !own.unusable.is_empty() {
            let names = own.unusable.join(", ");
            let message = format!(
                "Unable to retrieve some image pull secrets ({names}); attempting to pull the image may not succeed."
            );
            self.tell_of(String::new(), EventType::Warning, "FailedToRetrieveImagePullSecret", message);
        }
        self.inner.credentials.for_repository(self.pod, &own.entries, &name.repository).await
    }

    /// The entry to remember if this pull fails, or why it is not tried yet.
    fn check_back_off(&self) -> Result<Entry, ImageProblem> {
        let known = self.inner.failures().get(&self.failure_key()).cloned();
        let now = self.inner.clock.now();
        let (entry, failed_at) = match &known {
            Some(failure) => (Some(failure.entry), failure.failed_at),
            None => (None, now),
        };
        match backoff::decide(entry, failed_at, now, PULL_LIMITS) {
            Verdict::Go { next } => Ok(next),
            Verdict::Wait { until, .. } => {
                let message = format!("Back-off pulling image {:?}", self.wanted);
                self.tell(EventType::Normal, "BackOff", message.clone());
                let message = match known {
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

    fn pull_failed(&self, entry: Entry, message: &str) -> ImageProblem {
        let image = self.wanted;
        self.tell(EventType::Warning, "Failed", format!("Failed to pull image {image:?}: {message}"));
        let failed_at = self.inner.clock.now();
        let problem = pull_problem(image, message);
        let failure = Failure { entry, failed_at, problem: problem.clone() };
        self.inner.failures().insert(self.failure_key(), failure);
        // Not when the wait is over: nobody would look in between, and the pod would never be seen to back off.
        ImageProblem { problem, retry_at: Some(failed_at.after(entry.delay.min(FAILURE_SHOWN))) }
    }

    fn failure_key(&self) -> (PodUid, String) {
        (self.pod.uid.clone(), self.wanted.to_owned())
    }

    fn tell(&self, kind: EventType, reason: &str, message: String) {
        self.tell_of(self.field_path.clone(), kind, reason, message);
    }

    fn tell_of(&self, field_path: String, kind: EventType, reason: &str, message: String) {
        self.inner.events.record(RecordedEvent {
            annotations: Default::default(),
            subject: EventSubject::pod(self.pod, field_path),
            kind,
            reason: reason.to_owned(),
            message,
            at: self.inner.clock.now(),
        });
    }
}
