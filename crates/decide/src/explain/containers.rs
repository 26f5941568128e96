//! What the containers of a pod wait for.

use k8s_openapi::api::core::v1::{Container, ContainerState, ContainerStateTerminated, ContainerStatus};
use model::{ContainerKind, ContainerRef, Timestamp};

use super::{Finding, Situation, Verdict, describe_end, hints, words};
use crate::pod_actions::is_sidecar;

/// A container of the spec and what is reported of it.
struct Entry<'a> {
    spec: ContainerRef<'a>,
    status: Option<&'a ContainerStatus>,
}

impl<'a> Entry<'a> {
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

    fn last_end(&self) -> Option<&'a ContainerStateTerminated> {
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

    fn describe_end(&self, now: Timestamp) -> Option<String> {
        let end = self.last_end()?;
        let ago = end.finished_at.as_ref().map(|at| words(now.since(Timestamp::from_api_time(at))));
        let ago = ago.map(|ago| format!(", {ago} ago")).unwrap_or_default();
        Some(format!("{} {}{ago}", self.title(), describe_end(Some(self.spec.container), end)))
    }
}

fn entries<'a>(situation: &Situation<'a>) -> impl Iterator<Item = Entry<'a>> {
    let status = situation.status;
    situation.pod.containers().map(move |spec| {
        let list = match spec.kind {
            ContainerKind::Init => &status.init_container_statuses,
            ContainerKind::Regular => &status.container_statuses,
            ContainerKind::Ephemeral => &status.ephemeral_container_statuses,
        };
        let status = list.iter().flatten().find(|found| found.name == spec.container.name);
        Entry { spec, status }
    })
}

/// How containers ended that did.
pub(super) fn ends(situation: &Situation<'_>) -> Vec<String> {
    entries(situation).filter_map(|entry| entry.describe_end(situation.now)).collect()
}

/// How often containers restarted, and why the last time.
pub(super) fn restarts(situation: &Situation<'_>) -> Vec<String> {
    let restarted = entries(situation).filter(|entry| entry.restarts() > 0);
    restarted
        .map(|entry| {
            let count = times(entry.restarts());
            let end = entry.describe_end(situation.now).map(|end| format!("; {end}")).unwrap_or_default();
            format!("{} restarted {count}{end}", entry.title())
        })
        .collect()
}

/// The first container that cannot be started for a reason of its own.
pub(super) fn waiting(situation: &Situation<'_>) -> Option<Finding> {
    let entry = entries(situation).find(|entry| {
        entry
            .waiting()
            .is_some_and(|(reason, _)| !matches!(reason, "" | "ContainerCreating" | "PodInitializing"))
    })?;
    let (reason, message) = entry.waiting()?;
    let title = entry.title();
    let image = entry.spec.container.image.as_deref().unwrap_or_default();
    let again = situation.next_pass;
    let blocked = |says: String| Finding::new(Verdict::Blocked, says);
    let pending = if entry.spec.kind == ContainerKind::Init { "cannot start" } else { "is not ready" };
    Some(match reason {
        "CrashLoopBackOff" => crash_loop(situation, &entry),
        "ErrImagePull" | "ImagePullBackOff" | "RegistryUnavailable" | "SignatureValidationFailed" => {
            // What failed stands behind the words about the wait.
            let cause = message.rsplit_once("ErrImagePull: ").map_or(message, |(_, cause)| cause);
            let hint = hints::pull(message).map(str::to_owned);
            blocked(format!("{pending}: the image {image:?} of {title} cannot be pulled"))
                .because([cause.to_owned()].into_iter().chain(hint))
                .again(again)
        }
        "ErrImageNeverPull" => blocked(format!(
            "{pending}: the image {image:?} of {title} is not on this node, and may not be pulled"
        ))
        .because([
            "imagePullPolicy is Never: import the image into the container runtime, or use IfNotPresent"
                .to_owned(),
        ])
        .again(again),
        "InvalidImageName" => {
            blocked(format!("{pending}: {image:?} of {title} is no image name")).because([message.to_owned()])
        }
        "ImageInspectError" => {
            blocked(format!("{pending}: the runtime cannot say whether it has the image {image:?}"))
                .because([message.to_owned()])
                .again(again)
        }
        "CreateContainerConfigError" => match hints::missing_object(message) {
            Some(object) => blocked(format!("{pending}: {object}, which {title} needs, does not exist"))
                .because([message.to_owned(), hints::make_object(&object)])
                .again(again),
            None => blocked(format!("{pending}: {title} cannot be made from its spec"))
                .because([message.to_owned()])
                .again(again),
        },
        "PostStartHookError" => {
            blocked(format!("{pending}: the postStart hook of {title} failed, so it was stopped"))
                .because([message.to_owned()])
                .again(again)
        }
        "CreateContainerError" | "RunContainerError" => {
            blocked(format!("{pending}: the container runtime cannot start {title}"))
                .because([message.to_owned()])
                .again(again)
        }
        other => {
            blocked(format!("{pending}: {title} waits ({other})")).because([message.to_owned()]).again(again)
        }
    })
}

fn crash_loop(situation: &Situation<'_>, entry: &Entry<'_>) -> Finding {
    let ended = entry.last_end();
    let how = ended.map(|end| describe_end(Some(entry.spec.container), end));
    let how = how.unwrap_or_else(|| "ended".to_owned());
    let says = format!(
        "keeps restarting: {} {how}; it has been restarted {}",
        entry.title(),
        times(entry.restarts())
    );
    let ago = ended.and_then(|end| end.finished_at.as_ref());
    let ago = ago.map(|at| words(situation.now.since(Timestamp::from_api_time(at))));
    let mut causes: Vec<String> = ago
        .map(|ago| format!("it ended {ago} ago; the wait before a restart doubles each time, up to a limit"))
        .into_iter()
        .collect();
    if ended.is_some_and(|end| end.exit_code == 0) {
        causes.push(
            "a container that ends is started again unless spec.restartPolicy is OnFailure or Never"
                .to_owned(),
        );
    }
    causes.extend(
        failed_probe(situation, entry, "Liveness").or_else(|| failed_probe(situation, entry, "Startup")),
    );
    causes.push(format!("what it wrote is `podward logs {} -c {}`", situation.pod.name(), entry.name()));
    Finding::new(Verdict::Blocked, says).because(causes).again(crash_retry(situation, entry))
}

/// When a crashed container is started again: the wait counts from its end.
fn crash_retry(situation: &Situation<'_>, entry: &Entry<'_>) -> Option<Timestamp> {
    let (_, message) = entry.waiting()?;
    let wait = message.strip_prefix("back-off ")?.split_once('s')?.0.parse().ok()?;
    let seen = situation.observed.and_then(|seen| seen.container(entry.name()));
    let ended = seen.map(|status| status.finished_at).filter(|at| !at.is_zero());
    let ended = ended.or_else(|| entry.last_end()?.finished_at.as_ref().map(Timestamp::from_api_time))?;
    Some(ended.after(std::time::Duration::from_secs(wait)))
}

/// What a probe said when it failed last.
fn failed_probe(situation: &Situation<'_>, entry: &Entry<'_>, kind: &str) -> Option<String> {
    let path = entry.spec.field_path();
    let failed = situation.events.iter().rev().find(|event| {
        let of_container =
            matches!(&event.subject, model::EventSubject::Pod { field_path, .. } if *field_path == path);
        of_container && event.reason == "Unhealthy" && event.message.starts_with(kind)
    })?;
    let ago = words(situation.now.since(failed.at));
    Some(format!("{} ({ago} ago)", failed.message.trim()))
}

/// Containers that are there, but not ready.
pub(super) fn not_ready(situation: &Situation<'_>) -> Option<Finding> {
    let all: Vec<Entry<'_>> = entries(situation).collect();
    let init = all.iter().filter(|entry| entry.spec.kind == ContainerKind::Init);
    if let Some(found) = init.clone().find_map(|entry| init_under_way(situation, entry, &all)) {
        return Some(found);
    }
    let regular: Vec<&Entry<'_>> =
        all.iter().filter(|entry| entry.spec.kind == ContainerKind::Regular).collect();
    regular.iter().find_map(|entry| unready(situation, entry))
}

fn init_under_way(situation: &Situation<'_>, entry: &Entry<'_>, all: &[Entry<'_>]) -> Option<Finding> {
    let plain: Vec<&Entry<'_>> = all.iter().filter(|other| other.spec.kind == ContainerKind::Init).collect();
    let place = plain.iter().position(|other| other.name() == entry.name())? + 1;
    let total = plain.len();
    if is_sidecar(entry.spec.container) {
        let started = entry.status.is_some_and(|status| status.started == Some(true));
        let since = entry.running_since().filter(|_| !started)?;
        let long = words(situation.now.since(since));
        return Some(
            Finding::new(
                Verdict::Starting,
                format!(
                    "waits for its {}, which is not started yet ({place} of {total}, for {long} now)",
                    entry.title()
                ),
            )
            .because(failed_probe(situation, entry, "Startup")),
        );
    }
    if let Some(since) = entry.running_since() {
        let long = words(situation.now.since(since));
        let says = format!(
            "is still initializing: {} ({place} of {total}) has been running for {long}",
            entry.title()
        );
        let hint = format!(
            "the other containers start when it has ended; what it wrote is `podward logs {} -c {}`",
            situation.pod.name(),
            entry.name()
        );
        return Some(Finding::new(Verdict::Starting, says).because([hint]));
    }
    let end = entry.state().and_then(|state| state.terminated.as_ref()).filter(|end| end.exit_code != 0)?;
    let says =
        format!("is still initializing: {} {}", entry.title(), describe_end(Some(entry.spec.container), end));
    Some(
        Finding::new(Verdict::Blocked, says)
            .because(["it is started again after a wait".to_owned()])
            .again(situation.next_pass),
    )
}

fn unready(situation: &Situation<'_>, entry: &Entry<'_>) -> Option<Finding> {
    let title = entry.title();
    let Some(since) = entry.running_since() else {
        let end = entry.state().and_then(|state| state.terminated.as_ref())?;
        let how = describe_end(Some(entry.spec.container), end);
        return Some(
            Finding::new(Verdict::Blocked, format!("is not ready: {title} {how}")).again(situation.next_pass),
        );
    };
    if entry.status.is_some_and(|status| status.ready) {
        return None;
    }
    let started = entry.status.is_none_or(|status| status.started != Some(false));
    let kind = if started { "Readiness" } else { "Startup" };
    let has_probe = probe(entry.spec.container, kind);
    let long = words(situation.now.since(since));
    let failed = failed_probe(situation, entry, kind);
    let restarts =
        (entry.restarts() > 0).then(|| format!("{title} has restarted {}", times(entry.restarts())));
    let end = restarts.as_ref().and_then(|_| entry.describe_end(situation.now));
    let lower = kind.to_lowercase();
    let (verdict, says) = match (&failed, has_probe) {
        (Some(_), _) => (Verdict::Blocked, format!("is not ready: the {lower} probe of {title} fails")),
        (None, true) => (
            Verdict::Starting,
            format!(
                "is not ready yet: the {lower} probe of {title}, which has run for {long}, has not succeeded"
            ),
        ),
        (None, false) => (Verdict::Starting, format!("is not ready yet: {title} started {long} ago")),
    };
    let liveness = failed_probe(situation, entry, "Liveness");
    Some(Finding::new(verdict, says).because(failed.into_iter().chain(liveness).chain(restarts).chain(end)))
}

fn probe(container: &Container, kind: &str) -> bool {
    match kind {
        "Readiness" => container.readiness_probe.is_some(),
        _ => container.startup_probe.is_some(),
    }
}

fn times(count: i32) -> String {
    match count {
        1 => "once".to_owned(),
        2 => "twice".to_owned(),
        count => format!("{count} times"),
    }
}
