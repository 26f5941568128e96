//! Why a pod is as it is: one plain sentence, the causes, and when something is tried again.
//!
//! Comes in: spec, status, observation, worker, timeline, events and the state of the node. Goes out: text for people;
//! nothing is decided by it. The first rule that has something to say makes the sentence, the nearest cause first.

mod containers;
mod ended;
mod hints;
#[cfg(test)]
mod tests;

use std::time::Duration;

use k8s_openapi::api::core::v1::PodStatus;
use model::{
    Observation, ObservedPod, Pod, PodTimeline, RecordedEvent, Rejection, Standing, StartStep, Timestamp,
    WorkerPhase, WorkerView,
};

pub use ended::describe_end;

/// Everything that is known of a pod.
#[derive(Clone, Copy)]
pub struct Situation<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// What is reported of it.
    pub status: &'a PodStatus,
    /// What the runtime holds of it.
    pub observed: Option<&'a ObservedPod>,
    /// How far its worker is.
    pub worker: Option<&'a WorkerView>,
    /// How it came to run.
    pub timeline: Option<&'a PodTimeline>,
    /// Its events, the newest last.
    pub events: &'a [RecordedEvent],
    /// When its worker looks at it again at the latest.
    pub next_pass: Option<Timestamp>,
    /// What is wrong with the node.
    pub node: NodeProblems<'a>,
    /// Now.
    pub now: Timestamp,
}

/// What is wrong with the node.
#[derive(Clone, Copy, Default)]
pub struct NodeProblems<'a> {
    /// Why the runtime cannot be used.
    pub runtime: Option<&'a str>,
    /// Why its network cannot be used.
    pub network: Option<&'a str>,
    /// Why the agent itself counts as stuck.
    pub agent: Option<&'a str>,
}

/// How a pod is, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It runs and is ready, or has run to its end.
    Fine,
    /// It is on its way.
    Starting,
    /// Something keeps it from being ready.
    Blocked,
    /// It is being stopped.
    Stopping,
    /// It is over and did not end well.
    Failed,
}

impl Verdict {
    /// The word shown to users.
    #[must_use]
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

/// Why a pod is as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// In one word.
    pub verdict: Verdict,
    /// In one sentence, which begins with the pod's name.
    pub sentence: String,
    /// What stands behind it, the nearest first; may say what to do.
    pub causes: Vec<String>,
    /// When it is tried again.
    pub next_try: Option<Timestamp>,
}

/// A sentence about the pod without its name, and what stands behind it.
pub(crate) struct Finding {
    verdict: Verdict,
    says: String,
    causes: Vec<String>,
    next_try: Option<Timestamp>,
}

impl Finding {
    fn new(verdict: Verdict, says: impl Into<String>) -> Self {
        Self { verdict, says: says.into(), causes: Vec::new(), next_try: None }
    }

    fn because(mut self, causes: impl IntoIterator<Item = String>) -> Self {
        self.causes.extend(causes.into_iter().filter(|cause| !cause.is_empty()));
        self
    }

    fn again(mut self, at: Option<Timestamp>) -> Self {
        self.next_try = at;
        self
    }
}

/// Explains a pod.
#[must_use]
pub fn explain(situation: &Situation<'_>) -> Explanation {
    let found = over(situation)
        .or_else(|| stopping(situation))
        .or_else(|| ready(situation))
        .or_else(|| node(situation))
        .or_else(|| containers::waiting(situation))
        .or_else(|| under_way(situation))
        .or_else(|| last_pass(situation))
        .or_else(|| containers::not_ready(situation))
        .or_else(|| gates(situation))
        .unwrap_or_else(|| nothing_known(situation));
    let mut causes = found.causes;
    if situation.pod.standing == Standing::Remembered {
        causes.push(
            "the API server has not answered since the agent started; the pod runs as it was known last"
                .to_owned(),
        );
    }
    let mut seen = std::collections::BTreeSet::new();
    causes.retain(|cause| seen.insert(cause.clone()));
    Explanation {
        verdict: found.verdict,
        sentence: format!("Pod {} {}.", situation.pod.full_name, found.says.trim_end_matches('.')),
        causes,
        next_try: found.next_try.filter(|at| *at > situation.now),
    }
}

impl Situation<'_> {
    fn phase(&self) -> &str {
        self.status.phase.as_deref().unwrap_or("Pending")
    }

    /// The state of a condition and its message.
    fn condition(&self, name: &str) -> Option<(&str, Option<&str>)> {
        let condition = self.status.conditions.iter().flatten().find(|found| found.type_ == name)?;
        Some((&condition.status, condition.message.as_deref()))
    }

    /// The newest event of one of these reasons, of the pod or of the part at a field path.
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

/// A pod whose life is over.
fn over(situation: &Situation<'_>) -> Option<Finding> {
    if let Some(rejection) = situation.worker.and_then(|worker| worker.rejection.as_ref()) {
        return Some(rejected(rejection));
    }
    match situation.phase() {
        "Succeeded" => Some(
            Finding::new(Verdict::Fine, "has run to its end: every container ended with exit code 0")
                .because(containers::ends(situation)),
        ),
        "Failed" => {
            if let Some(reason) = situation.status.reason.as_deref() {
                let message = situation.status.message.clone().unwrap_or_default();
                return Some(rejected(&Rejection { reason: reason.to_owned(), message }));
            }
            Some(
                Finding::new(Verdict::Failed, "has failed and is not started again")
                    .because(containers::ends(situation)),
            )
        }
        _ => None,
    }
}

fn rejected(rejection: &Rejection) -> Finding {
    let says = if rejection.is_at_admission() {
        format!("was refused by this node: {}", rejection.reason)
    } else {
        format!("was ended by the agent: {}", rejection.reason)
    };
    let hint = hints::rejection(&rejection.reason);
    Finding::new(Verdict::Failed, says)
        .because([rejection.message.clone()].into_iter().chain(hint.map(str::to_owned)))
}

fn stopping(situation: &Situation<'_>) -> Option<Finding> {
    let worker = situation.worker?;
    let says = match worker.phase {
        WorkerPhase::Syncing => return None,
        WorkerPhase::Terminating => "is being stopped",
        WorkerPhase::Terminated => "has stopped; what it left behind is being cleaned up",
        WorkerPhase::Finished => "has stopped and is gone from the runtime",
    };
    let running = situation.observed.map(|seen| seen.running().map(|c| c.name.clone()).collect::<Vec<_>>());
    let running = running.filter(|names| !names.is_empty());
    let grace = situation.pod.metadata.deletion_grace_period_seconds;
    let grace = grace.or(situation.pod.spec.termination_grace_period_seconds).unwrap_or(30);
    let still = running.map(|names| {
        format!("still running: {}; they have {grace} s from the stop signal to their end", names.join(", "))
    });
    let again = worker.restart_requested;
    let again = again.then(|| "the same pod is wanted again and starts afterwards".to_owned());
    let error = worker.last_error.as_ref().map(|error| format!("the last try to stop it failed: {error}"));
    Some(
        Finding::new(Verdict::Stopping, says)
            .because(still.into_iter().chain(error).chain(again))
            .again(situation.next_pass.filter(|_| worker.last_error.is_some())),
    )
}

fn ready(situation: &Situation<'_>) -> Option<Finding> {
    if situation.condition("Ready")?.0 != "True" {
        return None;
    }
    let restarts = containers::restarts(situation);
    let says = if restarts.is_empty() {
        "is running and ready"
    } else {
        "is running and ready, but containers of it have restarted"
    };
    Some(Finding::new(Verdict::Fine, says).because(restarts))
}

/// What keeps every pod of the node from starting.
fn node(situation: &Situation<'_>) -> Option<Finding> {
    let problems = &situation.node;
    if let Some(problem) = problems.runtime {
        return Some(
            Finding::new(Verdict::Blocked, "waits for the container runtime, which is not ready")
                .because([problem.to_owned(), hints::RUNTIME.to_owned()]),
        );
    }
    if let Some(ObservedPod { observation: Observation::Failed(reason), .. }) = situation.observed {
        return Some(
            Finding::new(
                Verdict::Blocked,
                "cannot be looked at: the container runtime does not answer for it",
            )
            .because([reason.clone()])
            .again(situation.next_pass),
        );
    }
    let has_sandbox = situation.observed.is_some_and(ObservedPod::is_alive);
    if let Some(problem) = problems.network.filter(|_| !situation.pod.is_host_network() && !has_sandbox) {
        return Some(
            Finding::new(Verdict::Blocked, "waits for the network of the container runtime")
                .because([problem.to_owned(), hints::NETWORK.to_owned()])
                .again(situation.next_pass),
        );
    }
    problems.agent.map(|problem| {
        Finding::new(Verdict::Blocked, "waits for the agent, which is not well").because([problem.to_owned()])
    })
}

/// A step of the start that is being made at this moment.
fn under_way(situation: &Situation<'_>) -> Option<Finding> {
    let open = |span: model::StepSpan| span.finished_at.is_none().then_some(span.started_at);
    let steps = &situation.timeline?.steps;
    let mut open: Vec<_> = steps.iter().filter_map(|row| Some((open(row.newest())?, row))).collect();
    open.sort_by_key(|(since, _)| *since);
    let (since, row) = open.first()?;
    let long = words(situation.now.since(*since));
    let of = row.container.as_deref().map(|name| format!(" of container {name}")).unwrap_or_default();
    let says = match row.step {
        StartStep::Volumes => format!("is starting: its volumes are being set up, for {long} now"),
        StartStep::Sandbox => format!("is starting: its sandbox and network are being made, for {long} now"),
        StartStep::Image => match situation.event(&["Pulling"], None) {
            Some(event) if event.at >= *since => {
                format!("is starting: the image{of} is being pulled, for {long} now")
            }
            Some(_) | None => format!("is starting: the image{of} is being looked for, for {long} now"),
        },
        StartStep::Create | StartStep::Start => {
            format!("is starting: the process{of} is being started, for {long} now")
        }
        StartStep::FirstProbe => return None,
    };
    let last = situation.worker.and_then(|worker| worker.last_error.as_ref());
    let last = last.map(|error| format!("the try before failed: {error}"));
    let mount = situation.event(&["FailedMount"], None).filter(|_| row.step == StartStep::Volumes);
    Some(
        Finding::new(Verdict::Starting, says)
            .because(last.into_iter().chain(mount.map(|event| event.message.clone()))),
    )
}

/// The worker's last pass failed as a whole.
fn last_pass(situation: &Situation<'_>) -> Option<Finding> {
    let error = situation.worker?.last_error.as_ref()?;
    let told = |reason| situation.event(&[reason], None).is_some_and(|event| error.contains(&*event.message));
    let missing = hints::missing_object(error);
    let says = if let Some(object) = &missing {
        format!("cannot start: {object} does not exist")
    } else if told("FailedMount") {
        "cannot start: a volume cannot be set up".to_owned()
    } else if error.contains("sandbox") {
        "cannot start: its sandbox cannot be made".to_owned()
    } else {
        "cannot start".to_owned()
    };
    let hint = missing.map(|object| hints::make_object(&object));
    Some(
        Finding::new(Verdict::Blocked, says)
            .because([error.clone()].into_iter().chain(hint))
            .again(situation.next_pass),
    )
}

/// Conditions that others set and the pod waits for.
fn gates(situation: &Situation<'_>) -> Option<Finding> {
    let gates = situation.pod.spec.readiness_gates.iter().flatten();
    let waiting: Vec<String> = gates
        .filter(|gate| situation.condition(&gate.condition_type).is_none_or(|(status, _)| status != "True"))
        .map(|gate| format!("readiness gate {} is not True; whoever owns it sets it", gate.condition_type))
        .collect();
    let first = situation.pod.spec.readiness_gates.iter().flatten().next()?.condition_type.clone();
    (!waiting.is_empty()).then(|| {
        Finding::new(
            Verdict::Blocked,
            format!("runs but is not ready: its readiness gate {first} is not set"),
        )
        .because(waiting)
    })
}

fn nothing_known(situation: &Situation<'_>) -> Finding {
    let says = match situation.worker {
        None => "is known, but nothing was done for it yet",
        Some(worker) if !worker.started => {
            "waits its turn: another pod of the same name has not ended yet, or the agent has just started"
        }
        Some(_) => "is starting",
    };
    let message = situation.condition("Ready").and_then(|(_, message)| message).unwrap_or_default();
    Finding::new(Verdict::Starting, says).because([message.to_owned()]).again(situation.next_pass)
}

/// A duration for people.
#[must_use]
pub fn words(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 => format!("{} ms", duration.as_millis()),
        1..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}
