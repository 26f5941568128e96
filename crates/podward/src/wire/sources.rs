//! The sources of pods that need no API server.

use std::collections::BTreeSet;
use std::sync::Arc;

use agent::file_report::FileReport;
use agent::objects::LocalObjects;
use agent::source_report::SourceReports;
use agent::sources::{self, ManifestReader, http::HttpSource};
use anyhow::Context;
use model::{PodSource, Snapshot};
use tokio::sync::{mpsc, watch};

use super::{Running, World};
use crate::plan::Plan;

/// Where sources put what they read.
pub(super) struct Wants<'a> {
    pub(super) snapshots: &'a mpsc::Sender<Snapshot>,
    pub(super) reports: watch::Sender<Vec<FileReport>>,
    pub(super) objects: &'a Arc<LocalObjects>,
    pub(super) report: &'a Arc<SourceReports>,
}

/// Starts the sources that the plan names.
///
/// # Errors
/// When the URL source cannot be set up.
pub(super) fn start_sources(
    running: &mut Running,
    world: &World,
    plan: &Plan,
    wants: Wants<'_>,
) -> anyhow::Result<()> {
    let Wants { snapshots, reports, objects, report } = wants;
    let reader = ManifestReader { node: plan.settings.name.clone(), rules: plan.rules };
    let cancel = running.cancel.clone();
    if let Some(file) = &plan.file {
        let parts = sources::file::Parts {
            path: file.path.clone(),
            check_frequency: file.check_frequency,
            reader: reader.clone(),
            watch: world.watch.clone(),
            snapshots: snapshots.clone(),
            objects: objects.clone(),
            reports,
            report: report.clone(),
            clock: world.clock.clone(),
            metrics: world.metrics.clone(),
        };
        running.spawn("file source", sources::file::run(parts, cancel.clone()));
    }
    if let Some(http) = &plan.http {
        let parts = sources::http::Parts {
            url: http.url.clone(),
            headers: http.headers.clone(),
            check_frequency: http.check_frequency,
            proxies: http.proxies.clone(),
            reader,
            snapshots: snapshots.clone(),
            objects: objects.clone(),
            report: report.clone(),
        };
        let source = HttpSource::new(parts).context("set up the URL source")?;
        running.spawn("http source", source.run(cancel));
    }
    Ok(())
}

/// Every source that pods may come from.
pub(super) fn configured_sources(plan: &Plan, world: &World) -> BTreeSet<PodSource> {
    let file = plan.file.as_ref().map(|_| PodSource::File);
    let http = plan.http.as_ref().map(|_| PodSource::Http);
    let api = world.api.as_ref().map(|_| PodSource::Api);
    file.into_iter().chain(http).chain(api).collect()
}
