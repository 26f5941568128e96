//! Connections to sockets.

use std::path::Path;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Code, Status};
use tower::service_fn;

/// How long a plugin may take to accept a connection.
const DIAL: Duration = Duration::from_secs(10);

/// A connection to a socket.
///
/// # Errors
/// When nobody accepts it in time.
pub async fn dial(socket: &Path) -> Result<Channel, Status> {
    let path = socket.to_path_buf();
    // The authority that gRPC names for unix sockets; nobody resolves it.
    let authority = Endpoint::from_static("http://localhost");
    let connector = service_fn(move |_: Uri| {
        let path = path.clone();
        async move { UnixStream::connect(path).await.map(TokioIo::new) }
    });
    match tokio::time::timeout(DIAL, authority.connect_with_connector(connector)).await {
        Ok(Ok(channel)) => Ok(channel),
        Ok(Err(error)) => {
            let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            Err(Status::unavailable(format!("connect to {}: {error}: {cause}", socket.display())))
        }
        Err(_) => Err(Status::unavailable(format!("connect to {}: timed out", socket.display()))),
    }
}

/// Awaits an answer under its deadline.
pub(crate) async fn within<T>(
    limit: Duration,
    call: impl Future<Output = Result<T, Status>>,
) -> Result<T, Status> {
    match tokio::time::timeout(limit, call).await {
        Ok(answer) => answer,
        Err(_) => Err(Status::deadline_exceeded("context deadline exceeded")),
    }
}

/// A failed call in the words that upstream's messages use.
pub(crate) fn words(status: &Status) -> String {
    format!("rpc error: code = {} desc = {}", code(status), status.message())
}

/// The code as Go writes it.
pub(crate) fn code(status: &Status) -> String {
    match status.code() {
        Code::Ok => "OK".to_owned(),
        Code::Cancelled => "Canceled".to_owned(),
        code => format!("{code:?}"),
    }
}
