use std::time::Duration;

use tokio::sync::mpsc;
use tonic::transport::Channel;

use crate::endpoint::Collector;
use crate::v1::any_value::Value;
use crate::v1::trace_service_client::TraceServiceClient;
use crate::v1::{
    AnyValue, ExportTraceServiceRequest, InstrumentationScope, KeyValue, Resource, ResourceSpans, ScopeSpans,
    Span,
};

/// Spans that may wait to be sent.
pub(crate) const WAITING: usize = 2048;
/// Spans in one request.
const BATCH: usize = 512;
/// How long spans are gathered.
const GATHER: Duration = Duration::from_secs(5);
/// How long the collector may take.
const DEADLINE: Duration = Duration::from_secs(10);

/// Sends spans. It wakes up only when there are any.
pub struct Exporter {
    collector: Collector,
    spans: mpsc::Receiver<Span>,
    resource: Resource,
}

impl Exporter {
    pub(crate) fn new(
        collector: Collector,
        spans: mpsc::Receiver<Span>,
        resource: Vec<(String, String)>,
    ) -> Self {
        let attribute =
            |(key, value)| KeyValue { key, value: Some(AnyValue { value: Some(Value::StringValue(value)) }) };
        let resource = Resource { attributes: resource.into_iter().map(attribute).collect() };
        Self { collector, spans, resource }
    }

    /// Sends until `stop` ends, and then what is left.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let Self { collector, mut spans, resource } = self;
        let client = TraceServiceClient::new(collector.channel());
        let mut sender = Sender { client, resource, failing: false };
        tokio::pin!(stop);
        loop {
            let mut batch = Vec::new();
            tokio::select! {
                () = &mut stop => break,
                taken = spans.recv_many(&mut batch, BATCH) => if taken == 0 { return },
            }
            let stopped = tokio::select! {
                () = &mut stop => true,
                () = gather(&mut spans, &mut batch) => false,
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

/// Waits for more spans, until the batch is full or the time is over.
async fn gather(spans: &mut mpsc::Receiver<Span>, batch: &mut Vec<Span>) {
    let end = tokio::time::Instant::now() + GATHER;
    while batch.len() < BATCH {
        let room = BATCH - batch.len();
        match tokio::time::timeout_at(end, spans.recv_many(batch, room)).await {
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
        let problem = match tokio::time::timeout(DEADLINE, call).await {
            Ok(Ok(_)) => None,
            Ok(Err(status)) => Some(status.message().to_owned()),
            Err(_) => Some(format!("no answer within {DEADLINE:?}")),
        };
        match (problem, self.failing) {
            (Some(problem), false) => {
                self.failing = true;
                tracing::warn!(spans = count, %problem, "the collector does not take spans; they are dropped");
            }
            (Some(problem), true) => tracing::debug!(spans = count, %problem, "spans are dropped"),
            (None, true) => {
                self.failing = false;
                tracing::info!("the collector takes spans again");
            }
            (None, false) => {}
        }
    }
}
