//! The answers of the two list calls, read as far as the agent needs them.
//!
//! The lists hold the annotations and labels of everything that runs and are asked for again and again. On the wire
//! these messages are the contract's `ListPodSandboxResponse` and `ListContainersResponse`; fields that are left out
//! here are skipped, and what is read shares the memory of the answer instead of being copied piece by piece. Or they
//! are not read at all: who knows what was listed before may not need to.

use std::marker::PhantomData;

use prost::bytes::{Buf, Bytes, BytesMut};
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Channel;
use tonic::{Request, Response, Status};
use tonic_prost::ProstEncoder;

use crate::v1;

/// The longest list that is put together.
const MOST_IN_PIECES: usize = 256 * 1024 * 1024;

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

/// A list call, and the one that sends the same list in pieces. The messages of both have the same fields, so that the
/// pieces one after the other are the list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListCall {
    whole: &'static str,
    in_pieces: &'static str,
}

pub(crate) const SANDBOXES: ListCall = ListCall {
    whole: "/runtime.v1.RuntimeService/ListPodSandbox",
    in_pieces: "/runtime.v1.RuntimeService/StreamPodSandboxes",
};
pub(crate) const CONTAINERS: ListCall = ListCall {
    whole: "/runtime.v1.RuntimeService/ListContainers",
    in_pieces: "/runtime.v1.RuntimeService/StreamContainers",
};
pub(crate) const CONTAINER_STATS: ListCall = ListCall {
    whole: "/runtime.v1.RuntimeService/ListContainerStats",
    in_pieces: "/runtime.v1.RuntimeService/StreamContainerStats",
};
pub(crate) const IMAGES: ListCall = ListCall {
    whole: "/runtime.v1.ImageService/ListImages",
    in_pieces: "/runtime.v1.ImageService/StreamImages",
};

/// The answer of a list call as it came.
pub(crate) async fn whole<Question: prost::Message + 'static>(
    channel: Channel,
    limit: usize,
    call: ListCall,
    question: Request<Question>,
) -> Result<Response<Bytes>, Status> {
    let mut grpc = ready(channel, limit).await?;
    grpc.unary(question, PathAndQuery::from_static(call.whole), Unread::default()).await
}

/// The same in pieces of at most `limit` each, put together.
pub(crate) async fn in_pieces<Question: prost::Message + 'static>(
    channel: Channel,
    limit: usize,
    call: ListCall,
    question: Request<Question>,
) -> Result<Response<Bytes>, Status> {
    let mut grpc = ready(channel, limit).await?;
    let path = PathAndQuery::from_static(call.in_pieces);
    let mut pieces = grpc.server_streaming(question, path, Unread::default()).await?.into_inner();
    let mut list = BytesMut::new();
    while let Some(piece) = pieces.message().await? {
        if list.len().saturating_add(piece.len()) > MOST_IN_PIECES {
            return Err(Status::resource_exhausted("the pieces of a list are more than can be taken"));
        }
        list.extend_from_slice(&piece);
    }
    Ok(Response::new(list.freeze()))
}

async fn ready(channel: Channel, limit: usize) -> Result<Grpc<Channel>, Status> {
    let mut grpc = Grpc::new(channel).max_decoding_message_size(limit);
    grpc.ready().await.map_err(|error| Status::from_error(error.into()))?;
    Ok(grpc)
}

/// Leaves answers as they came.
struct Unread<Question>(PhantomData<Question>);

impl<Question> Default for Unread<Question> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<Question: prost::Message + 'static> Codec for Unread<Question> {
    type Encode = Question;
    type Decode = Bytes;
    type Encoder = ProstEncoder<Question>;
    type Decoder = AsItCame;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder::default()
    }

    fn decoder(&mut self) -> Self::Decoder {
        AsItCame
    }
}

struct AsItCame;

impl Decoder for AsItCame {
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
    fn a_container_of_the_contract_is_read() {
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
        let read = ContainerList::decode(list.encode_to_vec().as_slice()).unwrap();
        let found = read.containers.into_iter().next().unwrap();
        assert_eq!((found.id.as_ref(), found.pod_sandbox_id.as_ref()), (&b"c"[..], &b"s"[..]));
        let metadata = found.metadata.clone().unwrap();
        assert_eq!((metadata.name.as_ref(), metadata.attempt), (&b"main"[..], 3));
        assert_eq!((found.state(), found.created_at), (v1::ContainerState::ContainerExited, 7));
        let expected = vec![("a".into(), "1".into()), ("b".into(), Bytes::new())];
        assert_eq!(sorted(found.labels), expected);
    }

    #[test]
    fn a_sandbox_of_the_contract_is_read() {
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
        let read = SandboxList::decode(list.encode_to_vec().as_slice()).unwrap();
        let found = read.items.into_iter().next().unwrap();
        assert_eq!((found.id.as_ref(), found.metadata.clone().unwrap().attempt), (&b"s"[..], 2));
        assert_eq!((found.state(), found.created_at), (v1::PodSandboxState::SandboxNotready, 9));
        assert_eq!(sorted(found.labels).len(), 2);
    }
}
