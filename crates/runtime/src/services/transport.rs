//! Serves the services: on connections from outside, or in memory.

use std::io;

use cri::v1::image_service_server::ImageServiceServer;
use cri::v1::runtime_service_server::RuntimeServiceServer;
use futures::{Stream, StreamExt};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::sync::mpsc;
use tonic::transport::server::Connected;
use tonic::transport::{Channel, Endpoint, Server, Uri};
use tower::service_fn;

use super::RuntimeServices;

/// Messages in both directions, as clients limit them.
const MAX_MESSAGE_BYTES: usize = 16 << 20;
const MEMORY_BUFFER: usize = 64 * 1024;
const MAX_PENDING_CONNECTIONS: usize = 4;

/// A server in memory. Connections end when it is dropped.
#[derive(Debug)]
pub struct Serving {
    channel: Channel,
    server: tokio::task::JoinHandle<()>,
}

impl Serving {
    /// A client of both services.
    #[must_use]
    pub fn channel(&self) -> Channel {
        self.channel.clone()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl RuntimeServices {
    /// Serves connections until `stop` completes.
    ///
    /// # Errors
    /// If the server fails.
    pub async fn serve<C>(
        &self,
        connections: impl Stream<Item = io::Result<C>>,
        stop: impl Future<Output = ()>,
    ) -> Result<(), tonic::transport::Error>
    where
        C: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
    {
        let runtime = RuntimeServiceServer::new(self.clone())
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        let images = ImageServiceServer::new(self.images())
            .max_decoding_message_size(MAX_MESSAGE_BYTES)
            .max_encoding_message_size(MAX_MESSAGE_BYTES);
        let server = Server::builder().add_service(runtime).add_service(images);
        server.serve_with_incoming_shutdown(connections, stop).await
    }

    /// Serves clients of this process, without a socket.
    #[must_use]
    pub fn serve_in_memory(&self) -> Serving {
        let (connect, mut connections) = mpsc::channel::<DuplexStream>(MAX_PENDING_CONNECTIONS);
        let services = self.clone();
        let incoming = futures::stream::poll_fn(move |context| connections.poll_recv(context));
        let server = tokio::spawn(async move {
            let served = services.serve(incoming.map(Ok::<_, io::Error>), std::future::pending()).await;
            if let Err(error) = served {
                tracing::error!(%error, "the container runtime inside this process stopped serving");
            }
        });
        // The address is not resolved.
        let channel = Endpoint::from_static("http://localhost").connect_with_connector_lazy(service_fn(
            move |_: Uri| {
                let connect = connect.clone();
                async move {
                    let (ours, theirs) = tokio::io::duplex(MEMORY_BUFFER);
                    connect.send(theirs).await.map_err(|_| io::ErrorKind::ConnectionRefused)?;
                    Ok::<_, io::Error>(TokioIo::new(ours))
                }
            },
        ));
        Serving { channel, server }
    }
}
