//! Connects to the cluster and prepares the main port.

use std::path::Path;
use std::sync::Arc;

use agent::metrics::{CertificateMetrics, Metrics};
use anyhow::Context;
use cluster::identity::{self, IdentityMeters, ServingCertificateManager};
use config::LoadedConfig;
use node_api::{ProfilingDeps, ZPagesDeps};
use ports::clock::SystemClock;
use ports::telemetry::certificate_meter::CertificateMeter;

use super::supervision::give_memory_back;
use crate::plan::Plan;
use crate::wire::{ApiServer, Running, Serving};
use crate::{join, service_manager, serving};

pub(super) struct Connected {
    pub(super) api: Option<ApiServer>,
    pub(super) serving: Option<Serving>,
    pub(super) upkeep: BackgroundTasks,
}

/// Joins the cluster, if there is one, and prepares the certificate of the main port.
pub(super) async fn connected(
    loaded: &LoadedConfig,
    plan: &Plan,
    state: &Path,
    metrics: &Arc<Metrics>,
    debug_pages: (ZPagesDeps, ProfilingDeps),
) -> anyhow::Result<Connected> {
    let certificates = Arc::new(CertificateMetrics::new(Arc::new(SystemClock)));
    metrics.add(certificates.clone());
    let meters = IdentityMeters { requests: metrics.api.clone(), certificates: certificates.clone() };
    let joined = join::join(loaded, &plan.settings.name, state, meters).await?;
    let (serving, serving_upkeep) = match &plan.server {
        Some(_) => {
            let clients =
                joined.as_ref().map(|joined| (&joined.clients, certificates as Arc<dyn CertificateMeter>));
            let node = (plan.settings.name.as_str(), plan.settings.addresses.as_slice());
            serving::serving(loaded, clients, node, debug_pages)
                .context("set up the main port")
                .map(|(serving, upkeep)| (Some(serving), upkeep))?
        }
        None => (None, None),
    };
    let (api, identity) = joined.map(|joined| (joined.api, joined.upkeep)).unzip();
    Ok(Connected {
        api,
        serving,
        upkeep: BackgroundTasks { identity, serving: serving_upkeep, exporter: None },
    })
}

/// Tasks that run beside the stages: certificate renewal, trace export, watchdog.
pub(super) struct BackgroundTasks {
    identity: Option<identity::ClientCertificateManager>,
    serving: Option<ServingCertificateManager>,
    pub(super) exporter: Option<otlp::Exporter>,
}

impl BackgroundTasks {
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
