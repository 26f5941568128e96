use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use http_body_util::{BodyExt, Full};
use prost::bytes::Bytes;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::transport::{Channel, Error};

use super::stream::FaultyStream;
use super::{Fault, Faults};

/// A channel, with faults if there are any.
#[derive(Clone, Debug)]
pub struct Transport {
    channel: Channel,
    faults: Option<Arc<Faults>>,
}

impl From<Channel> for Transport {
    fn from(channel: Channel) -> Self {
        Self { channel, faults: None }
    }
}

impl Transport {
    #[must_use]
    pub fn with_faults(self, faults: Arc<Faults>) -> Self {
        Self { faults: Some(faults), ..self }
    }
}

impl Service<http::Request<Body>> for Transport {
    type Response = http::Response<Body>;
    type Error = Error;
    type Future = BoxFuture<'static, Result<Self::Response, Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Service::poll_ready(&mut self.channel, context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        match &self.faults {
            None => Service::call(&mut self.channel, request).boxed(),
            Some(faults) => {
                // The clone is not ready; the one that is must make the call.
                let next = self.channel.clone();
                let ready = std::mem::replace(&mut self.channel, next);
                call_with_faults(ready, Arc::clone(faults), request).boxed()
            }
        }
    }
}

async fn call_with_faults(
    mut channel: Channel,
    faults: Arc<Faults>,
    request: http::Request<Body>,
) -> Result<http::Response<Body>, Error> {
    let call = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
    let (head, body) = request.into_parts();
    let sent = match body.collect().await {
        Ok(collected) => collected.to_bytes(),
        Err(status) => return Ok(status.into_http()),
    };
    // A request is one message after its prefix.
    let message = sent.get(5..).unwrap_or_default();
    let subject = faults.subjects.of_request(&call, message);
    let injected = faults.of_call(&call, &subject, timing::random);
    for fault in &injected {
        match fault {
            Fault::Delay(delay) => tokio::time::sleep(*delay).await,
            Fault::Error { code, message } => return Ok(Status::new(*code, message).into_http()),
            Fault::Hang => std::future::pending().await,
            Fault::LoseAnswer { .. }
            | Fault::CutStream { .. }
            | Fault::DuplicateMessages
            | Fault::ReorderMessages => {}
        }
    }
    let request = http::Request::from_parts(head, Body::new(Full::new(sent.clone())));
    let response = Service::call(&mut channel, request).await?;
    let lost = injected.iter().find_map(|fault| match fault {
        Fault::LoseAnswer { code } => Some(*code),
        _ => None,
    });
    if lost.is_none() && !creates_or_lists(&call) {
        return Ok(response.map(|body| FaultyStream::wrap(body, &injected)));
    }
    let (head, body) = response.into_parts();
    let answer = match body.collect().await {
        Ok(answer) => answer,
        Err(status) => return Ok(status.into_http()),
    };
    let trailers = answer.trailers().cloned();
    let answer = answer.to_bytes();
    faults.subjects.learn(&call, &subject, message, answer.get(5..).unwrap_or_default());
    if let Some(code) = lost {
        return Ok(Status::new(code, "injected: the answer was lost").into_http());
    }
    Ok(http::Response::from_parts(head, whole_body(answer, trailers)))
}

/// Whether an answer shows which pod a sandbox or container belongs to.
fn creates_or_lists(call: &str) -> bool {
    const CALLS: [&str; 6] = [
        "RunPodSandbox",
        "CreateContainer",
        "RemovePodSandbox",
        "RemoveContainer",
        "ListPodSandbox",
        "ListContainers",
    ];
    CALLS.contains(&call)
}

fn whole_body(bytes: Bytes, trailers: Option<http::HeaderMap>) -> Body {
    match trailers {
        None => Body::new(Full::new(bytes)),
        Some(trailers) => Body::new(Full::new(bytes).with_trailers(std::future::ready(Some(Ok(trailers))))),
    }
}
