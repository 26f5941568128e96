//! Starts the sources of pods that need no API server.

use std::sync::Arc;

use agent::cluster::objects::{self, LocalObjects};
use agent::pipeline::sources::http::HttpSource;
use agent::pipeline::sources::{self, ManifestReader};
use anyhow::Context as _;
use model::PodSource;

use super::Running;
use super::channels::Senders;
use super::context::Context;

/// Starts the sources that the plan names.
///
/// # Errors
/// When the URL source cannot be set up.
pub(super) fn start_sources(
    running: &mut Running,
    context: &Context,
    senders: &Senders,
    objects: &Arc<LocalObjects>,
) -> anyhow::Result<()> {
    let (adapters, plan, report) = (&context.adapters, &context.plan, &context.source_reports);
    let reader = ManifestReader { node: plan.settings.name.clone(), rules: plan.rules };
    let cancel = running.cancel.clone();
    if let Some(file) = &plan.file {
        let deps = sources::file::FileSourceDeps {
            path: file.path.clone(),
            check_frequency: file.check_frequency,
            reader: reader.clone(),
            watch: adapters.watch.clone(),
            snapshots: senders.snapshots.clone(),
            objects: objects.clone(),
            reports: senders.file_reports.clone(),
            report: report.clone(),
            clock: adapters.clock.clone(),
            metrics: adapters.metrics.clone(),
        };
        running.spawn("file source", sources::file::run(deps, cancel.clone()));
    }
    if let Some(http) = &plan.http {
        let deps = sources::http::HttpSourceDeps {
            url: http.url.clone(),
            headers: http.headers.clone(),
            check_frequency: http.check_frequency,
            proxies: http.proxies.clone(),
            reader,
            snapshots: senders.snapshots.clone(),
            objects: objects.clone(),
            report: report.clone(),
        };
        let source = HttpSource::new(deps).context("set up the URL source")?;
        running.spawn("http source", source.run(cancel));
    }
    Ok(())
}

/// Keeps the ConfigMaps and Secrets of the manifests on disk.
pub(super) fn start_local_objects(running: &mut Running, context: &Context, objects: &Arc<LocalObjects>) {
    let checkpoints = context.adapters.checkpoints.clone();
    running.spawn("objects", objects::persist(objects.clone(), checkpoints, running.cancel.clone()));
}

/// Every source that pods may come from.
pub(super) fn configured_sources(context: &Context) -> impl Iterator<Item = PodSource> {
    let file = context.plan.file.as_ref().map(|_| PodSource::File);
    let http = context.plan.http.as_ref().map(|_| PodSource::Http);
    let api = context.api().map(|_| PodSource::Api);
    file.into_iter().chain(http).chain(api)
}
