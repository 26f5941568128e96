//! Export of spans as configured in `tracing`.

use std::sync::Arc;

use anyhow::Context;
use config::KubeletConfiguration;
use otlp::{ExportSettings, Exporter, SpanLayer};
use ports::clock::SystemClock;

const DEFAULT_ENDPOINT: &str = "localhost:4317";

/// The layer that records spans and the task that exports them; `None` when the sampling rate is zero.
///
/// # Errors
/// When the collector's address is invalid.
pub(crate) fn trace_export(config: &KubeletConfiguration) -> anyhow::Result<Option<(SpanLayer, Exporter)>> {
    let Some(settings) = settings(config) else { return Ok(None) };
    otlp::create_exporter(settings, Arc::new(SystemClock)).map(Some).context("tracing.endpoint")
}

fn settings(config: &KubeletConfiguration) -> Option<ExportSettings> {
    let tracing = config.api_client.tracing.as_ref()?;
    let per_million = tracing.sampling_rate_per_million.and_then(|rate| u32::try_from(rate).ok());
    let per_million = per_million.filter(|rate| *rate > 0)?;
    let endpoint = tracing.endpoint.clone().filter(|endpoint| !endpoint.is_empty());
    let host = host::hostname().unwrap_or_default();
    Some(ExportSettings {
        endpoint: endpoint.unwrap_or_else(|| DEFAULT_ENDPOINT.to_owned()),
        per_million,
        resource: vec![("service.name".to_owned(), "kubelet".to_owned()), ("host.name".to_owned(), host)],
    })
}

#[cfg(test)]
mod tests {
    use config::configuration::Tracing;

    use super::*;

    #[test]
    fn exports_spans_only_with_a_sampling_rate() {
        let mut config = KubeletConfiguration::file_defaults();
        assert!(settings(&config).is_none());
        config.api_client.tracing = Some(Tracing::default());
        assert!(settings(&config).is_none());
        let rate = Some(5000);
        config.api_client.tracing = Some(Tracing { endpoint: None, sampling_rate_per_million: rate });
        let found = settings(&config).unwrap();
        assert_eq!((found.endpoint.as_str(), found.per_million), ("localhost:4317", 5000));
    }
}
