//! When a write to a mirror pod may be repeated.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use decide::pipeline::mirror_pods::MirrorAction;
use model::{PodFullName, PodUid};
use timing::{Backoff, BackoffPolicy};
use tokio::time::Instant;

/// How long the watch may take to report a write before the write is repeated.
const WATCH_TIMEOUT: Duration = Duration::from_secs(5);
/// A rejected write, for example into a namespace that does not exist, may succeed later. Upstream repeats it with each
/// sync of the pod.
const REJECTION_BACKOFF: BackoffPolicy =
    BackoffPolicy::doubling(Duration::from_secs(5), Duration::from_secs(60)).with_jitter(0.5);

/// One write, and the version of the static pod that it is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MirrorWrite {
    pub(super) action: MirrorAction,
    pub(super) static_pod: Option<PodUid>,
}

/// Whether a rejection was reported before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RejectionNews {
    New,
    /// The same write was rejected with the same message before.
    Repeated,
}

/// The last write of each mirror pod that the watch has not reported yet, or that the API server rejected.
#[derive(Default)]
pub(super) struct RecentWrites {
    writes: HashMap<PodFullName, RecentWrite>,
}

struct RecentWrite {
    write: MirrorWrite,
    repeat_at: Instant,
    rejection: Option<(String, Backoff)>,
}

impl RecentWrites {
    pub(super) fn is_due(&self, name: &PodFullName, write: &MirrorWrite, now: Instant) -> bool {
        self.writes.get(name).is_none_or(|last| last.write != *write || last.repeat_at <= now)
    }

    pub(super) fn accepted(&mut self, name: PodFullName, write: MirrorWrite, now: Instant) {
        let accepted = RecentWrite { write, repeat_at: now + WATCH_TIMEOUT, rejection: None };
        self.writes.insert(name, accepted);
    }

    /// `random` is a number from 0 to 1.
    pub(super) fn rejected(
        &mut self,
        name: PodFullName,
        write: MirrorWrite,
        message: &str,
        (now, random): (Instant, f64),
    ) -> RejectionNews {
        let last = self.writes.remove(&name).filter(|last| last.write == write);
        let (known, mut backoff) = match last.and_then(|last| last.rejection) {
            Some((known, backoff)) => (Some(known), backoff),
            None => (None, Backoff::new(REJECTION_BACKOFF)),
        };
        let news =
            if known.as_deref() == Some(message) { RejectionNews::Repeated } else { RejectionNews::New };
        let repeat_at = now + backoff.next(random);
        let rejection = Some((message.to_owned(), backoff));
        self.writes.insert(name, RecentWrite { write, repeat_at, rejection });
        news
    }

    /// The watch reports a newer state than the last write.
    pub(super) fn reported(&mut self, name: &PodFullName) {
        self.writes.remove(name);
    }

    /// Forgets the mirror pods that need no write any more.
    pub(super) fn retain<T>(&mut self, needed: &BTreeMap<PodFullName, T>) {
        self.writes.retain(|name, _| needed.contains_key(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name() -> PodFullName {
        PodFullName { namespace: "ns".into(), name: "s".into() }
    }

    fn create(uid: &str) -> MirrorWrite {
        MirrorWrite { action: MirrorAction::Create, static_pod: Some(uid.into()) }
    }

    #[tokio::test(start_paused = true)]
    async fn rejected_write_backs_off_and_is_news_until_it_changes() {
        let mut writes = RecentWrites::default();
        let mut now = Instant::now();
        for (attempt, delay) in [5, 10, 20, 40, 60, 60].into_iter().enumerate() {
            assert!(writes.is_due(&name(), &create("one"), now), "attempt {attempt}");
            let news = writes.rejected(name(), create("one"), "no namespace", (now, 0.0));
            let expected = if attempt == 0 { RejectionNews::New } else { RejectionNews::Repeated };
            assert_eq!(news, expected, "attempt {attempt}");
            now += Duration::from_secs(delay);
            assert!(!writes.is_due(&name(), &create("one"), now - Duration::from_millis(1)));
        }
        let news = writes.rejected(name(), create("one"), "namespace is terminating", (now, 0.0));
        assert_eq!(news, RejectionNews::New);
        assert!(writes.is_due(&name(), &create("two"), now), "the static pod changed");
        let news = writes.rejected(name(), create("two"), "namespace is terminating", (now, 0.0));
        assert_eq!(news, RejectionNews::New);
        writes.accepted(name(), create("two"), now);
        let news = writes.rejected(name(), create("two"), "namespace is terminating", (now, 0.0));
        assert_eq!(news, RejectionNews::New, "it had succeeded in between");
    }

    #[tokio::test(start_paused = true)]
    async fn accepted_write_is_repeated_only_if_the_watch_does_not_report_it() {
        let mut writes = RecentWrites::default();
        let now = Instant::now();
        writes.accepted(name(), create("one"), now);
        assert!(!writes.is_due(&name(), &create("one"), now));
        assert!(writes.is_due(&name(), &create("one"), now + WATCH_TIMEOUT));
        writes.reported(&name());
        assert!(writes.is_due(&name(), &create("one"), now));
    }
}
