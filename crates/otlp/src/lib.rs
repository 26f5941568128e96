//! Exports spans to an OpenTelemetry collector with OTLP over gRPC.
//!
//! [`SpanLayer`] collects spans of `tracing` with the target [`TARGET`]; [`Exporter`] sends them in batches.
//!
//! Invariants: the agent never waits for the collector; if that is unreachable or slow, spans are dropped. Sampling is
//! decided once per trace, by its first span. Special fields of a span: `otel.name` sets its name, `otel.kind` its kind,
//! `otel.parent` its remote parent (a `traceparent` header), `error` its error status.
//!
//! Out of scope: events within spans, metrics, logs.

mod endpoint;
mod exporter;
mod layer;
mod sampler;
mod trace_parent;

/// Generated code of the OTLP trace service.
#[allow(
    missing_docs,
    unreachable_pub,
    rust_2018_idioms,
    clippy::all,
    clippy::allow_attributes_without_reason,
    clippy::needless_pass_by_value,
    clippy::semicolon_if_nothing_returned,
    clippy::unused_async,
    reason = "generated"
)]
pub mod v1 {
    tonic::include_proto!("opentelemetry.proto.collector.trace.v1");
}

pub use endpoint::EndpointError;
pub use exporter::Exporter;
pub use layer::{ExportedSpans, SpanLayer, trace_parent_of};

pub use ports::telemetry::trace::TARGET;

/// Configuration of the trace export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportSettings {
    /// `host:port`, or an address that starts with `dns:`, `unix:` or `unix-abstract:`.
    pub endpoint: String,
    /// Sampling rate: traces per million.
    pub per_million: u32,
    /// Attributes of all spans, such as the service name and the node name.
    pub resource: Vec<(String, String)>,
}

/// Creates the layer that collects spans and the task that exports them.
///
/// # Errors
/// If the endpoint is invalid.
pub fn create_exporter(
    settings: ExportSettings,
    clock: std::sync::Arc<dyn ports::clock::Clock>,
) -> Result<(SpanLayer, Exporter), EndpointError> {
    let collector = endpoint::CollectorAddress::parse(&settings.endpoint)?;
    let (sender, spans) = tokio::sync::mpsc::channel(exporter::QUEUE_CAPACITY);
    let layer = SpanLayer::new(sender, sampler::Sampler::new(settings.per_million), clock);
    Ok((layer, Exporter::new(collector, spans, settings.resource)))
}

#[cfg(test)]
mod tests;
