use http::{HeaderValue, Response};
use http_body_util::StreamBody;
use hyper::body::{Frame, Incoming};
use tokio::net::TcpListener;

use super::*;

/// Starts a gRPC server with the same response to every call.
async fn server(code: &'static str, message: &'static str, status: Option<i32>) -> (u16, JoinSet<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let service = hyper::service::service_fn(move |request: Request<Incoming>| async move {
            assert_eq!(request.uri().path(), "/grpc.health.v1.Health/Check");
            assert_eq!(request.headers().get("te"), Some(&HeaderValue::from_static("trailers")));
            let sent = request.into_body().collect().await.unwrap().to_bytes();
            let decoded = HealthCheckRequest::decode(&sent[5..]).unwrap();
            assert_eq!(decoded.service, "db");
            let mut trailers = HeaderMap::new();
            trailers.insert("grpc-status", HeaderValue::from_static(code));
            trailers.insert("grpc-message", HeaderValue::from_static(message));
            let data = status.map(|status| Frame::data(encode_frame(&HealthCheckResponse { status })));
            let frames = data.into_iter().chain([Frame::trailers(trailers)]);
            let frames: Vec<_> = frames.map(Ok::<_, std::convert::Infallible>).collect();
            let body = StreamBody::new(iter(frames));
            Ok::<_, std::convert::Infallible>(Response::new(body))
        });
        let server = hyper::server::conn::http2::Builder::new(ConnectionTasks::default());
        let _ = server.serve_connection(TokioIo::new(stream), service).await;
    });
    (port, tasks)
}

fn iter<T>(values: Vec<T>) -> futures::stream::Iter<std::vec::IntoIter<T>> {
    futures::stream::iter(values)
}

async fn outcome(port: u16, millis: u64) -> Result<(), String> {
    let limit = Duration::from_millis(millis);
    let health = GrpcHealth { host: "127.0.0.1".into(), port, service: "db".into(), limit };
    check(&health).await.map_err(|error| error.to_string())
}

async fn outcome_of_response(
    code: &'static str,
    message: &'static str,
    status: Option<i32>,
) -> Result<(), String> {
    let (port, _tasks) = server(code, message, status).await;
    outcome(port, 20_000).await
}

#[tokio::test]
async fn only_serving_is_healthy() {
    assert_eq!(outcome_of_response("0", "", Some(1)).await, Ok(()));
    assert_eq!(
        outcome_of_response("0", "", Some(2)).await,
        Err("service unhealthy (responded with \"NOT_SERVING\")".into())
    );
    assert_eq!(
        outcome_of_response("0", "", Some(0)).await,
        Err("service unhealthy (responded with \"UNKNOWN\")".into())
    );
}

#[tokio::test]
async fn error_messages_match_upstream() {
    assert_eq!(
        outcome_of_response("5", "unknown%20service", None).await,
        Err("error: health rpc probe failed: rpc error: code = NotFound desc = unknown service".into())
    );
    assert_eq!(
        outcome_of_response("12", "no", None).await,
        Err("error: this server does not implement the grpc health protocol (grpc.health.v1.Health): no"
            .into())
    );
}

#[tokio::test]
async fn closed_port_times_out() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    assert_eq!(
        outcome(port, 40).await,
        Err(format!(
            "timeout: failed to connect service \"127.0.0.1:{port}\" within 40ms: context deadline exceeded"
        ))
    );
}

#[tokio::test]
async fn unresponsive_grpc_server_times_out() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    assert_eq!(outcome(port, 40).await, Err("timeout: health rpc did not complete within 40ms".into()));
}
