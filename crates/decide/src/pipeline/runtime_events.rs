//! Derives pod lifecycle events from two relists of the runtime.

use std::collections::BTreeMap;

use model::{ContainerId, ContainerState, PodEvent, PodEventKind, PodUid, SandboxState};

/// The state of a container or sandbox, reduced to what events need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlegState {
    Running,
    Exited,
    /// Created, or the runtime cannot tell.
    Unknown,
}

/// The containers and sandboxes of one pod in the runtime, with their states.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodRecord {
    states: BTreeMap<ContainerId, PlegState>,
}

impl PodRecord {
    pub fn empty() -> Self {
        Self::default()
    }

    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// Number of containers and sandboxes.
    pub fn len(&self) -> usize {
        self.states.len()
    }

    pub fn has_state(&self, id: &str, state: PlegState) -> bool {
        self.states.get(id) == Some(&state)
    }

    pub fn add(&mut self, id: ContainerId, state: PlegState) {
        self.states.insert(id, state);
    }
}

pub fn sandbox_pleg_state(state: SandboxState) -> PlegState {
    match state {
        SandboxState::Ready => PlegState::Running,
        SandboxState::NotReady => PlegState::Exited,
    }
}

pub fn container_pleg_state(state: ContainerState) -> PlegState {
    match state {
        ContainerState::Running => PlegState::Running,
        ContainerState::Exited => PlegState::Exited,
        ContainerState::Created | ContainerState::Unknown => PlegState::Unknown,
    }
}

/// The events between two records of one pod.
pub fn diff(uid: &PodUid, old: &PodRecord, new: &PodRecord) -> Vec<PodEvent> {
    let mut events = Vec::new();
    let mut push = |kind| events.push(PodEvent { uid: uid.clone(), kind });
    for (id, state) in &new.states {
        let before = old.states.get(id);
        if before == Some(state) {
            continue;
        }
        match state {
            PlegState::Running => push(PodEventKind::Started(id.clone())),
            PlegState::Exited => push(PodEventKind::Died(id.clone())),
            PlegState::Unknown => push(PodEventKind::Changed(id.clone())),
        }
    }
    for (id, state) in &old.states {
        if new.states.contains_key(id) {
            continue;
        }
        // An object that vanished before it was observed as exited must have died first.
        if *state != PlegState::Exited {
            push(PodEventKind::Died(id.clone()));
        }
        push(PodEventKind::Removed(id.clone()));
    }
    events
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn record(entries: &[(&str, PlegState)]) -> PodRecord {
        let mut record = PodRecord::empty();
        for (id, state) in entries {
            record.add(ContainerId::from(*id), *state);
        }
        record
    }

    fn check(old: &[(&str, PlegState)], new: &[(&str, PlegState)], expected: &[PodEventKind]) {
        let kinds: Vec<_> =
            diff(&"u".into(), &record(old), &record(new)).into_iter().map(|event| event.kind).collect();
        assert_eq!(kinds, expected);
    }

    #[test]
    fn new_running_container_has_started() {
        check(&[], &[("a", PlegState::Running)], &[PodEventKind::Started("a".into())]);
    }

    #[test]
    fn new_exited_container_has_died() {
        check(&[], &[("a", PlegState::Exited)], &[PodEventKind::Died("a".into())]);
    }

    #[test]
    fn vanished_running_container_died_and_was_removed() {
        check(
            &[("a", PlegState::Running)],
            &[],
            &[PodEventKind::Died("a".into()), PodEventKind::Removed("a".into())],
        );
    }

    #[test]
    fn vanished_exited_container_was_only_removed() {
        check(&[("a", PlegState::Exited)], &[], &[PodEventKind::Removed("a".into())]);
    }

    #[test]
    fn unknown_state_is_a_change() {
        check(
            &[("a", PlegState::Running)],
            &[("a", PlegState::Unknown)],
            &[PodEventKind::Changed("a".into())],
        );
    }

    fn any_record() -> impl Strategy<Value = PodRecord> {
        let state = prop_oneof![Just(PlegState::Running), Just(PlegState::Exited), Just(PlegState::Unknown)];
        proptest::collection::btree_map("[a-e]", state, 0..5).prop_map(|states| PodRecord {
            states: states.into_iter().map(|(id, state)| (ContainerId::from(id), state)).collect(),
        })
    }

    proptest! {
        #[test]
        fn equal_records_have_no_events(record in any_record()) {
            prop_assert!(diff(&"u".into(), &record, &record).is_empty());
        }

        #[test]
        fn has_events_exactly_if_records_differ(old in any_record(), new in any_record()) {
            let events = diff(&"u".into(), &old, &new);
            prop_assert_eq!(events.is_empty(), old == new);
        }

        #[test]
        fn applying_events_to_old_record_yields_new_one(old in any_record(), new in any_record()) {
            let mut record = old.clone();
            for event in diff(&"u".into(), &old, &new) {
                match event.kind {
                    PodEventKind::Started(id) => record.add(id, PlegState::Running),
                    PodEventKind::Died(id) => record.add(id, PlegState::Exited),
                    PodEventKind::Changed(id) => record.add(id, PlegState::Unknown),
                    PodEventKind::Removed(id) => { record.states.remove(&id); }
                }
            }
            prop_assert_eq!(record, new);
        }
    }
}
