//! Explains the state of a pod to a person: one sentence, its causes, and the time of the next retry.
//!
//! Inputs are the spec, status, observation, worker, timeline, events and node problems. The output is text only; no
//! decision depends on it. The first rule that matches provides the sentence; causes are ordered from direct to indirect.

mod containers;
mod hints;
mod termination;
#[cfg(test)]
mod tests;

use std::time::Duration;

use k8s_openapi::api::core::v1::PodStatus;
use model::{
    Observation, ObservedPod, Pod, PodTimeline, RecordedEvent, Rejection, RejectionKind, Standing, StartStep,
    Timestamp, WorkerPhase, WorkerProgress, WorkerView,
};

pub use termination::describe_termination;

/// Everything an explanation is derived from.
#[derive(Clone, Copy)]
pub struct ExplanationInputs<'a> {
    pub pod: &'a Pod,
    pub status: &'a PodStatus,
    pub observed: Option<&'a ObservedPod>,
    pub worker: Option<&'a WorkerView>,
    pub timeline: Option<&'a PodTimeline>,
    /// Events of the pod, newest last.
    pub events: &'a [RecordedEvent],
    /// Latest time of the next sync.
    pub next_sync: Option<Timestamp>,
    pub node: NodeProblems<'a>,
    pub now: Timestamp,
}

#[derive(Clone, Copy, Default)]
pub struct NodeProblems<'a> {
    /// Why the runtime is not ready.
    pub runtime: Option<&'a str>,
    /// Why the runtime network is not ready.
    pub network: Option<&'a str>,
    /// Why the agent is unhealthy.
    pub agent: Option<&'a str>,
}

/// One-word summary of an explanation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodHealth {
    /// Running and ready, or succeeded.
    Fine,
    Starting,
    /// Not ready because of a problem.
    Blocked,
    Stopping,
    Failed,
}

impl PodHealth {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Fine => "Fine",
            Self::Starting => "Starting",
            Self::Blocked => "Blocked",
            Self::Stopping => "Stopping",
            Self::Failed => "Failed",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    pub health: PodHealth,
    /// Starts with the pod's name.
    pub sentence: String,
    /// From direct to indirect; may include a hint on how to fix it.
    pub causes: Vec<String>,
    pub next_try: Option<Timestamp>,
}

/// The result of one rule; `summary` is the sentence without the pod name.
pub(crate) struct Finding {
    health: PodHealth,
    summary: String,
    causes: Vec<String>,
    next_try: Option<Timestamp>,
}

impl Finding {
    fn new(health: PodHealth, summary: impl Into<String>) -> Self {
        Self { health, summary: summary.into(), causes: Vec::new(), next_try: None }
    }

    fn with_causes(mut self, causes: impl IntoIterator<Item = String>) -> Self {
        self.causes.extend(causes.into_iter().filter(|cause| !cause.is_empty()));
        self
    }

    fn retry_at(mut self, at: Option<Timestamp>) -> Self {
        self.next_try = at;
        self
    }
}

pub fn explain(inputs: &ExplanationInputs<'_>) -> Explanation {
    let found = terminal(inputs)
        .or_else(|| stopping(inputs))
        .or_else(|| ready(inputs))
        .or_else(|| node_problem(inputs))
        .or_else(|| containers::waiting(inputs))
        .or_else(|| start_in_progress(inputs))
        .or_else(|| last_sync_failed(inputs))
        .or_else(|| containers::not_ready(inputs))
        .or_else(|| readiness_gates(inputs))
        .unwrap_or_else(|| no_finding(inputs));
    let mut causes = found.causes;
    if inputs.pod.standing == Standing::Remembered {
        causes.push(
            "the API server has not answered since the agent started; the pod runs from the cached spec"
                .to_owned(),
        );
    }
    let mut seen = std::collections::BTreeSet::new();
    causes.retain(|cause| seen.insert(cause.clone()));
    Explanation {
        health: found.health,
        sentence: format!("Pod {} {}.", inputs.pod.full_name, found.summary.trim_end_matches('.')),
        causes,
        next_try: found.next_try.filter(|at| *at > inputs.now),
    }
}

impl ExplanationInputs<'_> {
    fn phase(&self) -> &str {
        self.status.phase.as_deref().unwrap_or("Pending")
    }

    /// The state of a condition and its message.
    fn condition(&self, name: &str) -> Option<(&str, Option<&str>)> {
        let condition = self.status.conditions.iter().flatten().find(|found| found.type_ == name)?;
        Some((&condition.status, condition.message.as_deref()))
    }

    /// The newest event of the pod with one of these reasons, restricted to a field path if given.
    fn event(&self, reasons: &[&str], field_path: Option<&str>) -> Option<&RecordedEvent> {
        self.events.iter().rev().find(|event| {
            let part = match &event.subject {
                model::EventSubject::Pod { field_path, .. } => field_path.as_str(),
                model::EventSubject::Node(_)
                | model::EventSubject::Volume { .. }
                | model::EventSubject::Claim { .. } => return false,
            };
            reasons.contains(&event.reason.as_str()) && field_path.is_none_or(|path| path == part)
        })
    }
}

/// Matches a pod that was rejected or has a terminal phase.
fn terminal(inputs: &ExplanationInputs<'_>) -> Option<Finding> {
    if let Some(rejection) = inputs.worker.and_then(|worker| worker.rejection.as_ref()) {
        let (reason, message) = (rejection.reason.as_str(), rejection.status_message().into_owned());
        return Some(match rejection.kind {
            RejectionKind::Admission => not_admitted(reason, message),
            RejectionKind::Deadline
            | RejectionKind::Preemption
            | RejectionKind::NodePressure
            | RejectionKind::StorageLimit
            | RejectionKind::NodeShutdown => ended_by_agent(reason, message),
        });
    }
    match inputs.phase() {
        "Succeeded" => Some(
            Finding::new(PodHealth::Fine, "has run to its end: every container ended with exit code 0")
                .with_causes(containers::terminations(inputs)),
        ),
        "Failed" => {
            if let Some(reason) = inputs.status.reason.as_deref() {
                let message = inputs.status.message.clone().unwrap_or_default();
                return Some(if Rejection::is_at_admission(&message) {
                    not_admitted(reason, message)
                } else {
                    ended_by_agent(reason, message)
                });
            }
            Some(
                Finding::new(PodHealth::Failed, "has failed and is not started again")
                    .with_causes(containers::terminations(inputs)),
            )
        }
        _ => None,
    }
}

fn not_admitted(reason: &str, message: String) -> Finding {
    rejected(format!("was rejected by this node: {reason}"), reason, message)
}

fn ended_by_agent(reason: &str, message: String) -> Finding {
    rejected(format!("was terminated by the agent: {reason}"), reason, message)
}

fn rejected(summary: String, reason: &str, message: String) -> Finding {
    let hint = hints::rejection(reason).map(str::to_owned);
    Finding::new(PodHealth::Failed, summary).with_causes([message].into_iter().chain(hint))
}

fn stopping(inputs: &ExplanationInputs<'_>) -> Option<Finding> {
    let worker = inputs.worker?;
    let summary = match worker.phase {
        WorkerPhase::Syncing => return None,
        WorkerPhase::Terminating => "is being stopped",
        WorkerPhase::Terminated => "has stopped and is being cleaned up",
        WorkerPhase::Finished => "has stopped and was removed from the runtime",
    };
    let running = inputs.observed.map(|seen| seen.running().map(|c| c.name.clone()).collect::<Vec<_>>());
    let running = running.filter(|names| !names.is_empty());
    let grace = inputs.pod.metadata.deletion_grace_period_seconds;
    let grace = grace.or(inputs.pod.spec.termination_grace_period_seconds).unwrap_or(30);
    let still = running.map(|names| {
        format!("still running: {}; grace period {grace} s from the stop signal", names.join(", "))
    });
    let restart =
        worker.restart_requested.then(|| "the same pod is desired again and starts afterwards".to_owned());
    let error =
        worker.last_error.as_ref().map(|error| format!("the last attempt to stop it failed: {error}"));
    Some(
        Finding::new(PodHealth::Stopping, summary)
            .with_causes(still.into_iter().chain(error).chain(restart))
            .retry_at(inputs.next_sync.filter(|_| worker.last_error.is_some())),
    )
}

fn ready(inputs: &ExplanationInputs<'_>) -> Option<Finding> {
    if inputs.condition("Ready")?.0 != "True" {
        return None;
    }
    let restarts = containers::restarts(inputs);
    let summary = if restarts.is_empty() {
        "is running and ready"
    } else {
        "is running and ready, but containers of it have restarted"
    };
    Some(Finding::new(PodHealth::Fine, summary).with_causes(restarts))
}

/// Matches node problems that affect every pod.
fn node_problem(inputs: &ExplanationInputs<'_>) -> Option<Finding> {
    let problems = &inputs.node;
    if let Some(problem) = problems.runtime {
        return Some(
            Finding::new(PodHealth::Blocked, "waits for the container runtime, which is not ready")
                .with_causes([problem.to_owned(), hints::RUNTIME.to_owned()]),
        );
    }
    if let Some(ObservedPod { observation: Observation::Failed(reason), .. }) = inputs.observed {
        return Some(
            Finding::new(
                PodHealth::Blocked,
                "cannot be observed: the container runtime does not answer for it",
            )
            .with_causes([reason.clone()])
            .retry_at(inputs.next_sync),
        );
    }
    let has_sandbox = inputs.observed.is_some_and(ObservedPod::is_alive);
    if let Some(problem) = problems.network.filter(|_| !inputs.pod.is_host_network() && !has_sandbox) {
        return Some(
            Finding::new(PodHealth::Blocked, "waits for the network of the container runtime")
                .with_causes([problem.to_owned(), hints::NETWORK.to_owned()])
                .retry_at(inputs.next_sync),
        );
    }
    problems.agent.map(|problem| {
        Finding::new(PodHealth::Blocked, "waits for the agent, which is not healthy")
            .with_causes([problem.to_owned()])
    })
}

/// Matches a start step that is in progress.
fn start_in_progress(inputs: &ExplanationInputs<'_>) -> Option<Finding> {
    let open = |span: model::StepSpan| span.finished_at.is_none().then_some(span.started_at);
    let steps = &inputs.timeline?.steps;
    let mut open: Vec<_> = steps.iter().filter_map(|row| Some((open(row.newest())?, row))).collect();
    open.sort_by_key(|(since, _)| *since);
    let (since, row) = open.first()?;
    let elapsed = format_duration(inputs.now.since(*since));
    let of = row.container.as_deref().map(|name| format!(" of container {name}")).unwrap_or_default();
    let summary = match row.step {
        StartStep::Volumes => format!("is starting: its volumes are being set up, for {elapsed} now"),
        StartStep::Sandbox => {
            format!("is starting: its sandbox and network are being created, for {elapsed} now")
        }
        StartStep::Image => match inputs.event(&["Pulling"], None) {
            Some(event) if event.at >= *since => {
                format!("is starting: the image{of} is being pulled, for {elapsed} now")
            }
            Some(_) | None => format!("is starting: the image{of} is being checked, for {elapsed} now"),
        },
        StartStep::Create | StartStep::Start => {
            format!("is starting: the process{of} is being started, for {elapsed} now")
        }
        StartStep::FirstProbe => return None,
    };
    let last = inputs.worker.and_then(|worker| worker.last_error.as_ref());
    let last = last.map(|error| format!("the previous attempt failed: {error}"));
    let mount = inputs.event(&["FailedMount"], None).filter(|_| row.step == StartStep::Volumes);
    Some(
        Finding::new(PodHealth::Starting, summary)
            .with_causes(last.into_iter().chain(mount.map(|event| event.message.clone()))),
    )
}

/// Matches a worker whose last sync failed.
fn last_sync_failed(inputs: &ExplanationInputs<'_>) -> Option<Finding> {
    let error = inputs.worker?.last_error.as_ref()?;
    let caused_by_event =
        |reason| inputs.event(&[reason], None).is_some_and(|event| error.contains(&*event.message));
    let missing = hints::missing_object(error);
    let summary = if let Some(object) = &missing {
        format!("cannot start: {object} does not exist")
    } else if caused_by_event("FailedMount") {
        "cannot start: a volume cannot be set up".to_owned()
    } else if error.contains("sandbox") {
        "cannot start: its sandbox cannot be created".to_owned()
    } else {
        "cannot start".to_owned()
    };
    let hint = missing.map(|object| hints::create_object(&object));
    Some(
        Finding::new(PodHealth::Blocked, summary)
            .with_causes([error.clone()].into_iter().chain(hint))
            .retry_at(inputs.next_sync),
    )
}

/// Matches readiness gates that are not `True`.
fn readiness_gates(inputs: &ExplanationInputs<'_>) -> Option<Finding> {
    let gates = inputs.pod.spec.readiness_gates.iter().flatten();
    let waiting: Vec<String> = gates
        .filter(|gate| inputs.condition(&gate.condition_type).is_none_or(|(status, _)| status != "True"))
        .map(|gate| {
            format!("readiness gate {} is not True, its controller has to set it", gate.condition_type)
        })
        .collect();
    let first = inputs.pod.spec.readiness_gates.iter().flatten().next()?.condition_type.clone();
    (!waiting.is_empty()).then(|| {
        Finding::new(
            PodHealth::Blocked,
            format!("runs but is not ready: its readiness gate {first} is not set"),
        )
        .with_causes(waiting)
    })
}

fn no_finding(inputs: &ExplanationInputs<'_>) -> Finding {
    let summary = match inputs.worker {
        None => "has not been synced yet",
        Some(worker) if worker.progress == WorkerProgress::NotStarted => {
            "waits: another pod of the same name has not terminated yet, or the agent has just started"
        }
        Some(_) => "is starting",
    };
    let message = inputs.condition("Ready").and_then(|(_, message)| message).unwrap_or_default();
    Finding::new(PodHealth::Starting, summary).with_causes([message.to_owned()]).retry_at(inputs.next_sync)
}

/// Formats a duration with one unit, for example `15 s` or `3 min`.
pub fn format_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{} ms", duration.as_millis()),
        1..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}
