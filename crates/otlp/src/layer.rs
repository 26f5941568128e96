use std::fmt;
use std::sync::Arc;

use ports::clock::Clock;
use tokio::sync::mpsc;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, Filter};
use tracing_subscriber::registry::LookupSpan;

use crate::TARGET;
use crate::remote::RemoteParent;
use crate::sampler::Sampler;
use crate::v1::any_value::Value;
use crate::v1::span::SpanKind;
use crate::v1::status::StatusCode;
use crate::v1::{AnyValue, KeyValue, Span, Status};

/// Takes spans as they end.
pub struct SpanLayer {
    sender: mpsc::Sender<Span>,
    sampler: Sampler,
    clock: Arc<dyn Clock>,
}

/// What is known of a span that has not ended; `None` in a trace that is left out.
struct Open(Option<Span>);

impl SpanLayer {
    pub(crate) fn new(sender: mpsc::Sender<Span>, sampler: Sampler, clock: Arc<dyn Clock>) -> Self {
        Self { sender, sampler, clock }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.clock.now().as_nanos()).unwrap_or_default()
    }

    /// The ids of a new span: those of its parent's trace, of one far away, or of a trace of its own.
    fn begin(&self, parent: Option<&Open>, remote: Option<RemoteParent>) -> Option<Span> {
        let (trace_id, parent_span_id) = match (parent, remote) {
            (Some(Open(None)), _) => return None,
            (Some(Open(Some(parent))), _) => (parent.trace_id.clone(), parent.span_id.clone()),
            (None, Some(remote)) if !remote.is_taken => return None,
            (None, Some(remote)) => (remote.trace, remote.span),
            (None, None) => (self.sampler.trace()?.to_vec(), Vec::new()),
        };
        Some(Span {
            trace_id,
            span_id: self.sampler.span().to_vec(),
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
        let parent = ancestors.find(|ancestor| ancestor.extensions().get::<Open>().is_some());
        let mut span = match &parent {
            Some(parent) => self.begin(parent.extensions().get::<Open>(), None),
            None => {
                let mut remote = Remote(None);
                attributes.record(&mut remote);
                self.begin(None, remote.0)
            }
        };
        if let Some(span) = &mut span {
            span.name = attributes.metadata().name().to_owned();
            attributes.record(&mut Fields(span));
        }
        new.extensions_mut().insert(Open(span));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(open) = context.span(id) else { return };
        if let Some(Open(Some(span))) = open.extensions_mut().get_mut::<Open>() {
            values.record(&mut Fields(span));
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(closed) = context.span(&id) else { return };
        let open = closed.extensions_mut().remove::<Open>();
        if let Some(Open(Some(mut span))) = open {
            span.end_time_unix_nano = self.now();
            // A full queue means a collector that is away; the span is dropped.
            let _ = self.sender.try_send(span);
        }
    }
}

/// Lets through what is exported.
#[derive(Clone, Copy, Debug, Default)]
pub struct Exported;

impl<S> Filter<S> for Exported {
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

/// Looks for a parent far away.
struct Remote(Option<RemoteParent>);

impl Visit for Remote {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "otel.parent" {
            self.0 = RemoteParent::read(value);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}

struct Fields<'a>(&'a mut Span);

impl Fields<'_> {
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

impl Visit for Fields<'_> {
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
