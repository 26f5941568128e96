//! The client: one gRPC channel to the runtime, one to the image service, and the runtime ports on top.

mod call;
mod connect;
mod containers;
mod endpoint;
mod figures;
mod images;
mod lists;
mod sandboxes;
mod service;
mod span;
mod streaming;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ports::call_meter::CallMeter;
use ports::runtime::RuntimeError;
use tokio::sync::Semaphore;
use tonic::transport::Channel;
use tonic::{Response, Status};
use tracing::Instrument as _;

use crate::glance::Marks;
use crate::v1::image_service_client::ImageServiceClient;
use crate::v1::runtime_service_client::RuntimeServiceClient;

pub use connect::connect;
pub use endpoint::{Endpoint, EndpointError};
use lists::Listing;

/// The largest message either way.
const MAX_MESSAGE_BYTES: usize = 16 * 1024 * 1024;

/// The deadline of an ordinary call, unless configured otherwise (`runtimeRequestTimeout`).
pub const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(120);

/// Calls that make something. A thousand pods that start at once are not made faster by a thousand calls at once,
/// which only cost memory on both sides.
const MAKING: [&str; 4] = ["run_podsandbox", "create_container", "start_container", "image_status"];
const MAKING_AT_ONCE: usize = 32;

/// A runtime reached through the CRI. Clones share the connections.
#[derive(Clone)]
pub struct CriClient {
    /// What `runtime` calls through, for lists, whose answers are read in part.
    listing: Arc<Listing>,
    image_listing: Arc<Listing>,
    runtime: RuntimeServiceClient<Channel>,
    images: ImageServiceClient<Channel>,
    request_timeout: Duration,
    meter: Option<Arc<dyn CallMeter>>,
    making: Arc<Semaphore>,
    marks: Marks,
}

impl fmt::Debug for CriClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CriClient").field("request_timeout", &self.request_timeout).finish_non_exhaustive()
    }
}

impl CriClient {
    /// A client of the runtime at this endpoint, for containers and images alike. Connects on first use.
    #[must_use]
    pub fn new(endpoint: &Endpoint, request_timeout: Duration) -> Self {
        let channel = connect(endpoint);
        Self::from_channels(channel.clone(), channel, request_timeout)
    }

    /// A client over given channels; the second one leads to the image service.
    #[must_use]
    pub fn from_channels(runtime: Channel, images: Channel, request_timeout: Duration) -> Self {
        Self {
            listing: Arc::new(Listing::new(runtime.clone())),
            image_listing: Arc::new(Listing::new(images.clone())),
            runtime: RuntimeServiceClient::new(runtime)
                .max_decoding_message_size(MAX_MESSAGE_BYTES)
                .max_encoding_message_size(MAX_MESSAGE_BYTES),
            images: ImageServiceClient::new(images)
                .max_decoding_message_size(MAX_MESSAGE_BYTES)
                .max_encoding_message_size(MAX_MESSAGE_BYTES),
            request_timeout,
            meter: None,
            making: Arc::new(Semaphore::new(MAKING_AT_ONCE)),
            marks: Marks::default(),
        }
    }

    /// The same client, with every call counted.
    #[must_use]
    pub fn with_meter(self, meter: Arc<dyn CallMeter>) -> Self {
        Self { meter: Some(meter), ..self }
    }

    /// The same client, which asks for lists in pieces (`CRIListStreaming`) until the runtime says that it has none.
    #[must_use]
    pub fn with_lists_in_pieces(self) -> Self {
        self.listing.ask_in_pieces();
        self.image_listing.ask_in_pieces();
        self
    }

    /// Awaits an answer under its deadline and counts the call.
    async fn answer<T>(
        &self,
        operation: &'static str,
        deadline: call::Deadline,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, RuntimeError> {
        // The semaphore is never closed, so a missing permit cannot happen.
        let _turn = if MAKING.contains(&operation) { self.making.acquire().await.ok() } else { None };
        let started = tokio::time::Instant::now();
        let span = span::span_of(operation);
        // Boxed: these futures are big, and next to a call an allocation is nothing.
        let call = Box::pin(call.instrument(span.clone()));
        let result = call::answer(operation, deadline, call).await;
        span::note(&span, &result);
        if let Some(meter) = &self.meter {
            meter.call_ended(operation, started.elapsed(), result.is_err());
        }
        result
    }

    // Cloning is how concurrent calls share a tonic client.
    fn runtime(&self) -> RuntimeServiceClient<Channel> {
        self.runtime.clone()
    }

    fn images(&self) -> ImageServiceClient<Channel> {
        self.images.clone()
    }
}
