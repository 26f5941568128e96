//! The published observations and the way to ask for a newer one.

use std::sync::Arc;

use model::{Moment, MomentSource, ObservedPod, PodFullName, PodUid};
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
