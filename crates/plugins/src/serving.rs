//! Code that the servers of the pod-resources API and of the Pods API share.

use std::io;
use std::path::{Path, PathBuf};

use grpc_socket::GrpcListener;
use timing::RateLimiter;
use tonic::{Code, Status};

/// Rate limit of all calls of a socket that are not streams, same as upstream.
const CALLS_PER_SECOND: f64 = 100.0;
const BURST: f64 = 10.0;

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("create socket {}", path.display())]
    Bind { path: PathBuf, source: io::Error },
    #[error("serve gRPC on the socket")]
    Serve(#[source] tonic::transport::Error),
}

pub(crate) struct UnaryLimit(RateLimiter);

pub(crate) fn bind(path: &Path) -> Result<GrpcListener, ServeError> {
    GrpcListener::bind(path).map_err(|source| ServeError::Bind { path: path.to_path_buf(), source })
}

impl Default for UnaryLimit {
    fn default() -> Self {
        Self(RateLimiter::new(CALLS_PER_SECOND, BURST))
    }
}

impl UnaryLimit {
    pub(crate) fn check(&self) -> Result<(), Status> {
        if self.0.try_acquire() {
            Ok(())
        } else {
            Err(Status::new(Code::ResourceExhausted, "rejected by rate limit"))
        }
    }
}
