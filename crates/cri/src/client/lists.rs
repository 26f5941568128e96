use async_trait::async_trait;
use futures::future::try_join;
use model::{ListMark, PodLists};
use ports::runtime::{Lists, RuntimeError};
use prost::Message;
use prost::bytes::Bytes;

use super::call::{Deadline, broken, request};
use super::{CriClient, MAX_MESSAGE_BYTES};
use crate::brief::{self, ContainerList, SandboxList};
use crate::convert::{container, sandbox};
use crate::v1::{ListContainersRequest, ListPodSandboxRequest};

const SANDBOXES: &str = "list_podsandbox";
const CONTAINERS: &str = "list_containers";

#[async_trait]
impl Lists for CriClient {
    async fn list_pods(&self, known: Option<ListMark>) -> Result<PodLists, RuntimeError> {
        let deadline = Deadline::In(self.request_timeout);
        let question = request(ListPodSandboxRequest { filter: None }, deadline);
        let call = brief::unread_sandboxes(self.channel.clone(), MAX_MESSAGE_BYTES, question);
        let sandboxes = self.answer(SANDBOXES, deadline, call);
        let question = request(ListContainersRequest { filter: None }, deadline);
        let call = brief::unread_containers(self.channel.clone(), MAX_MESSAGE_BYTES, question);
        let containers = self.answer(CONTAINERS, deadline, call);
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

fn read<T: Message + Default>(operation: &'static str, answer: Bytes) -> Result<T, RuntimeError> {
    T::decode(answer).map_err(|error| broken(operation, &format!("a list that cannot be read: {error}")))
}
