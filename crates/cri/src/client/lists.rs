use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use futures::future::try_join;
use model::{ListMark, PodLists};
use ports::runtime::{Lists, RuntimeError};
use prost::Message;
use prost::bytes::Bytes;
use tonic::Code;
use tonic::transport::Channel;

use super::call::{Deadline, broken, request};
use super::{CriClient, MAX_MESSAGE_BYTES};
use crate::brief::{self, ContainerList, ListCall, SandboxList};
use crate::convert::{container, sandbox};
use crate::v1::{ListContainersRequest, ListPodSandboxRequest};

pub(super) const SANDBOXES: &str = "list_podsandbox";
pub(super) const CONTAINERS: &str = "list_containers";

/// A connection, and whether lists are asked for in pieces on it. A runtime that says once that it has no such calls is
/// not asked for pieces again.
#[derive(Debug)]
pub(super) struct Listing {
    channel: Channel,
    in_pieces: AtomicBool,
}

impl Listing {
    pub(super) fn new(channel: Channel) -> Self {
        Self { channel, in_pieces: AtomicBool::new(false) }
    }

    pub(super) fn ask_in_pieces(&self) {
        self.in_pieces.store(true, Ordering::Relaxed);
    }
}

#[async_trait]
impl Lists for CriClient {
    async fn list_pods(&self, known: Option<ListMark>) -> Result<PodLists, RuntimeError> {
        let question = ListPodSandboxRequest { filter: None };
        let sandboxes = self.unread(SANDBOXES, brief::SANDBOXES, &self.listing, question);
        let question = ListContainersRequest { filter: None };
        let containers = self.unread(CONTAINERS, brief::CONTAINERS, &self.listing, question);
        let (sandboxes, containers) = try_join(sandboxes, containers).await?;
        let mark = self.marks.of(&sandboxes, &containers);
        if mark.is_some() && mark == known {
            return Ok(PodLists::Same);
        }
        let sandboxes: SandboxList = read(SANDBOXES, sandboxes)?;
        let containers: ContainerList = read(CONTAINERS, containers)?;
        Ok(PodLists::These {
            sandboxes: sandboxes.items.iter().filter_map(sandbox::summary).collect(),
            containers: containers.containers.iter().filter_map(container::summary).collect(),
            mark,
        })
    }
}

impl CriClient {
    /// The answer of a list call.
    pub(super) async fn list<Answer: Message + Default>(
        &self,
        operation: &'static str,
        call: ListCall,
        listing: &Listing,
        question: impl Message + Clone + 'static,
    ) -> Result<Answer, RuntimeError> {
        read(operation, self.unread(operation, call, listing, question).await?)
    }

    /// The same as it came.
    async fn unread<Question: Message + Clone + 'static>(
        &self,
        operation: &'static str,
        call: ListCall,
        listing: &Listing,
        question: Question,
    ) -> Result<Bytes, RuntimeError> {
        let deadline = Deadline::In(self.request_timeout);
        let asked = async {
            if listing.in_pieces.load(Ordering::Relaxed) {
                let question = request(question.clone(), deadline);
                let pieces =
                    brief::in_pieces(listing.channel.clone(), MAX_MESSAGE_BYTES, call, question).await;
                match pieces {
                    Err(status) if status.code() == Code::Unimplemented => {
                        tracing::info!(
                            operation,
                            "the runtime sends no lists in pieces; they are asked for whole"
                        );
                        listing.in_pieces.store(false, Ordering::Relaxed);
                    }
                    answered => return answered,
                }
            }
            let question = request(question, deadline);
            brief::whole(listing.channel.clone(), MAX_MESSAGE_BYTES, call, question).await
        };
        self.answer(operation, deadline, asked).await
    }
}

fn read<T: Message + Default>(operation: &'static str, answer: Bytes) -> Result<T, RuntimeError> {
    T::decode(answer).map_err(|error| broken(operation, &format!("a list that cannot be read: {error}")))
}
