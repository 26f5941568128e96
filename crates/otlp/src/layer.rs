use std::fmt;
use std::sync::Arc;

use ports::clock::Clock;
use tokio::sync::mpsc;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Filter};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};

use crate::TARGET;
use crate::sampler::Sampler;
use crate::trace_parent::TraceParent;
use crate::v1::any_value::Value;
use crate::v1::span::SpanKind;
use crate::v1::status::StatusCode;
use crate::v1::{AnyValue, KeyValue, Span, Status};

/// Queues sampled spans for export when they close.
pub struct SpanLayer {
    sender: mpsc::Sender<Span>,
    sampler: Sampler,
    clock: Arc<dyn Clock>,
}

/// A span that has not ended; `None` if its trace is not sampled.
struct OpenSpan(Option<Span>);

impl SpanLayer {
    pub(crate) fn new(sender: mpsc::Sender<Span>, sampler: Sampler, clock: Arc<dyn Clock>) -> Self {
        Self { sender, sampler, clock }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.clock.now().as_nanos()).unwrap_or_default()
    }

    /// Starts a span in the trace of its local parent, of its remote parent, or in a new trace.
    fn begin(&self, parent: Option<&OpenSpan>, remote: Option<TraceParent>) -> Option<Span> {
        let (trace_id, parent_span_id) = match (parent, remote) {
            (Some(OpenSpan(None)), _) => return None,
            (Some(OpenSpan(Some(parent))), _) => (parent.trace_id.clone(), parent.span_id.clone()),
            (None, Some(remote)) if !remote.is_sampled => return None,
            (None, Some(remote)) => (remote.trace_id, remote.span_id),
            (None, None) => (self.sampler.new_trace_id()?.to_vec(), Vec::new()),
        };
        Some(Span {
            trace_id,
            span_id: self.sampler.new_span_id().to_vec(),
            parent_span_id,
            kind: SpanKind::Internal.into(),
            start_time_unix_nano: self.now(),
            ..Span::default()
        })
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for SpanLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(new) = context.span(id) else { return };
        let mut ancestors = new.scope().skip(1);
        let parent = ancestors.find(|ancestor| ancestor.extensions().get::<OpenSpan>().is_some());
        let mut span = match &parent {
            Some(parent) => self.begin(parent.extensions().get::<OpenSpan>(), None),
            None => {
                let mut remote = RemoteParentVisitor(None);
                attributes.record(&mut remote);
                self.begin(None, remote.0)
            }
        };
        if let Some(span) = &mut span {
            span.name = attributes.metadata().name().to_owned();
            attributes.record(&mut FieldVisitor(span));
        }
        new.extensions_mut().insert(OpenSpan(span));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(open) = context.span(id) else { return };
        if let Some(OpenSpan(Some(span))) = open.extensions_mut().get_mut::<OpenSpan>() {
            values.record(&mut FieldVisitor(span));
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(closed) = context.span(&id) else { return };
        let open = closed.extensions_mut().remove::<OpenSpan>();
        if let Some(OpenSpan(Some(mut span))) = open {
            span.end_time_unix_nano = self.now();
            // If the queue is full, the collector is unreachable or slow: drop the span.
            let _ = self.sender.try_send(span);
        }
    }
}

/// The W3C `traceparent` of a span, for requests to other programs; `None` if no [`SpanLayer`] records it. A span whose trace
/// is not sampled has one that says so, so that the other program does not start a trace.
#[must_use]
pub fn trace_parent_of(span: &tracing::Span) -> Option<String> {
    span.with_subscriber(|(id, dispatch)| {
        let sampler = &dispatch.downcast_ref::<SpanLayer>()?.sampler;
        let registry = dispatch.downcast_ref::<Registry>()?;
        let found = registry.span(id)?;
        let extensions = found.extensions();
        let parent = match &extensions.get::<OpenSpan>()?.0 {
            Some(span) => TraceParent {
                trace_id: span.trace_id.clone(),
                span_id: span.span_id.clone(),
                is_sampled: true,
            },
            None => TraceParent {
                trace_id: [sampler.new_span_id(), sampler.new_span_id()].concat(),
                span_id: sampler.new_span_id().to_vec(),
                is_sampled: false,
            },
        };
        Some(parent.to_string())
    })
    .flatten()
}

/// Filter for the spans that are exported.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExportedSpans;

impl<S> Filter<S> for ExportedSpans {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        metadata.is_span() && metadata.target() == TARGET
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> tracing::subscriber::Interest {
        if metadata.is_span() && metadata.target() == TARGET {
            tracing::subscriber::Interest::always()
        } else {
            tracing::subscriber::Interest::never()
        }
    }
}

/// Finds the `otel.parent` field.
struct RemoteParentVisitor(Option<TraceParent>);

impl Visit for RemoteParentVisitor {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "otel.parent" {
            self.0 = TraceParent::parse(value);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}

struct FieldVisitor<'a>(&'a mut Span);

impl FieldVisitor<'_> {
    fn set(&mut self, field: &Field, value: Value) {
        match (field.name(), value) {
            ("otel.name", Value::StringValue(name)) => self.0.name = name,
            ("otel.kind", Value::StringValue(kind)) if kind == "client" => {
                self.0.kind = SpanKind::Client.into();
            }
            ("otel.kind", Value::StringValue(kind)) if kind == "server" => {
                self.0.kind = SpanKind::Server.into();
            }
            ("otel.parent", _) => {}
            ("error", Value::StringValue(message)) => {
                self.0.status = Some(Status { message, code: StatusCode::Error.into() });
            }
            (key, value) => {
                let value = Some(AnyValue { value: Some(value) });
                self.0.attributes.push(KeyValue { key: key.to_owned(), value });
            }
        }
    }
}

impl Visit for FieldVisitor<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.set(field, Value::StringValue(value.to_owned()));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.set(field, Value::IntValue(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.set(field, Value::IntValue(i64::try_from(value).unwrap_or(i64::MAX)));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.set(field, Value::BoolValue(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.set(field, Value::DoubleValue(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.set(field, Value::StringValue(format!("{value:?}")));
    }
}
