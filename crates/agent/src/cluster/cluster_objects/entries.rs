//! State of each object in use, and the pods that use it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use model::{ConfigObject, ObjectKey, PodUid};
use ports::api::ApiError;
use timing::KeySender;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

#[derive(Clone, Debug, Default)]
pub(super) enum ObjectState {
    /// The server has not reported anything yet.
    #[default]
    Unknown,
    Object(Arc<ConfigObject>),
    /// The object does not exist.
    Missing,
    /// The request failed, and no state was known before.
    Failed(ApiError),
}

impl ObjectState {
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Object(old), Self::Object(new)) => old == new,
            (Self::Missing, Self::Missing) => true,
            (Self::Unknown | Self::Object(_) | Self::Missing | Self::Failed(_), _) => false,
        }
    }

    /// Whether the server reported that the object exists or does not.
    pub(super) fn is_reported(&self) -> bool {
        match self {
            Self::Object(_) | Self::Missing => true,
            Self::Unknown | Self::Failed(_) => false,
        }
    }
}

struct Entry {
    users: BTreeSet<PodUid>,
    last_used_at: Instant,
    state: watch::Sender<ObjectState>,
    read_at: Option<Instant>,
    /// A reader timed out while the state was unknown, so listeners are notified of the first state.
    has_unserved_read: bool,
    /// Stops the watch when the entry is dropped.
    _stop_on_drop: DropGuard,
    stop: CancellationToken,
}

impl Entry {
    fn new(now: Instant) -> Self {
        let stop = CancellationToken::new();
        Self {
            users: BTreeSet::new(),
            last_used_at: now,
            state: watch::Sender::default(),
            read_at: None,
            has_unserved_read: false,
            _stop_on_drop: stop.clone().drop_guard(),
            stop,
        }
    }
}

#[derive(Default)]
pub(super) struct Entries {
    entries: HashMap<ObjectKey, Entry>,
    by_pod: HashMap<PodUid, BTreeSet<ObjectKey>>,
    seeds: HashMap<ObjectKey, Arc<ConfigObject>>,
    listeners: Vec<KeySender<ObjectKey>>,
}

impl Entries {
    /// Subscribes to the state of an object. The flag is set if the entry is new.
    pub(super) fn subscribe(
        &mut self,
        key: &ObjectKey,
        now: Instant,
    ) -> (watch::Receiver<ObjectState>, bool) {
        let is_new = !self.entries.contains_key(key);
        let entry = self.entries.entry(key.clone()).or_insert_with(|| Entry::new(now));
        entry.last_used_at = now;
        (entry.state.subscribe(), is_new)
    }

    /// Sets the objects that a pod refers to. Returns those without an entry before.
    pub(super) fn set_references(
        &mut self,
        uid: &PodUid,
        keys: BTreeSet<ObjectKey>,
        now: Instant,
    ) -> Vec<ObjectKey> {
        let before = self.by_pod.remove(uid).unwrap_or_default();
        for key in before.difference(&keys) {
            self.release(uid, key);
        }
        let mut new = Vec::new();
        for key in &keys {
            let is_new = !self.entries.contains_key(key);
            let entry = self.entries.entry(key.clone()).or_insert_with(|| Entry::new(now));
            if entry.users.insert(uid.clone()) {
                // A new pod must not start with stale content.
                entry.read_at = None;
            }
            new.extend(is_new.then(|| key.clone()));
        }
        if !keys.is_empty() {
            self.by_pod.insert(uid.clone(), keys);
        }
        new
    }

    fn release(&mut self, uid: &PodUid, key: &ObjectKey) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        entry.users.remove(uid);
        if entry.users.is_empty() {
            self.entries.remove(key);
            self.seeds.remove(key);
        }
    }

    /// Drops entries without references that were not used for `age`.
    pub(super) fn drop_unreferenced(&mut self, now: Instant, age: Duration) {
        self.entries.retain(|_, entry| {
            !entry.users.is_empty() || now.saturating_duration_since(entry.last_used_at) < age
        });
    }

    /// Drops an entry without references that was not used for `age`; returns whether it did.
    pub(super) fn drop_if_unreferenced(&mut self, key: &ObjectKey, now: Instant, age: Duration) -> bool {
        let is_unreferenced = self.entries.get(key).is_some_and(|entry| {
            entry.users.is_empty() && now.saturating_duration_since(entry.last_used_at) >= age
        });
        if is_unreferenced {
            self.entries.remove(key);
        }
        is_unreferenced
    }

    /// The token that stops the object's watch; `None` if the object is no longer used.
    pub(super) fn stop_token(&self, key: &ObjectKey) -> Option<CancellationToken> {
        self.entries.get(key).map(|entry| entry.stop.clone())
    }

    /// Records that a reader timed out without a state.
    pub(super) fn add_unserved_read(&mut self, key: &ObjectKey) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        entry.has_unserved_read = true;
        if entry.state.borrow().is_reported() {
            self.notify(key);
        }
    }

    /// Sets the state. Listeners are notified if it differs from an earlier reported state, or if a reader timed out
    /// without one. A failure never replaces a reported state.
    pub(super) fn set(&mut self, key: &ObjectKey, state: ObjectState, read_at: Option<Instant>) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        entry.read_at = read_at;
        let before = entry.state.borrow().clone();
        if before.is_same(&state) || (before.is_reported() && !state.is_reported()) {
            return;
        }
        let (is_reported, is_new) = (state.is_reported(), before.is_reported() || entry.has_unserved_read);
        entry.state.send_replace(state);
        if is_reported {
            self.seeds.remove(key);
            if is_new {
                self.notify(key);
            }
        }
    }

    fn notify(&mut self, key: &ObjectKey) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.has_unserved_read = false;
        }
        // Removes listeners whose receiver was dropped.
        self.listeners.retain(|listener| listener.send(key.clone()));
    }

    /// The state, if it was read less than `age` ago.
    pub(super) fn fresh(&mut self, key: &ObjectKey, now: Instant, age: Duration) -> Option<ObjectState> {
        let entry = self.entries.entry(key.clone()).or_insert_with(|| Entry::new(now));
        entry.last_used_at = now;
        let is_fresh = entry.read_at.is_some_and(|at| now.saturating_duration_since(at) < age);
        is_fresh.then(|| entry.state.borrow().clone())
    }

    /// The last known object: reported or seeded.
    pub(super) fn last(&self, key: &ObjectKey) -> Option<Arc<ConfigObject>> {
        let state = self.entries.get(key).map(|entry| entry.state.borrow().clone());
        match state {
            Some(ObjectState::Object(object)) => Some(object),
            Some(ObjectState::Missing) => None,
            Some(ObjectState::Unknown | ObjectState::Failed(_)) | None => self.seed_of(key),
        }
    }

    pub(super) fn seed(&mut self, objects: Vec<Arc<ConfigObject>>) {
        self.seeds = objects.into_iter().map(|object| (object.key.clone(), object)).collect();
    }

    pub(super) fn seed_of(&self, key: &ObjectKey) -> Option<Arc<ConfigObject>> {
        self.seeds.get(key).cloned()
    }

    /// All objects, including those that were seeded and are not confirmed yet.
    pub(super) fn export(&self) -> Vec<Arc<ConfigObject>> {
        let seeded = self.seeds.keys().filter(|key| !self.entries.contains_key(key));
        self.entries.keys().chain(seeded).filter_map(|key| self.last(key)).collect()
    }

    pub(super) fn listen(&mut self, listener: KeySender<ObjectKey>) {
        self.listeners.push(listener);
    }
}
