//! Server of the registration of device plugins.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use grpc_socket::GrpcListener;
use ports::served::device_registration::{DeviceRegistration, DeviceRegistry};
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use crate::device_plugin_v1beta1 as proto;
use proto::registration_server::{Registration, RegistrationServer};

#[derive(Debug, thiserror::Error)]
pub enum DeviceRegistrationError {
    #[error("prepare the folder of device plugin sockets {path}")]
    Folder { path: PathBuf, source: io::Error },
    #[error("listen on the device plugin socket {path}")]
    Bind { path: PathBuf, source: io::Error },
    #[error("serve the device plugin socket")]
    Serve(#[source] tonic::transport::Error),
}

/// Removes all sockets from the folder of `path` and listens there: plugins notice the removal and register again. Serves
/// until `stop` completes.
///
/// # Errors
/// If the socket cannot be created, or the server fails.
pub async fn serve_device_registration(
    path: &Path,
    registry: Arc<dyn DeviceRegistry>,
    stop: impl Future<Output = ()>,
) -> Result<(), DeviceRegistrationError> {
    if let Some(folder) = path.parent() {
        remove_sockets(folder)
            .map_err(|source| DeviceRegistrationError::Folder { path: folder.to_path_buf(), source })?;
    }
    let bind_error = |source| DeviceRegistrationError::Bind { path: path.to_path_buf(), source };
    let listener = GrpcListener::bind(path).map_err(bind_error)?;
    let served = Server::builder()
        .add_service(RegistrationServer::new(Registrar { registry }))
        .serve_with_incoming_shutdown(listener, stop);
    served.await.map_err(DeviceRegistrationError::Serve)
}

fn remove_sockets(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt;
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_socket() {
            match std::fs::remove_file(entry.path()) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
    }
    Ok(())
}

struct Registrar {
    registry: Arc<dyn DeviceRegistry>,
}

#[tonic::async_trait]
impl Registration for Registrar {
    async fn register(
        &self,
        request: Request<proto::RegisterRequest>,
    ) -> Result<Response<proto::Empty>, Status> {
        let proto::RegisterRequest { version, endpoint, resource_name, options: _ } = request.into_inner();
        let registration = DeviceRegistration { version, endpoint, resource: resource_name };
        match self.registry.register(registration).await {
            Ok(()) => Ok(Response::new(proto::Empty {})),
            // Same code as upstream.
            Err(message) => Err(Status::unknown(message)),
        }
    }
}

#[cfg(test)]
mod tests;
