//! Connects to plugin sockets, and formats gRPC errors like Go.

use std::path::Path;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Code, Status};
use tower::service_fn;

/// For a plugin to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Connects to a unix socket.
///
/// # Errors
/// If the connection fails or is not accepted within [`CONNECT_TIMEOUT`].
pub async fn dial(socket: &Path) -> Result<Channel, Status> {
    let path = socket.to_path_buf();
    // The authority that gRPC uses for unix sockets; it is not resolved.
    let authority = Endpoint::from_static("http://localhost");
    let connector = service_fn(move |_: Uri| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    });
    match tokio::time::timeout(CONNECT_TIMEOUT, authority.connect_with_connector(connector)).await {
        Ok(Ok(channel)) => Ok(channel),
        Ok(Err(error)) => {
            let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            Err(Status::unavailable(format!("connect to {}: {error}: {cause}", socket.display())))
        }
        Err(_) => Err(Status::unavailable(format!("connect to {}: timed out", socket.display()))),
    }
}

/// Awaits a call; fails with upstream's message after `limit`.
pub(crate) async fn within<T>(
    limit: Duration,
    call: impl Future<Output = Result<T, Status>>,
) -> Result<T, Status> {
    match tokio::time::timeout(limit, call).await {
        Ok(result) => result,
        Err(_) => Err(Status::deadline_exceeded("context deadline exceeded")),
    }
}

/// Formats a failed call like grpc-go, as in upstream's messages.
pub(crate) fn go_error_text(status: &Status) -> String {
    format!("rpc error: code = {} desc = {}", go_code_name(status), status.message())
}

/// Returns Go's name of the code.
pub(crate) fn go_code_name(status: &Status) -> String {
    match status.code() {
        Code::Ok => "OK".to_owned(),
        Code::Cancelled => "Canceled".to_owned(),
        code => format!("{code:?}"),
    }
}
