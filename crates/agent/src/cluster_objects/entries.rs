//! What is known of each object, and who uses it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use model::{ConfigObject, ObjectKey, PodUid};
use ports::api::ApiError;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

/// What the server said of an object.
#[derive(Clone, Debug, Default)]
pub(super) enum Answer {
    /// Nothing yet.
    #[default]
    None,
    /// This is it.
    Object(Arc<ConfigObject>),
    /// There is none.
    Missing,
    /// It could not be asked, and nothing was known before.
    Failed(ApiError),
}

impl Answer {
    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Object(old), Self::Object(new)) => old == new,
            (Self::Missing, Self::Missing) => true,
            (Self::None | Self::Object(_) | Self::Missing | Self::Failed(_), _) => false,
        }
    }

    /// Whether the server said whether there is one.
    pub(super) fn is_told(&self) -> bool {
        match self {
            Self::Object(_) | Self::Missing => true,
            Self::None | Self::Failed(_) => false,
        }
    }
}

struct Entry {
    users: BTreeSet<PodUid>,
    asked_at: Instant,
    answer: watch::Sender<Answer>,
    read_at: Option<Instant>,
    /// Somebody had to go without an answer and is told when there is one.
    is_owed: bool,
    /// Ends the watch when the entry goes.
    _watching: DropGuard,
    end: CancellationToken,
}

impl Entry {
    fn new(now: Instant) -> Self {
        let end = CancellationToken::new();
        Self {
            users: BTreeSet::new(),
            asked_at: now,
            answer: watch::Sender::default(),
            read_at: None,
            is_owed: false,
            _watching: end.clone().drop_guard(),
            end,
        }
    }
}

/// All objects in use.
#[derive(Default)]
pub(super) struct Entries {
    entries: HashMap<ObjectKey, Entry>,
    by_pod: HashMap<PodUid, BTreeSet<ObjectKey>>,
    seeds: HashMap<ObjectKey, Arc<ConfigObject>>,
    listeners: Vec<mpsc::UnboundedSender<ObjectKey>>,
}

impl Entries {
    /// The answers about an object, and whether nobody asked for it before.
    pub(super) fn subscribe(&mut self, key: &ObjectKey, now: Instant) -> (watch::Receiver<Answer>, bool) {
        let is_new = !self.entries.contains_key(key);
        let entry = self.entries.entry(key.clone()).or_insert_with(|| Entry::new(now));
        entry.asked_at = now;
        (entry.answer.subscribe(), is_new)
    }

    /// Sets what a pod uses; the result is what nobody used before.
    pub(super) fn claim(&mut self, uid: &PodUid, keys: BTreeSet<ObjectKey>, now: Instant) -> Vec<ObjectKey> {
        let before = self.by_pod.remove(uid).unwrap_or_default();
        for key in before.difference(&keys) {
            self.release(uid, key);
        }
        let mut new = Vec::new();
        for key in &keys {
            let is_new = !self.entries.contains_key(key);
            let entry = self.entries.entry(key.clone()).or_insert_with(|| Entry::new(now));
            if entry.users.insert(uid.clone()) {
                // A pod that is new here must not begin with old content.
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

    /// Drops what was asked for long ago and is used by no pod.
    pub(super) fn drop_unclaimed(&mut self, now: Instant, age: Duration) {
        self.entries.retain(|_, entry| {
            !entry.users.is_empty() || now.saturating_duration_since(entry.asked_at) < age
        });
    }

    /// The end of an object's watch, unless nobody wants it any more.
    pub(super) fn end_of(&self, key: &ObjectKey) -> Option<CancellationToken> {
        self.entries.get(key).map(|entry| entry.end.clone())
    }

    /// Notes that somebody had to go without the answer.
    pub(super) fn owe(&mut self, key: &ObjectKey) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        entry.is_owed = true;
        if entry.answer.borrow().is_told() {
            self.tell(key);
        }
    }

    /// Takes an answer; whoever listens is told when it is news: another one than before, or one that somebody had to
    /// go without. A failure never replaces what was said.
    pub(super) fn set(&mut self, key: &ObjectKey, answer: Answer, read_at: Option<Instant>) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        entry.read_at = read_at;
        let before = entry.answer.borrow().clone();
        if before.is_same(&answer) || (before.is_told() && !answer.is_told()) {
            return;
        }
        let (is_told, is_news) = (answer.is_told(), before.is_told() || entry.is_owed);
        entry.answer.send_replace(answer);
        if is_told {
            self.seeds.remove(key);
            if is_news {
                self.tell(key);
            }
        }
    }

    fn tell(&mut self, key: &ObjectKey) {
        if let Some(entry) = self.entries.get_mut(key) {
            entry.is_owed = false;
        }
        // A listener that is gone needs no news.
        self.listeners.retain(|listener| listener.send(key.clone()).is_ok());
    }

    /// What was said not longer ago than `age`.
    pub(super) fn fresh(&mut self, key: &ObjectKey, now: Instant, age: Duration) -> Option<Answer> {
        let entry = self.entries.entry(key.clone()).or_insert_with(|| Entry::new(now));
        entry.asked_at = now;
        let is_fresh = entry.read_at.is_some_and(|at| now.saturating_duration_since(at) < age);
        is_fresh.then(|| entry.answer.borrow().clone())
    }

    /// The object as it was known last.
    pub(super) fn last(&self, key: &ObjectKey) -> Option<Arc<ConfigObject>> {
        let answer = self.entries.get(key).map(|entry| entry.answer.borrow().clone());
        match answer {
            Some(Answer::Object(object)) => Some(object),
            Some(Answer::Missing) => None,
            Some(Answer::None | Answer::Failed(_)) | None => self.seed_of(key),
        }
    }

    pub(super) fn seed(&mut self, objects: Vec<Arc<ConfigObject>>) {
        self.seeds = objects.into_iter().map(|object| (object.key.clone(), object)).collect();
    }

    pub(super) fn seed_of(&self, key: &ObjectKey) -> Option<Arc<ConfigObject>> {
        self.seeds.get(key).cloned()
    }

    /// What was said of each object; what was seeded and not confirmed yet as well.
    pub(super) fn known(&self) -> Vec<Arc<ConfigObject>> {
        let seeded = self.seeds.keys().filter(|key| !self.entries.contains_key(key));
        self.entries.keys().chain(seeded).filter_map(|key| self.last(key)).collect()
    }

    pub(super) fn listen(&mut self, listener: mpsc::UnboundedSender<ObjectKey>) {
        self.listeners.push(listener);
    }
}
