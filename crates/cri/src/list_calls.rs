//! List calls that return raw responses, and messages that decode only the fields that the agent needs.
//!
//! The agent lists sandboxes and containers frequently, and the responses contain all labels and annotations. The
//! messages here are wire-compatible with `ListPodSandboxResponse` and `ListContainersResponse`: fields that they omit
//! are skipped, and decoded bytes share the memory of the response. If the raw response is equivalent to the previous
//! one (see `list_fingerprint`), the caller does not decode it at all.

use std::marker::PhantomData;

use prost::bytes::{Buf, Bytes, BytesMut};
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Request, Response, Status};
use tonic_prost::ProstEncoder;

use crate::client::MAX_MESSAGE_BYTES;
use crate::faults::Transport;
use crate::v1;

/// Size limit of a list that arrives as a stream.
const MAX_STREAMED_BYTES: usize = 256 * 1024 * 1024;

/// `ListPodSandboxResponse`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct SandboxList {
    #[prost(message, repeated, tag = "1")]
    pub(crate) items: Vec<Sandbox>,
}

/// `PodSandbox`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Sandbox {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) id: Bytes,
    #[prost(message, optional, tag = "2")]
    pub(crate) metadata: Option<SandboxMetadata>,
    #[prost(enumeration = "v1::PodSandboxState", tag = "3")]
    pub(crate) state: i32,
    #[prost(int64, tag = "4")]
    pub(crate) created_at: i64,
    #[prost(message, repeated, tag = "5")]
    pub(crate) labels: Vec<Label>,
}

/// `PodSandboxMetadata`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct SandboxMetadata {
    #[prost(uint32, tag = "4")]
    pub(crate) attempt: u32,
}

/// `ListContainersResponse`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ContainerList {
    #[prost(message, repeated, tag = "1")]
    pub(crate) containers: Vec<Container>,
}

/// `Container`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Container {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) id: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) pod_sandbox_id: Bytes,
    #[prost(message, optional, tag = "3")]
    pub(crate) metadata: Option<ContainerMetadata>,
    #[prost(enumeration = "v1::ContainerState", tag = "6")]
    pub(crate) state: i32,
    #[prost(int64, tag = "7")]
    pub(crate) created_at: i64,
    #[prost(message, repeated, tag = "8")]
    pub(crate) labels: Vec<Label>,
}

/// `ContainerMetadata`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct ContainerMetadata {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) name: Bytes,
    #[prost(uint32, tag = "2")]
    pub(crate) attempt: u32,
}

/// One entry of a `map<string, string>`.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct Label {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) value: Bytes,
}

/// A unary list call and its streaming equivalent. The messages of both have the same fields, so that the concatenated
/// stream messages decode as the unary response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListCall {
    /// For errors and metrics.
    pub(crate) operation: &'static str,
    unary: &'static str,
    streaming: &'static str,
}

pub(crate) const SANDBOXES: ListCall = ListCall {
    operation: "list_podsandbox",
    unary: "/runtime.v1.RuntimeService/ListPodSandbox",
    streaming: "/runtime.v1.RuntimeService/StreamPodSandboxes",
};
pub(crate) const CONTAINERS: ListCall = ListCall {
    operation: "list_containers",
    unary: "/runtime.v1.RuntimeService/ListContainers",
    streaming: "/runtime.v1.RuntimeService/StreamContainers",
};
pub(crate) const CONTAINER_STATS: ListCall = ListCall {
    operation: "list_container_stats",
    unary: "/runtime.v1.RuntimeService/ListContainerStats",
    streaming: "/runtime.v1.RuntimeService/StreamContainerStats",
};
pub(crate) const IMAGES: ListCall = ListCall {
    operation: "list_images",
    unary: "/runtime.v1.ImageService/ListImages",
    streaming: "/runtime.v1.ImageService/StreamImages",
};

/// Returns the encoded response of the unary call.
pub(crate) async fn unary<Req: prost::Message + 'static>(
    channel: Transport,
    call: ListCall,
    request: Request<Req>,
) -> Result<Response<Bytes>, Status> {
    let mut grpc = ready_client(channel).await?;
    grpc.unary(request, PathAndQuery::from_static(call.unary), RawResponseCodec::default()).await
}

/// Returns the concatenated messages of the streaming call.
pub(crate) async fn streamed<Req: prost::Message + 'static>(
    channel: Transport,
    call: ListCall,
    request: Request<Req>,
) -> Result<Response<Bytes>, Status> {
    let mut grpc = ready_client(channel).await?;
    let path = PathAndQuery::from_static(call.streaming);
    let mut messages = grpc.server_streaming(request, path, RawResponseCodec::default()).await?.into_inner();
    let mut list = BytesMut::new();
    while let Some(message) = messages.message().await? {
        if list.len().saturating_add(message.len()) > MAX_STREAMED_BYTES {
            return Err(Status::resource_exhausted("streamed list exceeds the size limit"));
        }
        list.extend_from_slice(&message);
    }
    Ok(Response::new(list.freeze()))
}

async fn ready_client(channel: Transport) -> Result<Grpc<Transport>, Status> {
    let mut grpc = Grpc::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES);
    grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
    Ok(grpc)
}

/// Encodes requests with prost and returns responses undecoded.
struct RawResponseCodec<Req>(PhantomData<Req>);

impl<Req> Default for RawResponseCodec<Req> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<Req: prost::Message + 'static> Codec for RawResponseCodec<Req> {
    type Encode = Req;
    type Decode = Bytes;
    type Encoder = ProstEncoder<Req>;
    type Decoder = RawDecoder;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::default()
    }

    fn decoder(&mut self) -> Self::Decoder {
        RawDecoder
    }
}

struct RawDecoder;

impl Decoder for RawDecoder {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, source: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(source.copy_to_bytes(source.remaining())))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use prost::Message;

    use super::*;

    fn labels() -> HashMap<String, String> {
        HashMap::from([("a".to_owned(), "1".to_owned()), ("b".to_owned(), String::new())])
    }

    fn sorted(mut labels: Vec<Label>) -> Vec<(Bytes, Bytes)> {
        labels.sort_by(|left, right| left.key.cmp(&right.key));
        labels.into_iter().map(|label| (label.key, label.value)).collect()
    }

    #[test]
    fn decodes_container_from_full_message() {
        let full = v1::Container {
            id: "c".into(),
            pod_sandbox_id: "s".into(),
            metadata: Some(v1::ContainerMetadata { name: "main".into(), attempt: 3 }),
            image: Some(v1::ImageSpec { image: "i".into(), ..Default::default() }),
            image_ref: "r".into(),
            state: v1::ContainerState::ContainerExited.into(),
            created_at: 7,
            labels: labels(),
            annotations: labels(),
            image_id: "x".into(),
        };
        let list = v1::ListContainersResponse { containers: vec![full] };
        let decoded = ContainerList::decode(list.encode_to_vec().as_slice()).unwrap();
        let found = decoded.containers.into_iter().next().unwrap();
        assert_eq!((found.id.as_ref(), found.pod_sandbox_id.as_ref()), (&b"c"[..], &b"s"[..]));
        let metadata = found.metadata.clone().unwrap();
        assert_eq!((metadata.name.as_ref(), metadata.attempt), (&b"main"[..], 3));
        assert_eq!((found.state(), found.created_at), (v1::ContainerState::ContainerExited, 7));
        let expected = vec![("a".into(), "1".into()), ("b".into(), Bytes::new())];
        assert_eq!(sorted(found.labels), expected);
    }

    #[test]
    fn decodes_sandbox_from_full_message() {
        let full = v1::PodSandbox {
            id: "s".into(),
            metadata: Some(v1::PodSandboxMetadata { name: "p".into(), attempt: 2, ..Default::default() }),
            state: v1::PodSandboxState::SandboxNotready.into(),
            created_at: 9,
            labels: labels(),
            annotations: labels(),
            runtime_handler: "h".into(),
        };
        let list = v1::ListPodSandboxResponse { items: vec![full] };
        let decoded = SandboxList::decode(list.encode_to_vec().as_slice()).unwrap();
        let found = decoded.items.into_iter().next().unwrap();
        assert_eq!((found.id.as_ref(), found.metadata.clone().unwrap().attempt), (&b"s"[..], 2));
        assert_eq!((found.state(), found.created_at), (v1::PodSandboxState::SandboxNotready, 9));
        assert_eq!(sorted(found.labels).len(), 2);
    }
}
