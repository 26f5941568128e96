//! Rules that explain a pod by the state of its containers.

use k8s_openapi::api::core::v1::{Container, ContainerState, ContainerStateTerminated, ContainerStatus};
use model::{ContainerKind, ContainerRef, Timestamp};

use super::{ExplanationInputs, Finding, PodHealth, describe_termination, format_duration, hints};
use crate::pipeline::pod_actions::is_sidecar;

/// A container of the spec with its reported status.
struct ContainerEntry<'a> {
    spec: ContainerRef<'a>,
    status: Option<&'a ContainerStatus>,
}

impl<'a> ContainerEntry<'a> {
    fn name(&self) -> &'a str {
        &self.spec.container.name
    }

    fn state(&self) -> Option<&'a ContainerState> {
        self.status?.state.as_ref()
    }

    /// Reason and message of the waiting state.
    fn waiting(&self) -> Option<(&'a str, &'a str)> {
        let waiting = self.state()?.waiting.as_ref()?;
        Some((waiting.reason.as_deref().unwrap_or_default(), waiting.message.as_deref().unwrap_or_default()))
    }

    fn last_termination(&self) -> Option<&'a ContainerStateTerminated> {
        let own = self.state().and_then(|state| state.terminated.as_ref());
        own.or_else(|| self.status?.last_state.as_ref()?.terminated.as_ref())
    }

    fn restarts(&self) -> i32 {
        self.status.map_or(0, |status| status.restart_count)
    }

    fn running_since(&self) -> Option<Timestamp> {
        let running = self.state()?.running.as_ref()?;
        Some(running.started_at.as_ref().map(Timestamp::from_api_time).unwrap_or_default())
    }

    /// `container main` or `init container db`.
    fn title(&self) -> String {
        match self.spec.kind {
            ContainerKind::Init if is_sidecar(self.spec.container) => format!("sidecar {}", self.name()),
            ContainerKind::Init => format!("init container {}", self.name()),
            ContainerKind::Regular => format!("container {}", self.name()),
            ContainerKind::Ephemeral => format!("ephemeral container {}", self.name()),
        }
    }

    fn describe_termination(&self, now: Timestamp) -> Option<String> {
        let end = self.last_termination()?;
        let ago = end.finished_at.as_ref().map(|at| format_duration(now.since(Timestamp::from_api_time(at))));
        let ago = ago.map(|ago| format!(", {ago} ago")).unwrap_or_default();
        Some(format!("{} {}{ago}", self.title(), describe_termination(Some(self.spec.container), end)))
    }
}

fn entries<'a>(inputs: &ExplanationInputs<'a>) -> impl Iterator<Item = ContainerEntry<'a>> {
    let status = inputs.status;
    inputs.pod.containers().map(move |spec| {
        let list = match spec.kind {
            ContainerKind::Init => &status.init_container_statuses,
            ContainerKind::Regular => &status.container_statuses,
            ContainerKind::Ephemeral => &status.ephemeral_container_statuses,
        };
        let status = list.iter().flatten().find(|found| found.name == spec.container.name);
        ContainerEntry { spec, status }
    })
}

/// Descriptions of all terminated containers.
pub(super) fn terminations(inputs: &ExplanationInputs<'_>) -> Vec<String> {
    entries(inputs).filter_map(|entry| entry.describe_termination(inputs.now)).collect()
}

/// How often containers restarted, with their last termination.
pub(super) fn restarts(inputs: &ExplanationInputs<'_>) -> Vec<String> {
    let restarted = entries(inputs).filter(|entry| entry.restarts() > 0);
    restarted
        .map(|entry| {
            let count = format_count(entry.restarts());
            let end =
                entry.describe_termination(inputs.now).map(|end| format!("; {end}")).unwrap_or_default();
            format!("{} restarted {count}{end}", entry.title())
        })
        .collect()
}

/// Matches the containers that wait with a reason other than the default ones. The first one is explained, and the others
/// are named.
pub(super) fn waiting(inputs: &ExplanationInputs<'_>) -> Option<Finding> {
    let mut findings = entries(inputs).filter_map(|entry| waiting_container(inputs, &entry));
    let mut first = findings.next()?;
    for other in findings {
        first.causes.push(format!("also, the pod {}", other.summary));
        first.causes.extend(other.causes);
        first.next_try = first.next_try.into_iter().chain(other.next_try).min();
    }
    Some(first)
}

fn waiting_container(inputs: &ExplanationInputs<'_>, entry: &ContainerEntry<'_>) -> Option<Finding> {
    let (reason, message) = entry.waiting()?;
    if matches!(reason, "" | "ContainerCreating" | "PodInitializing") {
        return None;
    }
    let title = entry.title();
    let image = entry.spec.container.image.as_deref().unwrap_or_default();
    let pending = if entry.spec.kind == ContainerKind::Init { "cannot start" } else { "is not ready" };
    let missing = hints::missing_object(message);
    let summary = match reason {
        "CrashLoopBackOff" => return Some(crash_loop(inputs, entry)),
        "ErrImagePull" | "ImagePullBackOff" | "RegistryUnavailable" | "SignatureValidationFailed" => {
            format!("the image {image:?} of {title} cannot be pulled")
        }
        "ErrImageNeverPull" => {
            format!("the image {image:?} of {title} is not on this node, and may not be pulled")
        }
        "InvalidImageName" => format!("{image:?} of {title} is not a valid image name"),
        "ImageInspectError" => format!("the runtime cannot report whether it has the image {image:?}"),
        "CreateContainerConfigError" => match &missing {
            Some(object) => format!("{object}, which {title} needs, does not exist"),
            None => format!("{title} cannot be created from its spec"),
        },
        "PostStartHookError" => format!("the postStart hook of {title} failed, so it was stopped"),
        "CreateContainerError" | "RunContainerError" => {
            format!("the container runtime cannot start {title}")
        }
        other => format!("{title} waits ({other})"),
    };
    let causes = match reason {
        "ErrImagePull" | "ImagePullBackOff" | "RegistryUnavailable" | "SignatureValidationFailed" => {
            // The pull error follows the back-off message.
            let cause = message.rsplit_once("ErrImagePull: ").map_or(message, |(_, cause)| cause);
            [Some(cause.to_owned()), hints::pull(message).map(str::to_owned)]
        }
        "ErrImageNeverPull" => [Some(hints::NEVER_PULL.to_owned()), None],
        "CreateContainerConfigError" => {
            [Some(message.to_owned()), missing.map(|object| hints::create_object(&object))]
        }
        _ => [Some(message.to_owned()), None],
    };
    let finding = Finding::new(PodHealth::Blocked, format!("{pending}: {summary}"))
        .with_causes(causes.into_iter().flatten());
    // An invalid name stays invalid.
    Some(finding.retry_at(inputs.next_sync.filter(|_| reason != "InvalidImageName")))
}

fn crash_loop(inputs: &ExplanationInputs<'_>, entry: &ContainerEntry<'_>) -> Finding {
    let ended = entry.last_termination();
    let description = ended.map(|end| describe_termination(Some(entry.spec.container), end));
    let description = description.unwrap_or_else(|| "ended".to_owned());
    let summary = format!(
        "keeps restarting: {} {description}; it has been restarted {}",
        entry.title(),
        format_count(entry.restarts())
    );
    let ago = ended.and_then(|end| end.finished_at.as_ref());
    let ago = ago.map(|at| format_duration(inputs.now.since(Timestamp::from_api_time(at))));
    let mut causes: Vec<String> = ago
        .map(|ago| format!("it ended {ago} ago; the wait before a restart doubles each time, up to a limit"))
        .into_iter()
        .collect();
    if ended.is_some_and(|end| end.exit_code == 0) {
        causes.push(
            "a container that exits is restarted unless spec.restartPolicy is OnFailure or Never".to_owned(),
        );
    }
    causes.extend(failed_probe(inputs, entry, "Liveness").or_else(|| failed_probe(inputs, entry, "Startup")));
    causes.push(format!("what it wrote is `podward logs {} -c {}`", inputs.pod.name(), entry.name()));
    Finding::new(PodHealth::Blocked, summary).with_causes(causes).retry_at(crash_restart_time(inputs, entry))
}

/// When a crashed container is restarted; the back-off counts from its exit.
fn crash_restart_time(inputs: &ExplanationInputs<'_>, entry: &ContainerEntry<'_>) -> Option<Timestamp> {
    let (_, message) = entry.waiting()?;
    let wait = message.strip_prefix("back-off ")?.split_once('s')?.0.parse().ok()?;
    let observed = inputs.observed.and_then(|observed| observed.container(entry.name()));
    let ended = observed.map(|status| status.finished_at).filter(|at| !at.is_zero());
    let ended =
        ended.or_else(|| entry.last_termination()?.finished_at.as_ref().map(Timestamp::from_api_time))?;
    Some(ended.after(std::time::Duration::from_secs(wait)))
}

/// The newest failure of a probe of this container.
fn failed_probe(inputs: &ExplanationInputs<'_>, entry: &ContainerEntry<'_>, kind: &str) -> Option<String> {
    let path = entry.spec.field_path();
    let failed = inputs.events.iter().rev().find(|event| {
        let of_container =
            matches!(&event.subject, model::EventSubject::Pod { field_path, .. } if *field_path == path);
        of_container && event.reason == "Unhealthy" && event.message.starts_with(kind)
    })?;
    let ago = format_duration(inputs.now.since(failed.at));
    Some(format!("{} ({ago} ago)", failed.message.trim()))
}

/// Matches containers that exist but are not ready.
pub(super) fn not_ready(inputs: &ExplanationInputs<'_>) -> Option<Finding> {
    let all: Vec<ContainerEntry<'_>> = entries(inputs).collect();
    let init = all.iter().filter(|entry| entry.spec.kind == ContainerKind::Init);
    if let Some(found) = init.clone().find_map(|entry| unfinished_init_container(inputs, entry, &all)) {
        return Some(found);
    }
    let regular: Vec<&ContainerEntry<'_>> =
        all.iter().filter(|entry| entry.spec.kind == ContainerKind::Regular).collect();
    regular.iter().find_map(|entry| unready(inputs, entry))
}

fn unfinished_init_container(
    inputs: &ExplanationInputs<'_>,
    entry: &ContainerEntry<'_>,
    all: &[ContainerEntry<'_>],
) -> Option<Finding> {
    let init_containers: Vec<&ContainerEntry<'_>> =
        all.iter().filter(|other| other.spec.kind == ContainerKind::Init).collect();
    let position = init_containers.iter().position(|other| other.name() == entry.name())? + 1;
    let total = init_containers.len();
    if is_sidecar(entry.spec.container) {
        let started = entry.status.is_some_and(|status| status.started == Some(true));
        let since = entry.running_since().filter(|_| !started)?;
        let elapsed = format_duration(inputs.now.since(since));
        return Some(
            Finding::new(
                PodHealth::Starting,
                format!(
                    "waits for its {}, which is not started yet ({position} of {total}, for {elapsed} now)",
                    entry.title()
                ),
            )
            .with_causes(failed_probe(inputs, entry, "Startup")),
        );
    }
    if let Some(since) = entry.running_since() {
        let elapsed = format_duration(inputs.now.since(since));
        let summary = format!(
            "is still initializing: {} ({position} of {total}) has been running for {elapsed}",
            entry.title()
        );
        let hint = format!(
            "the other containers start when it has ended; what it wrote is `podward logs {} -c {}`",
            inputs.pod.name(),
            entry.name()
        );
        return Some(Finding::new(PodHealth::Starting, summary).with_causes([hint]));
    }
    let end = entry.state().and_then(|state| state.terminated.as_ref()).filter(|end| end.exit_code != 0)?;
    let summary = format!(
        "is still initializing: {} {}",
        entry.title(),
        describe_termination(Some(entry.spec.container), end)
    );
    Some(
        Finding::new(PodHealth::Blocked, summary)
            .with_causes(["it is restarted after the back-off".to_owned()])
            .retry_at(inputs.next_sync),
    )
}

fn unready(inputs: &ExplanationInputs<'_>, entry: &ContainerEntry<'_>) -> Option<Finding> {
    let title = entry.title();
    let Some(since) = entry.running_since() else {
        let end = entry.state().and_then(|state| state.terminated.as_ref())?;
        let description = describe_termination(Some(entry.spec.container), end);
        return Some(
            Finding::new(PodHealth::Blocked, format!("is not ready: {title} {description}"))
                .retry_at(inputs.next_sync),
        );
    };
    if entry.status.is_some_and(|status| status.ready) {
        return None;
    }
    let started = entry.status.is_none_or(|status| status.started != Some(false));
    let kind = if started { "Readiness" } else { "Startup" };
    let has_probe = has_probe(entry.spec.container, kind);
    let elapsed = format_duration(inputs.now.since(since));
    let failed = failed_probe(inputs, entry, kind);
    let restarts =
        (entry.restarts() > 0).then(|| format!("{title} has restarted {}", format_count(entry.restarts())));
    let end = restarts.as_ref().and_then(|_| entry.describe_termination(inputs.now));
    let lower = kind.to_lowercase();
    let (health, summary) = match (&failed, has_probe) {
        (Some(_), _) => (PodHealth::Blocked, format!("is not ready: the {lower} probe of {title} fails")),
        (None, true) => (
            PodHealth::Starting,
            format!(
                "is not ready yet: the {lower} probe of {title}, which has run for {elapsed}, has not succeeded"
            ),
        ),
        (None, false) => (PodHealth::Starting, format!("is not ready yet: {title} started {elapsed} ago")),
    };
    let liveness = failed_probe(inputs, entry, "Liveness");
    Some(
        Finding::new(health, summary)
            .with_causes(failed.into_iter().chain(liveness).chain(restarts).chain(end)),
    )
}

fn has_probe(container: &Container, kind: &str) -> bool {
    match kind {
        "Readiness" => container.readiness_probe.is_some(),
        _ => container.startup_probe.is_some(),
    }
}

fn format_count(count: i32) -> String {
    match count {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        count => format!("{count} times"),
    }
}
