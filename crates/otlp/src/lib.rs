//! Spans to an OpenTelemetry collector, by OTLP over gRPC.
//!
//! Comes in: spans of `tracing` whose target is [`TARGET`] ([`SpanLayer`]). Goes out: batches to a collector
//! ([`Exporter`]).
//!
//! Invariants: nothing waits for the collector; when it is away or slow, spans are dropped. A trace is taken or left as
//! a whole, by its first span. Names: a field `otel.name` names the span, `otel.kind` its kind, `otel.parent` the
//! `traceparent` of another program that it belongs to, `error` its failure.
//!
//! Not here: events within spans, metrics, logs.

mod endpoint;
mod exporter;
mod layer;
mod remote;
mod sampler;

/// OTLP for traces, generated.
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
pub use layer::{Exported, SpanLayer};

pub use ports::trace::TARGET;

/// What is exported, where to, and in whose name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The collector: `host:port`, or an address that starts with `dns:`, `unix:` or `unix-abstract:`.
    pub endpoint: String,
    /// Traces of a million that are taken.
    pub per_million: u32,
    /// Attributes of all spans, such as the name of the service and the node.
    pub resource: Vec<(String, String)>,
}

/// The layer that takes spans and the task that sends them.
///
/// # Errors
/// When the endpoint cannot be read.
pub fn exporting(
    settings: Settings,
    clock: std::sync::Arc<dyn ports::clock::Clock>,
) -> Result<(SpanLayer, Exporter), EndpointError> {
    let collector = endpoint::Collector::read(&settings.endpoint)?;
    let (sender, spans) = tokio::sync::mpsc::channel(exporter::WAITING);
    let layer = SpanLayer::new(sender, sampler::Sampler::new(settings.per_million), clock);
    Ok((layer, Exporter::new(collector, spans, settings.resource)))
}

#[cfg(test)]
mod tests;
