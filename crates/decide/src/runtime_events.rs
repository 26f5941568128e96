//! Two lists of what the runtime holds of a pod become events.

use std::collections::BTreeMap;

use model::{
    ContainerId, ContainerState, ContainerSummary, PodEvent, PodEventKind, PodUid, SandboxState,
    SandboxSummary,
};

/// The life of a container or sandbox as far as events care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Its process runs.
    Running,
    /// It ended.
    Exited,
    /// Created, or the runtime cannot say.
    Unclear,
}

/// What the runtime holds of one pod, reduced to what events are made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    lives: BTreeMap<ContainerId, Life>,
}

impl Record {
    /// Nothing.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// Whether the runtime holds nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lives.is_empty()
    }

    /// How many objects the runtime holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lives.len()
    }

    /// Whether an object was seen with this life.
    #[must_use]
    pub fn holds(&self, id: &str, life: Life) -> bool {
        self.lives.get(id) == Some(&life)
    }

    /// Takes a sandbox in.
    pub fn add_sandbox(&mut self, sandbox: &SandboxSummary) {
        self.add(ContainerId::from(sandbox.id.as_str()), sandbox_life(sandbox.state));
    }

    /// Takes a container in.
    pub fn add_container(&mut self, container: &ContainerSummary) {
        self.add(container.id.clone(), container_life(container.state));
    }

    /// Takes any object in.
    pub fn add(&mut self, id: ContainerId, life: Life) {
        self.lives.insert(id, life);
    }
}

/// The life that a sandbox state stands for.
#[must_use]
pub fn sandbox_life(state: SandboxState) -> Life {
    match state {
        SandboxState::Ready => Life::Running,
        SandboxState::NotReady => Life::Exited,
    }
}

/// The life that a container state stands for.
#[must_use]
pub fn container_life(state: ContainerState) -> Life {
    match state {
        ContainerState::Running => Life::Running,
        ContainerState::Exited => Life::Exited,
        ContainerState::Created | ContainerState::Unknown => Life::Unclear,
    }
}

/// What happened between two records of one pod.
#[must_use]
pub fn diff(uid: &PodUid, old: &Record, new: &Record) -> Vec<PodEvent> {
    let mut events = Vec::new();
    let mut push = |kind| events.push(PodEvent { uid: uid.clone(), kind });
    for (id, life) in &new.lives {
        let before = old.lives.get(id);
        if before == Some(life) {
            continue;
        }
        match life {
            Life::Running => push(PodEventKind::Started(id.clone())),
            Life::Exited => push(PodEventKind::Died(id.clone())),
            Life::Unclear => push(PodEventKind::Changed(id.clone())),
        }
    }
    for (id, life) in &old.lives {
        if new.lives.contains_key(id) {
            continue;
        }
        // What vanished without having been seen dead must have died first.
        if *life != Life::Exited {
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

    fn record(entries: &[(&str, Life)]) -> Record {
        let mut record = Record::empty();
        for (id, life) in entries {
            record.add(ContainerId::from(*id), *life);
        }
        record
    }

    fn check(old: &[(&str, Life)], new: &[(&str, Life)], expected: &[PodEventKind]) {
        let kinds: Vec<_> =
            diff(&"u".into(), &record(old), &record(new)).into_iter().map(|event| event.kind).collect();
        assert_eq!(kinds, expected);
    }

    #[test]
    fn a_new_running_container_has_started() {
        check(&[], &[("a", Life::Running)], &[PodEventKind::Started("a".into())]);
    }

    #[test]
    fn a_container_seen_only_after_its_end_has_died() {
        check(&[], &[("a", Life::Exited)], &[PodEventKind::Died("a".into())]);
    }

    #[test]
    fn a_vanished_running_container_died_and_was_removed() {
        check(
            &[("a", Life::Running)],
            &[],
            &[PodEventKind::Died("a".into()), PodEventKind::Removed("a".into())],
        );
    }

    #[test]
    fn a_vanished_dead_container_was_only_removed() {
        check(&[("a", Life::Exited)], &[], &[PodEventKind::Removed("a".into())]);
    }

    #[test]
    fn an_unclear_state_is_a_change() {
        check(&[("a", Life::Running)], &[("a", Life::Unclear)], &[PodEventKind::Changed("a".into())]);
    }

    fn any_record() -> impl Strategy<Value = Record> {
        let life = prop_oneof![Just(Life::Running), Just(Life::Exited), Just(Life::Unclear)];
        proptest::collection::btree_map("[a-e]", life, 0..5).prop_map(|lives| Record {
            lives: lives.into_iter().map(|(id, life)| (ContainerId::from(id), life)).collect(),
        })
    }

    proptest! {
        #[test]
        fn equal_records_have_no_events(record in any_record()) {
            prop_assert!(diff(&"u".into(), &record, &record).is_empty());
        }

        #[test]
        fn every_difference_has_an_event_and_every_event_a_difference(old in any_record(), new in any_record()) {
            let events = diff(&"u".into(), &old, &new);
            prop_assert_eq!(events.is_empty(), old == new);
        }

        #[test]
        fn applying_the_events_to_the_old_record_gives_the_new_one(old in any_record(), new in any_record()) {
            let mut record = old.clone();
            for event in diff(&"u".into(), &old, &new) {
                match event.kind {
                    PodEventKind::Started(id) => record.add(id, Life::Running),
                    PodEventKind::Died(id) => record.add(id, Life::Exited),
                    PodEventKind::Changed(id) => record.add(id, Life::Unclear),
                    PodEventKind::Removed(id) => { record.lives.remove(&id); }
                }
            }
            prop_assert_eq!(record, new);
        }
    }
}
