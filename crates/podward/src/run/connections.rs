//! The cluster and the main port, with what keeps them good while the agent runs.

use std::path::Path;
use std::sync::Arc;

use agent::metrics::{CertificateMetrics, Metrics};
use anyhow::Context;
use cluster::identity::{self, Meters, ServingUpkeep};
use config::Loaded;
use node_api::{About, ProfilingParts};
use ports::certificate_meter::CertificateMeter;
use ports::clock::SystemClock;

use super::supervision::give_memory_back;
use crate::plan::Plan;
use crate::wire::{ApiServer, Running, Serving};
use crate::{join, service_manager, serving};

/// Ways in and out.
pub(super) struct Connected {
    pub(super) api: Option<ApiServer>,
    pub(super) serving: Option<Serving>,
    pub(super) upkeep: Upkeep,
}

/// Joins the cluster, if there is one, and makes ready to answer.
pub(super) async fn connected(
    loaded: &Loaded,
    plan: &Plan,
    state: &Path,
    metrics: &Arc<Metrics>,
    portrait: (About, ProfilingParts),
) -> anyhow::Result<Connected> {
    let certificates = Arc::new(CertificateMetrics::new(Arc::new(SystemClock)));
    metrics.add(certificates.clone());
    let meters = Meters { requests: metrics.api.clone(), certificates: certificates.clone() };
    let joined = join::join(loaded, &plan.settings.name, state, meters).await?;
    let (serving, serving_upkeep) = match &plan.server {
        Some(_) => {
            let clients =
                joined.as_ref().map(|joined| (&joined.clients, certificates as Arc<dyn CertificateMeter>));
            let node = (plan.settings.name.as_str(), plan.settings.addresses.as_slice());
            serving::serving(loaded, clients, node, portrait)
                .context("set up the main port")
                .map(|(serving, upkeep)| (Some(serving), upkeep))?
        }
        None => (None, None),
    };
    let (api, identity) = joined.map(|joined| (joined.api, joined.upkeep)).unzip();
    Ok(Connected { api, serving, upkeep: Upkeep { identity, serving: serving_upkeep, exporter: None } })
}

/// What runs beside the stages.
pub(super) struct Upkeep {
    identity: Option<identity::Upkeep>,
    serving: Option<ServingUpkeep>,
    pub(super) exporter: Option<otlp::Exporter>,
}

impl Upkeep {
    /// Starts it.
    pub(super) fn start(self, running: &mut Running) {
        let watchdog = service_manager::watchdog(running.views.clone(), running.cancel.clone());
        running.spawn("watchdog", watchdog);
        running.spawn("memory", give_memory_back(running.cancel.clone()));
        if let Some(identity) = self.identity {
            running.spawn("identity", identity.run(running.cancel.clone()));
        }
        if let Some(upkeep) = self.serving {
            running.spawn("serving certificate", upkeep.run(running.cancel.clone()));
        }
        if let Some(exporter) = self.exporter {
            running.spawn("trace export", exporter.run(running.cancel.clone().cancelled_owned()));
        }
    }
}
