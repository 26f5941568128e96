//! Which pod a call concerns. Calls name it, or a sandbox or container that an earlier call created or listed.

use std::collections::HashMap;

use model::labels::{POD_NAME, POD_NAMESPACE, POD_UID};
use parking_lot::Mutex;
use prost::Message;

use crate::v1::{
    CreateContainerRequest, CreateContainerResponse, ListContainersRequest, ListContainersResponse,
    ListPodSandboxRequest, ListPodSandboxResponse, RunPodSandboxRequest, RunPodSandboxResponse,
};

/// The pod of a call; empty if it concerns no single pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Subject {
    uid: String,
    /// `namespace/name`; empty if the call names only the UID.
    name: String,
}

impl Subject {
    pub(super) fn is_pod(&self, pod: &str) -> bool {
        !pod.is_empty() && (self.uid == pod || self.name == pod)
    }

    fn from_labels(labels: &HashMap<String, String>) -> Self {
        let label = |key: &str| labels.get(key).cloned().unwrap_or_default();
        Self { uid: label(POD_UID), name: format!("{}/{}", label(POD_NAMESPACE), label(POD_NAME)) }
    }
}

/// The pods of sandboxes and containers.
#[derive(Debug, Default)]
pub(super) struct Subjects(Mutex<HashMap<String, Subject>>);

/// Most requests have the ID of their sandbox or container in the first field.
#[derive(Clone, PartialEq, Eq, Message)]
struct IdRequest {
    #[prost(string, tag = "1")]
    id: String,
}

impl Subjects {
    pub(super) fn of_request(&self, call: &str, message: &[u8]) -> Subject {
        match call {
            "RunPodSandbox" => {
                let config = RunPodSandboxRequest::decode(message).ok().and_then(|request| request.config);
                let metadata = config.and_then(|config| config.metadata).unwrap_or_default();
                let name = format!("{}/{}", metadata.namespace, metadata.name);
                Subject { uid: metadata.uid, name }
            }
            "CreateContainer" => {
                let request = CreateContainerRequest::decode(message).unwrap_or_default();
                self.get(&request.pod_sandbox_id)
            }
            "ListPodSandbox" | "StreamPodSandboxes" => {
                let filter = ListPodSandboxRequest::decode(message).ok().and_then(|request| request.filter);
                self.of_filter(filter.map(|filter| filter.label_selector))
            }
            "ListContainers" | "StreamContainers" => {
                let filter = ListContainersRequest::decode(message).ok().and_then(|request| request.filter);
                self.of_filter(filter.map(|filter| filter.label_selector))
            }
            _ => self.get(&IdRequest::decode(message).unwrap_or_default().id),
        }
    }

    /// Remembers the objects in a response.
    pub(super) fn learn(&self, call: &str, subject: &Subject, request: &[u8], response: &[u8]) {
        let mut known = self.0.lock();
        match call {
            "RunPodSandbox" => {
                let id = RunPodSandboxResponse::decode(response).unwrap_or_default().pod_sandbox_id;
                known.insert(id, subject.clone());
            }
            "CreateContainer" => {
                let id = CreateContainerResponse::decode(response).unwrap_or_default().container_id;
                known.insert(id, subject.clone());
            }
            "RemovePodSandbox" | "RemoveContainer" => {
                known.remove(&IdRequest::decode(request).unwrap_or_default().id);
            }
            "ListPodSandbox" => {
                let items = ListPodSandboxResponse::decode(response).unwrap_or_default().items;
                known.extend(items.into_iter().map(|item| (item.id, Subject::from_labels(&item.labels))));
            }
            "ListContainers" => {
                let items = ListContainersResponse::decode(response).unwrap_or_default().containers;
                known.extend(items.into_iter().map(|item| (item.id, Subject::from_labels(&item.labels))));
            }
            _ => {}
        }
    }

    fn get(&self, id: &str) -> Subject {
        self.0.lock().get(id).cloned().unwrap_or_default()
    }

    fn of_filter(&self, labels: Option<HashMap<String, String>>) -> Subject {
        let uid = labels.and_then(|labels| labels.get(POD_UID).cloned()).unwrap_or_default();
        let known = self.0.lock();
        let same = known.values().find(|subject| !uid.is_empty() && subject.uid == uid);
        same.cloned().unwrap_or(Subject { uid, name: String::new() })
    }
}
