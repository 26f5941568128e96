//! Which events the API server is told of, and as what: equal ones are counted, floods of similar ones become one,
//! and an object that has too many is silenced for a while. The rules are client-go's.

mod recent;

use std::collections::BTreeSet;
use std::time::Duration;

use model::{EventSubject, RecordedEvent, Timestamp};

pub use recent::Recent;

/// Different messages of similar events before they are combined.
const SIMILAR: usize = 10;
/// Similar events further apart than this are not combined.
const SIMILAR_WITHIN: Duration = Duration::from_secs(600);
/// How a message that stands for many begins.
const COMBINED: &str = "(combined from similar events): ";
/// Events an object may have at once.
const BURST: f64 = 25.0;
/// Seconds until it may have one more.
const REFILL_SECONDS: f64 = 300.0;
/// Objects, groups and events remembered.
const REMEMBERED: usize = 2048;

/// What makes two events the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EventKey {
    object: String,
    field_path: String,
    kind: &'static str,
    reason: String,
    /// Empty for those that stand for many.
    message: String,
}

/// An event as the API server is told of it.
#[derive(Clone, Debug, PartialEq)]
pub struct CorrelatedEvent {
    /// What makes it the same as another.
    pub key: EventKey,
    /// Name of the API object.
    pub name: String,
    /// The event as it happened last.
    pub event: RecordedEvent,
    /// When it happened first.
    pub first_at: Timestamp,
    /// How often.
    pub count: u32,
}

/// What is remembered of earlier events.
#[derive(Debug)]
pub struct Correlator {
    groups: Recent<EventKey, Group>,
    seen: Recent<EventKey, Seen>,
    allowances: Recent<String, Allowance>,
}

#[derive(Debug)]
struct Group {
    messages: BTreeSet<String>,
    last_at: Timestamp,
}

#[derive(Clone, Debug)]
struct Seen {
    name: String,
    first_at: Timestamp,
    count: u32,
}

#[derive(Clone, Copy, Debug)]
struct Allowance {
    left: f64,
    at: Timestamp,
}

impl Default for Correlator {
    fn default() -> Self {
        Self {
            groups: Recent::new(REMEMBERED),
            seen: Recent::new(REMEMBERED),
            allowances: Recent::new(REMEMBERED),
        }
    }
}

impl Correlator {
    /// Takes an event; `None` when its object has had too many.
    pub fn observe(&mut self, mut event: RecordedEvent) -> Option<CorrelatedEvent> {
        let object = object_of(&event.subject);
        let key = self.combine(&object, &mut event);
        let seen = match self.seen.get(&key) {
            Some(seen) => Seen { count: seen.count.saturating_add(1), ..seen.clone() },
            None => {
                let name = format!("{}.{:x}", name_of(&event.subject), event.at.as_nanos());
                Seen { name, first_at: event.at, count: 1 }
            }
        };
        self.seen.set(key.clone(), seen.clone());
        if !self.allow(object, event.at) {
            return None;
        }
        Some(CorrelatedEvent { key, name: seen.name, event, first_at: seen.first_at, count: seen.count })
    }

    /// The key of the event, which may become one that stands for many.
    fn combine(&mut self, object: &str, event: &mut RecordedEvent) -> EventKey {
        let group_key = EventKey {
            object: object.to_owned(),
            field_path: String::new(),
            kind: event.kind.as_str(),
            reason: event.reason.clone(),
            message: String::new(),
        };
        let known = self.groups.remove(&group_key);
        let recent = known.filter(|group| event.at.since(group.last_at) <= SIMILAR_WITHIN);
        let mut messages = recent.map(|group| group.messages).unwrap_or_default();
        messages.insert(event.message.clone());
        let is_flood = messages.len() >= SIMILAR;
        if is_flood {
            messages.pop_first();
        }
        self.groups.set(group_key.clone(), Group { messages, last_at: event.at });
        if is_flood {
            event.message = format!("{COMBINED}{}", event.message);
            return group_key;
        }
        EventKey {
            field_path: field_path_of(&event.subject).to_owned(),
            message: event.message.clone(),
            ..group_key
        }
    }

    fn allow(&mut self, object: String, now: Timestamp) -> bool {
        let known = self.allowances.get(&object).copied().unwrap_or(Allowance { left: BURST, at: now });
        let refilled = now.since(known.at).as_secs_f64() / REFILL_SECONDS;
        let left = (known.left + refilled).min(BURST);
        let is_allowed = left >= 1.0;
        let left = if is_allowed { left - 1.0 } else { left };
        self.allowances.set(object, Allowance { left, at: now });
        is_allowed
    }
}

fn object_of(subject: &EventSubject) -> String {
    match subject {
        EventSubject::Pod { uid, full_name, .. } => format!("{full_name}/{uid}"),
        EventSubject::Node(name) => name.clone(),
        EventSubject::Volume { name, uid } => format!("volume {name}/{uid}"),
        EventSubject::Claim { namespace, name, uid } => format!("claim {namespace}/{name}/{uid}"),
    }
}

fn name_of(subject: &EventSubject) -> &str {
    match subject {
        EventSubject::Pod { full_name, .. } => &full_name.name,
        EventSubject::Node(name) | EventSubject::Volume { name, .. } | EventSubject::Claim { name, .. } => {
            name
        }
    }
}

fn field_path_of(subject: &EventSubject) -> &str {
    match subject {
        EventSubject::Pod { field_path, .. } => field_path,
        EventSubject::Node(_) | EventSubject::Volume { .. } | EventSubject::Claim { .. } => "",
    }
}

#[cfg(test)]
mod tests;
