use std::time::Duration;

use tokio::sync::mpsc;
use tonic::transport::Channel;

use crate::endpoint::CollectorAddress;
use crate::v1::any_value::Value;
use crate::v1::trace_service_client::TraceServiceClient;
use crate::v1::{
    AnyValue, ExportTraceServiceRequest, InstrumentationScope, KeyValue, Resource, ResourceSpans, ScopeSpans,
    Span,
};

/// Spans beyond this number of queued ones are dropped.
pub(crate) const QUEUE_CAPACITY: usize = 2048;
const MAX_BATCH_SPANS: usize = 512;
/// How long a batch waits for more spans.
const BATCH_WINDOW: Duration = Duration::from_secs(5);
const EXPORT_TIMEOUT: Duration = Duration::from_secs(10);

/// Exports spans. It is idle while there are none.
pub struct Exporter {
    collector: CollectorAddress,
    spans: mpsc::Receiver<Span>,
    resource: Resource,
}

impl Exporter {
    pub(crate) fn new(
        collector: CollectorAddress,
        spans: mpsc::Receiver<Span>,
        resource: Vec<(String, String)>,
    ) -> Self {
        let attribute =
            |(key, value)| KeyValue { key, value: Some(AnyValue { value: Some(Value::StringValue(value)) }) };
        let resource = Resource { attributes: resource.into_iter().map(attribute).collect() };
        Self { collector, spans, resource }
    }

    /// Exports until `stop` completes, then flushes the queue.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let Self { collector, mut spans, resource } = self;
        let client = TraceServiceClient::new(collector.channel());
        let mut sender = Sender { client, resource, failing: false };
        tokio::pin!(stop);
        loop {
            let mut batch = Vec::new();
            tokio::select! {
                () = &mut stop => break,
                received = spans.recv_many(&mut batch, MAX_BATCH_SPANS) => if received == 0 { return },
            }
            let stopped = tokio::select! {
                () = &mut stop => true,
                () = fill_batch(&mut spans, &mut batch) => false,
            };
            sender.send(batch).await;
            if stopped {
                break;
            }
        }
        let mut rest = Vec::new();
        while let Ok(span) = spans.try_recv() {
            rest.push(span);
        }
        if !rest.is_empty() {
            sender.send(rest).await;
        }
    }
}

/// Adds spans until the batch is full or [`BATCH_WINDOW`] has passed.
async fn fill_batch(spans: &mut mpsc::Receiver<Span>, batch: &mut Vec<Span>) {
    let deadline = tokio::time::Instant::now() + BATCH_WINDOW;
    while batch.len() < MAX_BATCH_SPANS {
        let remaining = MAX_BATCH_SPANS - batch.len();
        match tokio::time::timeout_at(deadline, spans.recv_many(batch, remaining)).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

struct Sender {
    client: TraceServiceClient<Channel>,
    resource: Resource,
    failing: bool,
}

impl Sender {
    async fn send(&mut self, spans: Vec<Span>) {
        let count = spans.len();
        let scope = InstrumentationScope {
            name: "podward".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let scope_spans = vec![ScopeSpans { scope: Some(scope), spans }];
        let resource_spans = vec![ResourceSpans { resource: Some(self.resource.clone()), scope_spans }];
        let call = self.client.export(ExportTraceServiceRequest { resource_spans });
        let error = match tokio::time::timeout(EXPORT_TIMEOUT, call).await {
            Ok(Ok(_)) => None,
            Ok(Err(status)) => Some(status.message().to_owned()),
            Err(_) => Some(format!("no response within {EXPORT_TIMEOUT:?}")),
        };
        match (error, self.failing) {
            (Some(error), false) => {
                self.failing = true;
                tracing::warn!(spans = count, %error, "failed to export spans; dropping them until the collector recovers");
            }
            (Some(error), true) => tracing::debug!(spans = count, %error, "failed to export spans"),
            (None, true) => {
                self.failing = false;
                tracing::info!("collector accepts spans again");
            }
            (None, false) => {}
        }
    }
}
