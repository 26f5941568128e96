//! The published observations and the way to ask for a newer one.

use std::sync::Arc;

use model::{Moment, MomentSource, Observation, ObservedPod, PodFullName, PodUid};
use tokio::sync::{mpsc, oneshot, watch};

use crate::published::{Reader, Writer, table};

/// Asks the lifecycle event generator to look at one pod again.
#[derive(Debug)]
pub struct ObserveRequest {
    /// Which pod.
    pub uid: PodUid,
    /// The look must begin later than this.
    pub after: Moment,
    /// Who wants to know; `None` for a mere hint.
    pub reply: Option<oneshot::Sender<Arc<ObservedPod>>>,
}

/// Reads observations and asks for newer ones.
#[derive(Clone, Debug)]
pub struct Observer {
    rows: Reader<ObservedPod>,
    floor: watch::Receiver<Moment>,
    requests: mpsc::UnboundedSender<ObserveRequest>,
    moments: MomentSource,
}

/// The writing end, held by the lifecycle event generator.
#[derive(Debug)]
pub struct Observations {
    /// One row for each pod the runtime holds something of.
    pub rows: Writer<ObservedPod>,
    /// When the last whole list began: a pod without a row held nothing at that moment.
    pub floor: watch::Sender<Moment>,
    /// What is asked for.
    pub requests: mpsc::UnboundedReceiver<ObserveRequest>,
    /// The order of actions and observations.
    pub moments: MomentSource,
}

/// Both ends.
#[must_use]
pub fn observations(listeners: Vec<mpsc::UnboundedSender<PodUid>>) -> (Observations, Observer) {
    let (writer, rows) = table(listeners);
    let (floor, floor_reader) = watch::channel(Moment::START);
    let (sender, requests) = mpsc::unbounded_channel();
    let moments = MomentSource::default();
    (
        Observations { rows: writer, floor, requests, moments: moments.clone() },
        Observer { rows, floor: floor_reader, requests: sender, moments },
    )
}

impl Observer {
    /// The pod as seen at a moment later than `after`; waits for a new look if need be.
    pub async fn after(&self, uid: &PodUid, full_name: &PodFullName, after: Moment) -> Arc<ObservedPod> {
        loop {
            if let Some(known) = self.known(uid, full_name, after) {
                return known;
            }
            let (reply, answer) = oneshot::channel();
            let request = ObserveRequest { uid: uid.clone(), after, reply: Some(reply) };
            if self.requests.send(request).is_err() {
                // The generator is gone: the agent is stopping.
                std::future::pending::<()>().await;
            }
            if let Ok(observed) = answer.await {
                return observed;
            }
        }
    }

    /// Hints that the pod should be looked at: something was just done to it.
    pub fn hint(&self, uid: &PodUid) {
        // Fails only while the agent stops.
        let _ =
            self.requests.send(ObserveRequest { uid: uid.clone(), after: self.moments.next(), reply: None });
    }

    /// The last observation, however old.
    #[must_use]
    pub fn last(&self, uid: &PodUid) -> Option<Arc<ObservedPod>> {
        self.rows.get(uid)
    }

    /// The last observations of all pods.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<ObservedPod>> {
        self.rows.all()
    }

    /// Another number after each change.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.rows.version()
    }

    /// Whether the runtime has been listed at least once.
    #[must_use]
    pub fn has_listed(&self) -> bool {
        *self.floor.borrow() > Moment::START
    }

    /// Returns once the runtime has been listed.
    pub async fn listed(&self) {
        let mut floor = self.floor.clone();
        if floor.wait_for(|floor| *floor > Moment::START).await.is_err() {
            // The generator is gone: the agent is stopping.
            std::future::pending::<()>().await;
        }
    }

    /// Returns once the runtime has been listed and every pod that it named was looked at, or could not be.
    pub async fn looked(&self) {
        let mut changes = self.rows.changes();
        self.listed().await;
        let is_due = |row: &Arc<ObservedPod>| matches!(row.observation, Observation::Listed { .. });
        while self.rows.all().iter().any(is_due) {
            if changes.changed().await.is_err() {
                // The generator is gone: the agent is stopping.
                std::future::pending::<()>().await;
            }
        }
    }

    /// The order of actions and observations.
    #[must_use]
    pub fn moments(&self) -> &MomentSource {
        &self.moments
    }

    fn known(&self, uid: &PodUid, full_name: &PodFullName, after: Moment) -> Option<Arc<ObservedPod>> {
        // The floor is read first: a row that appears later is then newer, never missed.
        let floor = *self.floor.borrow();
        match self.rows.get(uid) {
            Some(row) => (row.moment > after).then_some(row),
            None => {
                (floor > after).then(|| Arc::new(ObservedPod::absent(uid.clone(), full_name.clone(), floor)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn pods_count_as_looked_at_when_the_last_listed_one_was() {
        let (observations, observer) = observations(Vec::new());
        let row = |uid: &str, observation| {
            let full_name = PodFullName { namespace: "n".to_owned(), name: uid.to_owned() };
            let mut row = ObservedPod::absent(uid.into(), full_name, Moment::START);
            row.observation = observation;
            observations.rows.set(&row.uid.clone(), Arc::new(row));
        };
        let mut looked = std::pin::pin!(observer.looked());
        let mut is_over = || looked.as_mut().now_or_never().is_some();
        assert!(!is_over(), "nothing was listed");
        for uid in ["a", "b"] {
            row(uid, Observation::Listed { runs: true });
        }
        observations.floor.send_replace(observations.moments.next());
        assert!(!is_over());
        row("a", Observation::Complete);
        assert!(!is_over(), "b may still use anything");
        row("b", Observation::Failed("no answer".to_owned()));
        assert!(is_over());
    }
}
