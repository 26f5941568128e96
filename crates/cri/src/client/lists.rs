use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use futures::future::try_join;
use model::{ListMark, PodLists};
use ports::runtime::{Lists, RuntimeError};
use prost::Message;
use prost::bytes::Bytes;
use tonic::Code;

use super::CriClient;
use super::call::{Deadline, protocol_violation};
use crate::convert::{container, sandbox};
use crate::faults::Transport;
use crate::list_calls::{self, CONTAINERS, ContainerList, ListCall, SANDBOXES, SandboxList};
use crate::v1::{ListContainersRequest, ListPodSandboxRequest};

/// A channel for list calls. Streaming is switched off when the runtime responds that it is not implemented.
#[derive(Debug)]
pub(super) struct ListChannel {
    pub(super) channel: Transport,
    streaming: AtomicBool,
}

impl ListChannel {
    pub(super) fn new(channel: Transport) -> Self {
        Self { channel, streaming: AtomicBool::new(false) }
    }

    pub(super) fn enable_streaming(&self) {
        self.streaming.store(true, Ordering::Relaxed);
    }
}

#[async_trait]
impl Lists for CriClient {
    async fn list_pods(&self, previous: Option<ListMark>) -> Result<PodLists, RuntimeError> {
        let message = ListPodSandboxRequest { filter: None };
        let sandboxes = self.list_raw(SANDBOXES, &self.list_channel, message);
        let message = ListContainersRequest { filter: None };
        let containers = self.list_raw(CONTAINERS, &self.list_channel, message);
        let (sandboxes, containers) = try_join(sandboxes, containers).await?;
        let mark = self.fingerprinter.fingerprint(&sandboxes, &containers);
        if mark.is_some() && mark == previous {
            return Ok(PodLists::Same);
        }
        let sandboxes: SandboxList = decode(SANDBOXES, sandboxes)?;
        let containers: ContainerList = decode(CONTAINERS, containers)?;
        Ok(PodLists::These {
            sandboxes: sandboxes.items.iter().filter_map(sandbox::summary).collect(),
            containers: containers.containers.iter().filter_map(container::summary).collect(),
            mark,
        })
    }
}

impl CriClient {
    pub(super) async fn list<Res: Message + Default>(
        &self,
        call: ListCall,
        lists: &ListChannel,
        message: impl Message + Clone + 'static,
    ) -> Result<Res, RuntimeError> {
        decode(call, self.list_raw(call, lists, message).await?)
    }

    async fn list_raw<Req: Message + Clone + 'static>(
        &self,
        call: ListCall,
        lists: &ListChannel,
        message: Req,
    ) -> Result<Bytes, RuntimeError> {
        let deadline = Deadline::In(self.request_timeout);
        let responses = async {
            if lists.streaming.load(Ordering::Relaxed) {
                let message = self.request(message.clone(), deadline);
                match list_calls::streamed(lists.channel.clone(), call, message).await {
                    Err(status) if status.code() == Code::Unimplemented => {
                        tracing::info!(
                            operation = call.operation,
                            "runtime does not support streaming list calls; falling back to unary calls"
                        );
                        lists.streaming.store(false, Ordering::Relaxed);
                    }
                    result => return result,
                }
            }
            let message = self.request(message, deadline);
            list_calls::unary(lists.channel.clone(), call, message).await
        };
        self.execute(call.operation, deadline, Box::pin(responses)).await
    }
}

fn decode<T: Message + Default>(call: ListCall, response: Bytes) -> Result<T, RuntimeError> {
    T::decode(response)
        .map_err(|error| protocol_violation(call.operation, &format!("an invalid list: {error}")))
}
