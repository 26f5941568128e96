//! Filters of lists. All fields must match; an id may be a prefix; a filter that matches nothing gives an empty list.

use std::collections::HashMap;

use cri::v1::{
    Container, ContainerFilter, ContainerStatsFilter, PodSandbox, PodSandboxFilter, PodSandboxState,
    PodSandboxStateValue, PodSandboxStatsFilter,
};

fn has_labels(labels: &HashMap<String, String>, selector: &HashMap<String, String>) -> bool {
    selector.iter().all(|(key, value)| labels.get(key) == Some(value))
}

/// The filter of a list that equals a filter of statistics.
pub(super) fn of_container_stats(filter: ContainerStatsFilter) -> ContainerFilter {
    let ContainerStatsFilter { id, pod_sandbox_id, label_selector } = filter;
    ContainerFilter { id, pod_sandbox_id, label_selector, state: None }
}

/// The filter of a list that equals a filter of statistics: only ready sandboxes have them.
pub(super) fn of_sandbox_stats(filter: PodSandboxStatsFilter) -> PodSandboxFilter {
    let PodSandboxStatsFilter { id, label_selector } = filter;
    let state = Some(PodSandboxStateValue { state: PodSandboxState::SandboxReady.into() });
    PodSandboxFilter { id, label_selector, state }
}

pub(super) fn sandbox_matches(sandbox: &PodSandbox, filter: &PodSandboxFilter) -> bool {
    sandbox.id.starts_with(&filter.id)
        && filter.state.as_ref().is_none_or(|state| state.state == sandbox.state)
        && has_labels(&sandbox.labels, &filter.label_selector)
}

pub(super) fn container_matches(container: &Container, filter: &ContainerFilter) -> bool {
    container.id.starts_with(&filter.id)
        && container.pod_sandbox_id.starts_with(&filter.pod_sandbox_id)
        && filter.state.as_ref().is_none_or(|state| state.state == container.state)
        && has_labels(&container.labels, &filter.label_selector)
}

#[cfg(test)]
mod tests {
    use cri::v1::{ContainerState, ContainerStateValue};

    use super::*;

    fn container() -> Container {
        Container {
            id: "abc".into(),
            pod_sandbox_id: "def".into(),
            state: ContainerState::ContainerRunning.into(),
            labels: [("app".to_owned(), "web".to_owned())].into(),
            ..Container::default()
        }
    }

    #[test]
    fn all_fields_of_a_filter_must_match() {
        let state = |state: ContainerState| Some(ContainerStateValue { state: state.into() });
        let label = |value: &str| [("app".to_owned(), value.to_owned())].into();
        let none = ContainerFilter::default();
        let cases = [
            (none.clone(), true),
            (ContainerFilter { id: "ab".into(), ..none.clone() }, true),
            (ContainerFilter { id: "x".into(), ..none.clone() }, false),
            (ContainerFilter { pod_sandbox_id: "de".into(), ..none.clone() }, true),
            (ContainerFilter { state: state(ContainerState::ContainerRunning), ..none.clone() }, true),
            (ContainerFilter { state: state(ContainerState::ContainerCreated), ..none.clone() }, false),
            (ContainerFilter { label_selector: label("web"), ..none.clone() }, true),
            (ContainerFilter { label_selector: label("db"), ..none.clone() }, false),
            (ContainerFilter { id: "abc".into(), label_selector: label("db"), ..none }, false),
        ];
        for (filter, expected) in cases {
            assert_eq!(container_matches(&container(), &filter), expected, "{filter:?}");
        }
    }
}
