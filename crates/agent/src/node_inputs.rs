//! What other stages contribute to the node's status: one channel each, so that each has one writer.

use decide::admission::Shutdown;
use decide::node_shutdown::NODE_PROBLEM;
use decide::node_status::Pressure;
use tokio::sync::watch;

/// The reading ends, for the node stage.
#[derive(Clone, Debug)]
pub struct NodeInputs {
    pressure: watch::Receiver<Pressure>,
    storage: watch::Receiver<Option<String>>,
    shutdown: watch::Receiver<Option<Shutdown>>,
    volumes_in_use: watch::Receiver<Option<Vec<String>>>,
}

/// The writing ends, one for each stage that has something to say.
#[derive(Debug)]
pub struct NodeReporters {
    /// What runs short.
    pub pressure: watch::Sender<Pressure>,
    /// Why volumes cannot be mounted yet, in upstream's words.
    pub storage: watch::Sender<Option<String>>,
    /// Whether the machine is shutting down; `None` while that is not known yet.
    pub shutdown: watch::Sender<Option<Shutdown>>,
    /// Volumes that must not be detached; `None` while that is not known.
    pub volumes_in_use: watch::Sender<Option<Vec<String>>>,
}

impl NodeReporters {
    /// Another reading end, for whoever acts on what is reported.
    #[must_use]
    pub fn inputs(&self) -> NodeInputs {
        NodeInputs {
            pressure: self.pressure.subscribe(),
            storage: self.storage.subscribe(),
            shutdown: self.shutdown.subscribe(),
            volumes_in_use: self.volumes_in_use.subscribe(),
        }
    }
}

/// Until the node's CSINode is there, in upstream's words.
const NO_CSI_NODE: &str = "CSINode is not yet initialized";

/// The channels: no pressure, no shutdown, no CSINode and nothing known of volumes at first.
#[must_use]
pub fn channels() -> (NodeReporters, NodeInputs) {
    let (pressure_writer, pressure) = watch::channel(Pressure::default());
    let (storage_writer, storage) = watch::channel(Some(NO_CSI_NODE.to_owned()));
    let (shutdown_writer, shutdown) = watch::channel(Some(Shutdown::None));
    let (volumes_writer, volumes_in_use) = watch::channel(None);
    let reporters = NodeReporters {
        pressure: pressure_writer,
        storage: storage_writer,
        shutdown: shutdown_writer,
        volumes_in_use: volumes_writer,
    };
    (reporters, NodeInputs { pressure, storage, shutdown, volumes_in_use })
}

impl NodeInputs {
    /// What runs short now.
    #[must_use]
    pub fn pressure(&self) -> Pressure {
        *self.pressure.borrow()
    }

    /// Why the node is not ready, beside its runtime.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        match self.shutdown() {
            Shutdown::None => Vec::new(),
            Shutdown::Imminent => vec![NODE_PROBLEM.to_owned()],
        }
    }

    /// Whether the machine is going down.
    #[must_use]
    pub fn shutdown(&self) -> Shutdown {
        self.shutdown.borrow().unwrap_or_default()
    }

    /// Waits until it is known whether the machine is going down.
    pub async fn shutdown_known(&self) {
        // Nobody who could tell is left: it stays as it is.
        let _ = self.shutdown.clone().wait_for(Option::is_some).await;
    }

    /// Why a node that is not ready cannot become so yet.
    #[must_use]
    pub fn obstacles(&self) -> Vec<String> {
        self.storage.borrow().iter().cloned().collect()
    }

    /// Volumes that must not be detached.
    #[must_use]
    pub fn volumes_in_use(&self) -> Option<Vec<String>> {
        self.volumes_in_use.borrow().clone()
    }

    /// Waits until something new is said.
    pub async fn changed(&mut self) {
        tokio::select! {
            () = next(&mut self.pressure) => {}
            () = next(&mut self.storage) => {}
            () = next(&mut self.shutdown) => {}
            () = next(&mut self.volumes_in_use) => {}
        }
    }
}

/// A writer that is gone has nothing more to say.
async fn next<T>(input: &mut watch::Receiver<T>) {
    if input.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_not_known_yet_is_waited_for() {
        let (reporters, inputs) = channels();
        inputs.shutdown_known().await;
        reporters.shutdown.send_replace(None);
        assert_eq!(inputs.shutdown(), Shutdown::None);
        assert!(futures::FutureExt::now_or_never(inputs.shutdown_known()).is_none());
        reporters.shutdown.send_replace(Some(Shutdown::Imminent));
        inputs.shutdown_known().await;
    }

    #[tokio::test]
    async fn every_writer_is_heard_also_after_others_are_gone() {
        let (reporters, mut inputs) = channels();
        assert_eq!(inputs.obstacles(), ["CSINode is not yet initialized"]);
        reporters.shutdown.send_replace(Some(Shutdown::Imminent));
        inputs.changed().await;
        assert_eq!(inputs.problems(), ["node is shutting down"]);
        assert_eq!(reporters.inputs().shutdown(), Shutdown::Imminent);
        drop(reporters.shutdown);
        reporters.storage.send_replace(None);
        inputs.changed().await;
        assert!(inputs.obstacles().is_empty());
        reporters.pressure.send_replace(Pressure { disk: true, ..Pressure::default() });
        inputs.changed().await;
        assert!(inputs.pressure().disk);
        reporters.volumes_in_use.send_replace(Some(vec!["v".into()]));
        inputs.changed().await;
        assert_eq!(inputs.volumes_in_use(), Some(vec!["v".to_owned()]));
    }
}
