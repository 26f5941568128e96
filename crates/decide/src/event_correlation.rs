//! Decides which events are written to the API server: equal events are counted, many similar events are aggregated, and
//! events of an object are rate limited. The rules are those of client-go.

mod recent_map;

use std::collections::BTreeSet;
use std::time::Duration;

use model::{EventSubject, RecordedEvent, Timestamp};

pub use recent_map::RecentMap;

/// Number of different messages from which similar events are aggregated.
const AGGREGATION_THRESHOLD: usize = 10;
/// Similar events further apart than this are not aggregated.
const AGGREGATION_INTERVAL: Duration = Duration::from_secs(600);
const AGGREGATED_PREFIX: &str = "(combined from similar events): ";
/// Token bucket per object: capacity.
const BURST: f64 = 25.0;
/// Token bucket per object: seconds per token.
const REFILL_SECONDS: f64 = 300.0;
/// Capacity of each cache.
const CACHE_CAPACITY: usize = 2048;

/// Events with equal keys are counted as one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EventKey {
    object: String,
    field_path: String,
    kind: &'static str,
    reason: String,
    /// Empty for aggregated events.
    message: String,
}

/// An event to write to the API server.
#[derive(Clone, Debug, PartialEq)]
pub struct CorrelatedEvent {
    pub key: EventKey,
    /// Name of the Event object.
    pub name: String,
    /// The latest occurrence.
    pub event: RecordedEvent,
    pub first_at: Timestamp,
    pub count: u32,
}

/// Caches of earlier events.
#[derive(Debug)]
pub struct EventCorrelator {
    groups: RecentMap<EventKey, SimilarEvents>,
    counts: RecentMap<EventKey, EventCount>,
    buckets: RecentMap<String, TokenBucket>,
}

#[derive(Debug)]
struct SimilarEvents {
    messages: BTreeSet<String>,
    last_at: Timestamp,
}

#[derive(Clone, Debug)]
struct EventCount {
    name: String,
    first_at: Timestamp,
    count: u32,
}

#[derive(Clone, Copy, Debug)]
struct TokenBucket {
    tokens: f64,
    at: Timestamp,
}

impl Default for EventCorrelator {
    fn default() -> Self {
        Self {
            groups: RecentMap::new(CACHE_CAPACITY),
            counts: RecentMap::new(CACHE_CAPACITY),
            buckets: RecentMap::new(CACHE_CAPACITY),
        }
    }
}

impl EventCorrelator {
    /// Correlates an event; `None` if its object exceeds the rate limit.
    pub fn observe(&mut self, mut event: RecordedEvent) -> Option<CorrelatedEvent> {
        let object = object_of(&event.subject);
        let key = self.aggregate(&object, &mut event);
        let count = match self.counts.get(&key) {
            Some(known) => EventCount { count: known.count.saturating_add(1), ..known.clone() },
            None => {
                let name = format!("{}.{:x}", name_of(&event.subject), event.at.as_nanos());
                EventCount { name, first_at: event.at, count: 1 }
            }
        };
        self.counts.set(key.clone(), count.clone());
        if !self.allow(object, event.at) {
            return None;
        }
        Some(CorrelatedEvent { key, name: count.name, event, first_at: count.first_at, count: count.count })
    }

    /// The key of the event. Turns the event into an aggregated one if there are many similar ones.
    fn aggregate(&mut self, object: &str, event: &mut RecordedEvent) -> EventKey {
        let group_key = EventKey {
            object: object.to_owned(),
            field_path: String::new(),
            kind: event.kind.as_str(),
            reason: event.reason.clone(),
            message: String::new(),
        };
        let known = self.groups.remove(&group_key);
        let recent = known.filter(|group| event.at.since(group.last_at) <= AGGREGATION_INTERVAL);
        let mut messages = recent.map(|group| group.messages).unwrap_or_default();
        messages.insert(event.message.clone());
        let is_flood = messages.len() >= AGGREGATION_THRESHOLD;
        if is_flood {
            messages.pop_first();
        }
        self.groups.set(group_key.clone(), SimilarEvents { messages, last_at: event.at });
        if is_flood {
            event.message = format!("{AGGREGATED_PREFIX}{}", event.message);
            return group_key;
        }
        EventKey {
            field_path: field_path_of(&event.subject).to_owned(),
            message: event.message.clone(),
            ..group_key
        }
    }

    fn allow(&mut self, object: String, now: Timestamp) -> bool {
        let known = self.buckets.get(&object).copied().unwrap_or(TokenBucket { tokens: BURST, at: now });
        let refilled = now.since(known.at).as_secs_f64() / REFILL_SECONDS;
        let tokens = (known.tokens + refilled).min(BURST);
        let is_allowed = tokens >= 1.0;
        let tokens = if is_allowed { tokens - 1.0 } else { tokens };
        self.buckets.set(object, TokenBucket { tokens, at: now });
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
