//! Reports of other stages for the node status. Each report has its own channel with one sender.

use decide::admission::Shutdown;
use decide::node::node_shutdown::NODE_PROBLEM;
use decide::node::node_status::Pressure;
use tokio::sync::watch;

use crate::pipeline::plugin_devices::DeviceCounts;

/// The receivers of all reports.
#[derive(Clone, Debug)]
pub struct NodeReports {
    pressure: watch::Receiver<Pressure>,
    storage: watch::Receiver<Option<String>>,
    shutdown: watch::Receiver<Option<Shutdown>>,
    volumes_in_use: watch::Receiver<Option<Vec<String>>>,
    devices: watch::Receiver<DeviceCounts>,
}

/// One sender for each reporting stage.
#[derive(Debug)]
pub struct NodeReportSenders {
    pub pressure: watch::Sender<Pressure>,
    /// Upstream's message while volumes cannot be mounted yet.
    pub storage: watch::Sender<Option<String>>,
    /// Whether the machine is shutting down; `None` while this is unknown.
    pub shutdown: watch::Sender<Option<Shutdown>>,
    /// Volumes that must not be detached; `None` while they are unknown.
    pub volumes_in_use: watch::Sender<Option<Vec<String>>>,
    /// Devices of device plugins.
    pub devices: watch::Sender<DeviceCounts>,
}

impl NodeReportSenders {
    #[must_use]
    pub fn subscribe(&self) -> NodeReports {
        NodeReports {
            pressure: self.pressure.subscribe(),
            storage: self.storage.subscribe(),
            shutdown: self.shutdown.subscribe(),
            volumes_in_use: self.volumes_in_use.subscribe(),
            devices: self.devices.subscribe(),
        }
    }
}

/// Upstream's message until the CSINode exists.
const NO_CSI_NODE: &str = "CSINode is not yet initialized";

/// Initially there is no pressure, no shutdown and no CSINode, and the volumes in use are unknown.
#[must_use]
pub fn channels() -> (NodeReportSenders, NodeReports) {
    let senders = NodeReportSenders {
        pressure: watch::Sender::new(Pressure::default()),
        storage: watch::Sender::new(Some(NO_CSI_NODE.to_owned())),
        shutdown: watch::Sender::new(Some(Shutdown::None)),
        volumes_in_use: watch::Sender::new(None),
        devices: watch::Sender::new(DeviceCounts::new()),
    };
    let reports = senders.subscribe();
    (senders, reports)
}

impl NodeReports {
    #[must_use]
    pub fn pressure(&self) -> Pressure {
        *self.pressure.borrow()
    }

    /// Reasons, other than the runtime, why the node is not ready.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        match self.shutdown() {
            Shutdown::None => Vec::new(),
            Shutdown::Imminent => vec![NODE_PROBLEM.to_owned()],
        }
    }

    #[must_use]
    pub fn shutdown(&self) -> Shutdown {
        self.shutdown.borrow().unwrap_or_default()
    }

    /// Waits until it is known whether the machine is shutting down.
    pub async fn wait_until_shutdown_known(&self) {
        // Fails only when the sender was dropped; the last value stays.
        let _ = self.shutdown.clone().wait_for(Option::is_some).await;
    }

    /// Conditions that delay the first transition to ready.
    #[must_use]
    pub fn startup_problems(&self) -> Vec<String> {
        self.storage.borrow().iter().cloned().collect()
    }

    /// Volumes that must not be detached.
    #[must_use]
    pub fn volumes_in_use(&self) -> Option<Vec<String>> {
        self.volumes_in_use.borrow().clone()
    }

    /// Devices of device plugins, by resource. The next regular status update shows changes, so that a device that changes
    /// often does not cause many.
    #[must_use]
    pub fn devices(&self) -> DeviceCounts {
        self.devices.borrow().clone()
    }

    /// Waits for the next change of any report but devices.
    pub async fn changed(&mut self) {
        tokio::select! {
            () = next(&mut self.pressure) => {}
            () = next(&mut self.storage) => {}
            () = next(&mut self.shutdown) => {}
            () = next(&mut self.volumes_in_use) => {}
        }
    }
}

/// Never returns after the sender was dropped.
async fn next<T>(input: &mut watch::Receiver<T>) {
    if input.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waits_until_shutdown_state_is_known() {
        let (senders, reports) = channels();
        reports.wait_until_shutdown_known().await;
        senders.shutdown.send_replace(None);
        assert_eq!(reports.shutdown(), Shutdown::None);
        assert!(futures::FutureExt::now_or_never(reports.wait_until_shutdown_known()).is_none());
        senders.shutdown.send_replace(Some(Shutdown::Imminent));
        reports.wait_until_shutdown_known().await;
    }

    #[tokio::test]
    async fn receives_reports_after_other_senders_are_dropped() {
        let (senders, mut reports) = channels();
        assert_eq!(reports.startup_problems(), ["CSINode is not yet initialized"]);
        senders.shutdown.send_replace(Some(Shutdown::Imminent));
        reports.changed().await;
        assert_eq!(reports.problems(), ["node is shutting down"]);
        assert_eq!(senders.subscribe().shutdown(), Shutdown::Imminent);
        drop(senders.shutdown);
        senders.storage.send_replace(None);
        reports.changed().await;
        assert!(reports.startup_problems().is_empty());
        senders.pressure.send_replace(Pressure { disk: true, ..Pressure::default() });
        reports.changed().await;
        assert!(reports.pressure().disk);
        senders.volumes_in_use.send_replace(Some(vec!["v".into()]));
        reports.changed().await;
        assert_eq!(reports.volumes_in_use(), Some(vec!["v".to_owned()]));
    }
}
