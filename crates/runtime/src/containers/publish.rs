//! Containers in the messages of CRI.

use cri::v1::{
    ContainerResources, ContainerState, ContainerStatus, ContainerUser, ImageSpec, LinuxContainerUser, Signal,
};

use super::Container;
use crate::records::{Exit, LifeState};

fn state(life: &LifeState) -> i32 {
    let state = match life {
        LifeState::Created => ContainerState::ContainerCreated,
        LifeState::Running { .. } => ContainerState::ContainerRunning,
        LifeState::Exited(_) => ContainerState::ContainerExited,
    };
    state.into()
}

pub(crate) fn published_container(container: &Container) -> cri::v1::Container {
    let record = &container.record;
    cri::v1::Container {
        id: record.id.clone(),
        pod_sandbox_id: record.sandbox.clone(),
        metadata: record.config.metadata.clone(),
        image: record.config.image.clone(),
        image_ref: record.image_ref.clone(),
        state: state(&container.life()),
        created_at: record.created_at,
        labels: record.config.labels.clone(),
        annotations: record.config.annotations.clone(),
        image_id: record.image_id.clone(),
    }
}

pub(crate) fn published_status(container: &Container) -> ContainerStatus {
    let record = &container.record;
    let life = container.life();
    let image =
        ImageSpec { image: record.image_name.clone(), ..record.config.image.clone().unwrap_or_default() };
    let mut status = ContainerStatus {
        id: record.id.clone(),
        metadata: record.config.metadata.clone(),
        state: state(&life),
        created_at: record.created_at,
        image: Some(image),
        image_ref: record.image_ref.clone(),
        image_id: record.image_id.clone(),
        labels: record.config.labels.clone(),
        annotations: record.config.annotations.clone(),
        mounts: record.config.mounts.clone(),
        log_path: record.log.as_ref().map(|log| log.to_string_lossy().into_owned()).unwrap_or_default(),
        resources: Some(ContainerResources { linux: Some(container.resources()), windows: None }),
        user: record.user.as_ref().map(|user| ContainerUser {
            linux: Some(LinuxContainerUser {
                uid: user.uid.into(),
                gid: user.gid.into(),
                supplemental_groups: user.groups.iter().copied().map(i64::from).collect(),
            }),
        }),
        stop_signal: stop_signal(&record.stop_signal),
        ..ContainerStatus::default()
    };
    match life {
        LifeState::Created => {}
        LifeState::Running { started_at, .. } => status.started_at = started_at,
        LifeState::Exited(Exit { code, reason, message, started_at, finished_at }) => {
            (status.exit_code, status.reason, status.message) = (code, reason, message);
            (status.started_at, status.finished_at) = (started_at, finished_at);
        }
    }
    status
}

/// The signal's name in CRI, where `+` and `-` are words.
fn stop_signal(name: &str) -> i32 {
    let name = name.to_ascii_uppercase();
    let name = if name.starts_with("SIG") { name } else { format!("SIG{name}") };
    let name = name.replace('+', "PLUS").replace('-', "MINUS");
    Signal::from_str_name(&name).unwrap_or(Signal::Sigterm).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_signal_is_published_under_the_name_of_cri() {
        assert_eq!(stop_signal("SIGUSR1"), i32::from(Signal::Sigusr1));
        assert_eq!(stop_signal("RTMIN+1"), i32::from(Signal::Sigrtminplus1));
        assert_eq!(stop_signal("nonsense"), i32::from(Signal::Sigterm));
    }
}
