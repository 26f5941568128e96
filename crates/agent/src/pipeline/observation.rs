//! The published table of observed pods, and requests for a newer observation.

use std::sync::Arc;

use model::{Moment, MomentSource, Observation, ObservedPod, PodFullName, PodUid};
use timing::KeySender;
use tokio::sync::{mpsc, oneshot, watch};

use crate::pipeline::tables::{Reader, Writer, table};

/// Requests a new observation of one pod from the lifecycle event generator.
#[derive(Debug)]
pub struct ObserveRequest {
    pub uid: PodUid,
    /// The observation must begin later than this.
    pub after: Moment,
    /// Receives the observation; `None` for a hint.
    pub reply: Option<oneshot::Sender<Arc<ObservedPod>>>,
}

/// Reads observations and requests newer ones.
#[derive(Clone, Debug)]
pub struct Observer {
    rows: Reader<ObservedPod>,
    last_relist: watch::Receiver<Moment>,
    requests: mpsc::UnboundedSender<ObserveRequest>,
    moments: MomentSource,
}

/// The writer of the table, owned by the lifecycle event generator.
#[derive(Debug)]
pub struct Observations {
    /// One row for each pod that has a sandbox or container in the runtime.
    pub rows: Writer<ObservedPod>,
    /// When the last relist began. A pod without a row had nothing in the runtime at that moment.
    pub last_relist: watch::Sender<Moment>,
    pub requests: mpsc::UnboundedReceiver<ObserveRequest>,
    /// Orders actions and observations.
    pub moments: MomentSource,
}

/// Creates the table.
#[must_use]
pub fn observations(listeners: Vec<KeySender<PodUid>>) -> (Observations, Observer) {
    let (writer, rows) = table(listeners);
    let (last_relist, relist_reader) = watch::channel(Moment::START);
    // Unbounded: the generator receives every request immediately and coalesces those of one pod.
    let (sender, requests) = mpsc::unbounded_channel();
    let moments = MomentSource::default();
    (
        Observations { rows: writer, last_relist, requests, moments: moments.clone() },
        Observer { rows, last_relist: relist_reader, requests: sender, moments },
    )
}

impl Observer {
    /// An observation of the pod that is newer than `after`; waits for a new one if necessary.
    pub async fn after(&self, uid: &PodUid, full_name: &PodFullName, after: Moment) -> Arc<ObservedPod> {
        loop {
            if let Some(observed) = self.newer_than(uid, full_name, after) {
                return observed;
            }
            let (reply, answer) = oneshot::channel();
            let request = ObserveRequest { uid: uid.clone(), after, reply: Some(reply) };
            if self.requests.send(request).is_err() {
                // The generator has ended: the agent is stopping.
                std::future::pending::<()>().await;
            }
            if let Ok(observed) = answer.await {
                return observed;
            }
        }
    }

    /// Requests an observation without waiting for it, after an action on the pod.
    pub fn hint(&self, uid: &PodUid) {
        // Fails only while the agent stops.
        let _ =
            self.requests.send(ObserveRequest { uid: uid.clone(), after: self.moments.next(), reply: None });
    }

    /// The last observation, of any age.
    #[must_use]
    pub fn last(&self, uid: &PodUid) -> Option<Arc<ObservedPod>> {
        self.rows.get(uid)
    }

    #[must_use]
    pub fn all(&self) -> Vec<Arc<ObservedPod>> {
        self.rows.all()
    }

    /// A number that differs after each change.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.rows.version()
    }

    #[must_use]
    pub fn has_listed(&self) -> bool {
        *self.last_relist.borrow() > Moment::START
    }

    /// Completes once the runtime has been listed.
    pub async fn listed(&self) {
        let mut last_relist = self.last_relist.clone();
        if last_relist.wait_for(|last_relist| *last_relist > Moment::START).await.is_err() {
            // The generator has ended: the agent is stopping.
            std::future::pending::<()>().await;
        }
    }

    /// Completes once the runtime has been listed and every listed pod was observed, successfully or not.
    pub async fn all_observed(&self) {
        let mut changes = self.rows.changes();
        self.listed().await;
        let is_due = |row: &Arc<ObservedPod>| matches!(row.observation, Observation::Listed { .. });
        while self.rows.all().iter().any(is_due) {
            if changes.changed().await.is_err() {
                // The generator has ended: the agent is stopping.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Orders actions and observations.
    #[must_use]
    pub fn moments(&self) -> &MomentSource {
        &self.moments
    }

    fn newer_than(&self, uid: &PodUid, full_name: &PodFullName, after: Moment) -> Option<Arc<ObservedPod>> {
        // Reads the relist moment before the row: a row that is published in between is newer and is found.
        let last_relist = *self.last_relist.borrow();
        match self.rows.get(uid) {
            Some(row) => (row.moment > after).then_some(row),
            None => (last_relist > after)
                .then(|| Arc::new(ObservedPod::absent(uid.clone(), full_name.clone(), last_relist))),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn all_observed_completes_after_the_last_listed_pod() {
        let (observations, observer) = observations(Vec::new());
        let row = |uid: &str, observation| {
            let full_name = PodFullName { namespace: "n".to_owned(), name: uid.to_owned() };
            let mut row = ObservedPod::absent(uid.into(), full_name, Moment::START);
            row.observation = observation;
            observations.rows.set(&row.uid.clone(), Arc::new(row));
        };
        let mut all_observed = std::pin::pin!(observer.all_observed());
        let mut is_over = || all_observed.as_mut().now_or_never().is_some();
        assert!(!is_over(), "nothing was listed");
        for uid in ["a", "b"] {
            row(uid, Observation::Listed { runs: true });
        }
        observations.last_relist.send_replace(observations.moments.next());
        assert!(!is_over());
        row("a", Observation::Complete);
        assert!(!is_over(), "b may still use anything");
        row("b", Observation::Failed("no answer".to_owned()));
        assert!(is_over());
    }
}
