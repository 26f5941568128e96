//! Makes sure a container's image is there before the container is made.

mod limiter;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use decide::backoff::{self, Entry, Limits, Verdict};
use decide::image_pull::{PullDecision, decide_pull, with_default_tag};
use model::{
    ContainerProblem, ContainerRef, EventSubject, EventType, ImageSpec, ImageStatus, Pod, PodUid,
    RecordedEvent, SandboxSpec, Timestamp,
};
use ports::clock::Clock;
use ports::event_recorder::EventRecorder;
use ports::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use limiter::Limiter;

/// Wait after a failed pull: 10 s doubling to 5 min.
const PULL_LIMITS: Limits = Limits { initial: Duration::from_secs(10), cap: Duration::from_secs(300) };

/// An image that is there.
#[derive(Clone, Debug)]
pub struct ReadyImage {
    /// What the runtime knows of it.
    pub status: ImageStatus,
    /// The reference containers are made from.
    pub reference: String,
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
    slots: Option<Semaphore>,
    limiter: Limiter,
    failures: Mutex<HashMap<(PodUid, String), Failure>>,
}

#[derive(Clone, Debug)]
struct Failure {
    entry: Entry,
    failed_at: Timestamp,
    message: String,
}

impl Images {
    /// A service over a runtime.
    #[must_use]
    pub fn new(
        runtime: Arc<dyn Runtime>,
        events: Arc<dyn EventRecorder>,
        clock: Arc<dyn Clock>,
        settings: PullSettings,
    ) -> Self {
        Self {
            inner: Arc::new(Inner {
                runtime,
                events,
                clock,
                slots: settings.at_once.map(|slots| Semaphore::new(slots.max(1))),
                limiter: Limiter::new(settings.per_second, settings.burst),
                failures: Mutex::default(),
            }),
        }
    }

    /// Makes sure that a container's image is there.
    ///
    /// # Errors
    /// The reason and message for the container's waiting state.
    pub async fn ensure(&self, pod: &Pod, container: ContainerRef<'_>) -> Result<ReadyImage, ImageProblem> {
        let request = Request { inner: &self.inner, pod, container };
        request.ensure().await
    }

    /// Forgets the failures of a pod that is over.
    pub fn forget(&self, uid: &PodUid) {
        self.inner.failures().retain(|(pod, _), _| pod != uid);
    }
}

impl Inner {
    fn failures(&self) -> std::sync::MutexGuard<'_, HashMap<(PodUid, String), Failure>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct Request<'a> {
    inner: &'a Inner,
    pod: &'a Pod,
    container: ContainerRef<'a>,
}

impl Request<'_> {
    async fn ensure(&self) -> Result<ReadyImage, ImageProblem> {
        let wanted = self.container.container.image.as_deref().unwrap_or_default();
        let name = with_default_tag(wanted).map_err(|error| {
            self.tell(EventType::Warning, "InspectFailed", error.to_string());
            ImageProblem::failed("InvalidImageName", error.to_string())
        })?;
        let spec = ImageSpec {
            image: name.clone(),
            user_specified_image: wanted.to_owned(),
            runtime_handler: String::new(),
        };
        let present = self.inner.runtime.image_status(&spec).await.map_err(|error| {
            let message = format!("Failed to inspect image {name:?}: {}", error.message);
            self.tell(EventType::Warning, "InspectFailed", message.clone());
            ImageProblem::failed("ImageInspectError", message)
        })?;
        let policy = self.container.container.image_pull_policy.as_deref();
        match decide_pull(policy, &name, present.as_ref()) {
            PullDecision::UsePresent(reference) => {
                let status = present.unwrap_or_default();
                self.tell(
                    EventType::Normal,
                    "Pulled",
                    format!("Container image {wanted:?} already present on machine"),
                );
                Ok(ReadyImage { status, reference })
            }
            PullDecision::NeverPresent => {
                let message = format!("Container image {wanted:?} is not present with pull policy of Never");
                self.tell(EventType::Warning, "ErrImageNeverPull", message.clone());
                Err(ImageProblem::failed("ErrImageNeverPull", message))
            }
            PullDecision::Pull => self.pull(&spec).await,
        }
    }

    async fn pull(&self, spec: &ImageSpec) -> Result<ReadyImage, ImageProblem> {
        let next = self.check_back_off(spec)?;
        if !self.inner.limiter.take() {
            return Err(self.pull_failed(spec, next, "pull QPS exceeded".to_owned()));
        }
        let image = &spec.image;
        self.tell(EventType::Normal, "Pulling", format!("Pulling image {image:?}"));
        let queued = Instant::now();
        let _slot = match &self.inner.slots {
            Some(slots) => slots.acquire().await.ok(),
            None => None,
        };
        let started = Instant::now();
        let pulled = self.inner.runtime.pull_image(spec, None, &self.sandbox()).await;
        let reference = match pulled {
            Ok(reference) => reference,
            Err(error) => {
                let message = format!("failed to pull image {image:?}: {}", error.message);
                return Err(self.pull_failed(spec, next, message));
            }
        };
        let by_reference = ImageSpec { image: reference.clone(), ..spec.clone() };
        let status = self.inner.runtime.image_status(&by_reference).await.ok().flatten().unwrap_or_default();
        self.inner.failures().remove(&(self.pod.uid.clone(), image.clone()));
        self.tell(
            EventType::Normal,
            "Pulled",
            format!(
                "Successfully pulled image {image:?} in {:?} ({:?} including waiting). Image size: {} bytes.",
                started.elapsed(),
                queued.elapsed(),
                status.size
            ),
        );
        Ok(ReadyImage { status, reference })
    }

    /// The entry to remember if this pull fails, or why it is not tried yet.
    fn check_back_off(&self, spec: &ImageSpec) -> Result<Entry, ImageProblem> {
        let key = (self.pod.uid.clone(), spec.image.clone());
        let known = self.inner.failures().get(&key).cloned();
        let now = self.inner.clock.now();
        let (entry, failed_at) = match &known {
            Some(failure) => (Some(failure.entry), failure.failed_at),
            None => (None, now),
        };
        match backoff::decide(entry, failed_at, now, PULL_LIMITS) {
            Verdict::Go { next } => Ok(next),
            Verdict::Wait { until, .. } => {
                let cause = known.map(|failure| failure.message).unwrap_or_default();
                let image = &spec.image;
                self.tell(EventType::Normal, "BackOff", format!("Back-off pulling image {image:?}"));
                Err(ImageProblem {
                    problem: ContainerProblem {
                        reason: "ImagePullBackOff".to_owned(),
                        message: format!("Back-off pulling image {image:?}: ErrImagePull: {cause}"),
                    },
                    retry_at: Some(until),
                })
            }
        }
    }

    fn pull_failed(&self, spec: &ImageSpec, entry: Entry, message: String) -> ImageProblem {
        self.tell(EventType::Warning, "Failed", format!("Failed to pull image {:?}: {message}", spec.image));
        self.tell(EventType::Warning, "Failed", "Error: ErrImagePull".to_owned());
        let failed_at = self.inner.clock.now();
        let key = (self.pod.uid.clone(), spec.image.clone());
        self.inner.failures().insert(key, Failure { entry, failed_at, message: message.clone() });
        ImageProblem {
            problem: ContainerProblem { reason: "ErrImagePull".to_owned(), message },
            retry_at: Some(failed_at.after(entry.delay)),
        }
    }

    /// Runtimes that pull per pod want to know which.
    fn sandbox(&self) -> SandboxSpec {
        SandboxSpec {
            name: self.pod.name().to_owned(),
            namespace: self.pod.namespace().to_owned(),
            uid: self.pod.uid.to_string(),
            ..SandboxSpec::default()
        }
    }

    fn tell(&self, kind: EventType, reason: &str, message: String) {
        self.inner.events.record(RecordedEvent {
            subject: EventSubject::Pod {
                uid: self.pod.uid.clone(),
                full_name: self.pod.full_name.clone(),
                field_path: self.container.field_path(),
            },
            kind,
            reason: reason.to_owned(),
            message,
            at: self.inner.clock.now(),
        });
    }
}
