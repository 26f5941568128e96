//! Spans of a pod's start reach a collector.

use parking_lot::Mutex;
use std::sync::Arc;

use otlp::v1::any_value::Value;
use otlp::v1::trace_service_server::{TraceService, TraceServiceServer};
use otlp::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse, Span};
use otlp::{ExportSettings, ExportedSpans};
use ports::clock::SystemClock;
use testkit::poll::eventually;
use tokio::net::TcpListener;
use tonic::{Request, Response, Status};
use tracing_subscriber::Layer as _;
use tracing_subscriber::layer::SubscriberExt as _;

use crate::node::{TIMEOUT, VirtualNode, pod};

#[derive(Clone, Default)]
struct Collector {
    spans: Arc<Mutex<Vec<Span>>>,
}

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let scopes = request.into_inner().resource_spans.into_iter().flat_map(|own| own.scope_spans);
        self.spans.lock().extend(scopes.flat_map(|scope| scope.spans));
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

fn attribute<'a>(span: &'a Span, key: &str) -> Option<&'a str> {
    let found = span.attributes.iter().find(|attribute| attribute.key == key)?;
    match found.value.as_ref()?.value.as_ref()? {
        Value::StringValue(text) => Some(text),
        Value::BoolValue(_) | Value::IntValue(_) | Value::DoubleValue(_) => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn runtime_calls_are_children_of_the_sync_span() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = listener.local_addr().unwrap().to_string();
    let collector = Collector::default();
    let server = tonic::transport::Server::builder()
        .add_service(TraceServiceServer::new(collector.clone()))
        .serve_with_incoming(tokio_stream::wrappers::TcpListenerStream::new(listener));
    let server = tokio::spawn(server);
    let settings = ExportSettings { endpoint, per_million: 1_000_000, resource: Vec::new() };
    let (layer, exporter) = otlp::create_exporter(settings, Arc::new(SystemClock)).unwrap();
    let exporter = tokio::spawn(exporter.run(std::future::pending()));
    // Other nodes in this process export spans, too.
    let subscriber = tracing_subscriber::registry().with(layer.with_filter(ExportedSpans));
    tracing::subscriber::set_global_default(subscriber).unwrap();

    let node = VirtualNode::started();
    node.write("traced.json", &pod("traced", "uid-traced", &["main"]));
    node.until_running("uid-traced").await;
    eventually("the start is traced", TIMEOUT, async || {
        let spans = collector.spans.lock().clone();
        let passes = spans
            .iter()
            .filter(|span| span.name == "syncPod" && attribute(span, "k8s.pod.uid") == Some("uid-traced"));
        let of_pass = |name: &str| {
            let of = |pass: &Span, call: &&Span| {
                call.parent_span_id == pass.span_id && call.trace_id == pass.trace_id
            };
            let name = format!("runtime.v1.RuntimeService/{name}");
            passes
                .clone()
                .any(|pass| spans.iter().filter(|call| of(pass, call)).any(|call| call.name == name))
        };
        for name in ["RunPodSandbox", "CreateContainer", "StartContainer"] {
            anyhow::ensure!(of_pass(name), "no {name} below a pass in {} spans", spans.len());
        }
        Ok(())
    })
    .await
    .unwrap();
    drop(node);
    exporter.abort();
    server.abort();
}
