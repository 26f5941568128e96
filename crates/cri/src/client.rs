//! Implements the runtime ports on a gRPC channel to the runtime service and one to the image service.

mod call;
mod call_limits;
mod connect;
mod containers;
mod endpoint;
mod exec_output;
mod images;
mod lists;
mod sandboxes;
mod service;
mod span;
mod stats;
mod streaming;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use ports::runtime::RuntimeError;
use ports::telemetry::call_meter::CallMeter;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};
use tracing::Instrument as _;

use crate::faults::{Faults, Transport};
use crate::list_fingerprint::ListFingerprinter;
use crate::v1::image_service_client::ImageServiceClient;
use crate::v1::runtime_service_client::RuntimeServiceClient;

use call::Deadline;
pub use call::TraceParentOf;
use call_limits::{CallLimit, CallLimits};
pub use connect::connect;
pub use endpoint::{Endpoint, EndpointError};
use lists::ListChannel;

/// Limit for messages in both directions.
pub(crate) const MAX_MESSAGE_BYTES: usize = 16 * 1024 * 1024;

/// Default of `runtimeRequestTimeout`.
pub const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(120);

/// A CRI client. Clones share the connections.
#[derive(Clone)]
pub struct CriClient {
    /// The channel of `runtime`, for list calls, which return undecoded responses.
    list_channel: Arc<ListChannel>,
    image_list_channel: Arc<ListChannel>,
    runtime: Runtime,
    images: ImageService,
    request_timeout: Duration,
    meter: Option<Arc<dyn CallMeter>>,
    limits: Arc<CallLimits>,
    trace_parent_of: Option<TraceParentOf>,
    fingerprinter: ListFingerprinter,
}

impl fmt::Debug for CriClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CriClient").field("request_timeout", &self.request_timeout).finish_non_exhaustive()
    }
}

impl CriClient {
    /// Uses one endpoint for containers and images. Connects on first use.
    #[must_use]
    pub fn new(endpoint: &Endpoint, request_timeout: Duration) -> Self {
        let channel = connect(endpoint);
        Self::from_channels(channel.clone(), channel, request_timeout)
    }

    /// Uses separate channels for the runtime service and the image service.
    #[must_use]
    pub fn from_channels(runtime: Channel, images: Channel, request_timeout: Duration) -> Self {
        Self::from_transports(runtime.into(), images.into(), request_timeout)
    }

    /// The same, with faults in the calls.
    #[must_use]
    pub fn with_faults(
        runtime: Channel,
        images: Channel,
        request_timeout: Duration,
        faults: &Arc<Faults>,
    ) -> Self {
        let faulty = |channel: Channel| Transport::from(channel).with_faults(Arc::clone(faults));
        Self::from_transports(faulty(runtime), faulty(images), request_timeout)
    }

    fn from_transports(runtime: Transport, images: Transport, request_timeout: Duration) -> Self {
        Self {
            list_channel: Arc::new(ListChannel::new(runtime.clone())),
            image_list_channel: Arc::new(ListChannel::new(images.clone())),
            runtime: RuntimeServiceClient::new(runtime)
                .max_decoding_message_size(MAX_MESSAGE_BYTES)
                .max_encoding_message_size(MAX_MESSAGE_BYTES),
            images: ImageServiceClient::new(images)
                .max_decoding_message_size(MAX_MESSAGE_BYTES)
                .max_encoding_message_size(MAX_MESSAGE_BYTES),
            request_timeout,
            meter: None,
            limits: Arc::default(),
            trace_parent_of: None,
            fingerprinter: ListFingerprinter::default(),
        }
    }

    /// Reports every call to `meter`.
    #[must_use]
    pub fn with_meter(self, meter: Arc<dyn CallMeter>) -> Self {
        Self { meter: Some(meter), ..self }
    }

    /// Passes the span of each call to the runtime.
    #[must_use]
    pub fn with_trace_context(self, trace_parent_of: TraceParentOf) -> Self {
        Self { trace_parent_of: Some(trace_parent_of), ..self }
    }

    /// Uses streaming list calls (`CRIListStreaming`) unless the runtime responds that it does not support them.
    #[must_use]
    pub fn with_list_streaming(self) -> Self {
        self.list_channel.enable_streaming();
        self.image_list_channel.enable_streaming();
        self
    }

    /// Calls a method of a service with the configured timeout.
    async fn call<S: CriService, Req, Res>(
        &self,
        operation: &'static str,
        message: Req,
        method: impl AsyncFnOnce(&mut S, Request<Req>) -> Result<Response<Res>, Status>,
    ) -> Result<Res, RuntimeError> {
        self.call_within(operation, Deadline::In(self.request_timeout), message, method).await
    }

    async fn call_within<S: CriService, Req, Res>(
        &self,
        operation: &'static str,
        deadline: Deadline,
        message: Req,
        method: impl AsyncFnOnce(&mut S, Request<Req>) -> Result<Response<Res>, Status>,
    ) -> Result<Res, RuntimeError> {
        let mut client = S::client(self);
        // Boxed, because these futures are large; the allocation is cheap compared to the call.
        let call = async { method(&mut client, self.request(message, deadline)).await };
        self.limits.run(CallLimit::of(operation), self.execute(operation, deadline, Box::pin(call))).await
    }

    /// Called within the span of the call.
    fn request<T>(&self, message: T, deadline: Deadline) -> Request<T> {
        call::request(message, deadline, self.trace_parent_of)
    }

    /// Runs a call with its deadline, span and metrics.
    async fn execute<T>(
        &self,
        operation: &'static str,
        deadline: Deadline,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, RuntimeError> {
        let started_at = tokio::time::Instant::now();
        let span = span::call_span(operation);
        let result = call::with_deadline(operation, deadline, call.instrument(span.clone())).await;
        span::record_error(&span, &result);
        if let Some(meter) = &self.meter {
            meter.call_ended(operation, started_at.elapsed(), result.is_err());
        }
        result
    }
}

type Runtime = RuntimeServiceClient<Transport>;
type ImageService = ImageServiceClient<Transport>;

/// A gRPC service of the runtime.
trait CriService: Sized {
    /// tonic clients need `&mut self`; clones share the channel.
    fn client(cri: &CriClient) -> Self;
}

impl CriService for Runtime {
    fn client(cri: &CriClient) -> Self {
        cri.runtime.clone()
    }
}

impl CriService for ImageService {
    fn client(cri: &CriClient) -> Self {
        cri.images.clone()
    }
}
