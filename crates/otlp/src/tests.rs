use std::sync::Arc;

use ports::clock::SystemClock;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response};
use tracing::Instrument as _;
use tracing_subscriber::Layer as _;
use tracing_subscriber::layer::SubscriberExt as _;

use super::v1::trace_service_server::{TraceService, TraceServiceServer};
use super::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse, Span};
use super::*;

struct Collector(mpsc::UnboundedSender<ExportTraceServiceRequest>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, tonic::Status> {
        let _ = self.0.send(request.into_inner());
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

/// Runs `work` and returns the spans that a collector receives.
async fn collected(per_million: u32, work: impl Future<Output = ()>) -> Vec<Span> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = listener.local_addr().unwrap().to_string();
    let (sender, mut requests) = mpsc::unbounded_channel();
    let server = tonic::transport::Server::builder()
        .add_service(TraceServiceServer::new(Collector(sender)))
        .serve_with_incoming(TcpListenerStream::new(listener));
    let server = tokio::spawn(server);
    let resource = vec![("service.name".to_owned(), "kubelet".to_owned())];
    let settings = ExportSettings { endpoint, per_million, resource };
    let (layer, exporter) = create_exporter(settings, Arc::new(SystemClock)).unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let exporter = tokio::spawn(exporter.run(async { drop(stopped.await) }));
    let subscriber = tracing_subscriber::registry().with(layer.with_filter(ExportedSpans));
    {
        let _guard = tracing::subscriber::set_default(subscriber);
        work.await;
    }
    stop.send(()).unwrap();
    exporter.await.unwrap();
    server.abort();
    let mut spans = Vec::new();
    while let Ok(request) = requests.try_recv() {
        for resource in request.resource_spans {
            assert_eq!(resource.resource.unwrap().attributes[0].key, "service.name");
            spans.extend(resource.scope_spans.into_iter().flat_map(|scope| scope.spans));
        }
    }
    spans
}

async fn parent_and_child_spans() {
    let parent = tracing::info_span!(target: TARGET, "syncPod", pod = "web");
    async {
        let call = tracing::info_span!(
            target: TARGET,
            "call",
            otel.name = "RunPodSandbox",
            otel.kind = "client",
            error = tracing::field::Empty
        );
        let _unexported = tracing::info_span!("not exported").entered();
        call.record("error", "no network");
    }
    .instrument(parent)
    .await;
}

#[tokio::test]
async fn child_span_is_in_trace_of_parent() {
    let spans = collected(1_000_000, parent_and_child_spans()).await;
    let [child, parent] = spans.as_slice() else { panic!("{spans:?}") };
    assert_eq!((child.name.as_str(), parent.name.as_str()), ("RunPodSandbox", "syncPod"));
    assert_eq!(child.trace_id, parent.trace_id);
    assert_eq!(child.parent_span_id, parent.span_id);
    assert!(parent.parent_span_id.is_empty());
    assert_eq!((parent.trace_id.len(), parent.span_id.len()), (16, 8));
    assert_eq!(child.kind, v1::span::SpanKind::Client as i32);
    assert_eq!(child.status.as_ref().unwrap().message, "no network");
    assert_eq!(parent.attributes[0].key, "pod");
    assert!(parent.start_time_unix_nano <= child.start_time_unix_nano);
    assert!(child.end_time_unix_nano <= parent.end_time_unix_nano);
}

#[tokio::test]
async fn exports_no_span_of_an_unsampled_trace() {
    assert_eq!(collected(0, parent_and_child_spans()).await, []);
}

#[tokio::test]
async fn parses_collector_addresses_like_upstream() {
    for valid in
        ["localhost:4317", "[::1]:4317", "dns:///host:4317", "dns:host:1", "unix:/run/x", "unix-abstract:x"]
    {
        assert!(endpoint::CollectorAddress::parse(valid).is_ok(), "{valid}");
    }
    assert!(endpoint::CollectorAddress::parse("no host").is_err());
}

#[tokio::test]
async fn request_span_joins_trace_of_the_client() {
    let request = async |flags: &str| {
        let parent = format!("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-{flags}");
        let request = tracing::info_span!(target: TARGET, "request", otel.kind = "server", otel.parent = parent.as_str());
        let _call = tracing::info_span!(target: TARGET, parent: &request, "call");
    };
    // The client's sampling decision overrides the configuration.
    let spans = collected(0, request("01")).await;
    let [child, parent] = spans.as_slice() else { panic!("{spans:?}") };
    assert_eq!((parent.trace_id[0], parent.parent_span_id[0]), (0x0a, 0xb7));
    assert_eq!(
        (child.trace_id.clone(), child.parent_span_id.clone()),
        (parent.trace_id.clone(), parent.span_id.clone())
    );
    assert_eq!(parent.kind, v1::span::SpanKind::Server as i32);
    assert!(parent.attributes.is_empty(), "{parent:?}");
    assert_eq!(collected(1_000_000, request("00")).await, []);
}

#[tokio::test]
async fn span_has_a_traceparent_for_calls_to_other_programs() {
    let parent = Arc::new(std::sync::OnceLock::new());
    let seen = parent.clone();
    let spans = collected(1_000_000, async move {
        let span = tracing::info_span!(target: TARGET, "call");
        seen.set(trace_parent_of(&span)).unwrap();
        assert_eq!(trace_parent_of(&tracing::info_span!("not exported")), None);
    })
    .await;
    let parent = trace_parent::TraceParent::parse(parent.get().unwrap().as_ref().unwrap()).unwrap();
    assert_eq!((&parent.trace_id, &parent.span_id), (&spans[0].trace_id, &spans[0].span_id));
    assert!(parent.is_sampled);
    collected(0, async {
        let header = trace_parent_of(&tracing::info_span!(target: TARGET, "call")).unwrap();
        // Otherwise the other program would decide for itself, and start traces without a beginning.
        assert!(!trace_parent::TraceParent::parse(&header).unwrap().is_sampled);
    })
    .await;
    assert_eq!(trace_parent_of(&tracing::info_span!(target: TARGET, "no exporter")), None);
}
