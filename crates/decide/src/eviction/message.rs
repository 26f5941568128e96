//! Message and annotations of eviction events.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Container;
use model::Pod;
use model::statistics::{ContainerStatistics, PodStatistics};
use values::quantity::{Amount, binary_si};

use super::observations::SignalObservations;
use super::signals::StarvedResource;
use super::thresholds::Threshold;
use crate::quantity::ResourceList;

const NODE_LOW_PREFIX: &str = "The node was low on resource: ";

/// The message and the annotations of an eviction event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EvictionNote {
    pub message: String,
    pub annotations: BTreeMap<String, String>,
}

/// The note for a pod that is evicted because of node pressure.
pub fn eviction_note(
    starved: StarvedResource,
    pod: &Pod,
    used: Option<&PodStatistics>,
    met: &[Threshold],
    observations: &SignalObservations,
) -> EvictionNote {
    let mut note =
        EvictionNote { message: format!("{NODE_LOW_PREFIX}{}. ", starved.as_str()), ..Default::default() };
    let relevant = met.iter().filter(|threshold| threshold.signal.starved_resource() == starved);
    if let Some((threshold, observation)) =
        relevant.filter_map(|threshold| Some((threshold, observations.get(&threshold.signal)?))).next()
    {
        let (quantity, available) = (threshold.value.text(observation.capacity), observation.text(starved));
        note.message += &format!("Threshold quantity: {quantity}, available: {available}. ");
    }
    let Some(used) = used else { return note };
    if starved == StarvedResource::Memory {
        note_pod(&mut note, pod, used);
    }
    let (mut names, mut amounts) = (Vec::new(), Vec::new());
    let containers = || pod.spec.containers.iter().chain(pod.spec.init_containers.iter().flatten());
    for measured in &used.containers {
        let Some(container) = containers().find(|own| own.name == measured.name) else { continue };
        let (Some(amount), requested) = (amount(measured, starved), request(container, starved)) else {
            continue;
        };
        if Amount::from_units(amount) > Amount::parse(requested).unwrap_or_default() {
            let (name, amount) = (&container.name, binary_si(amount));
            note.message += &consumption("Container", name, &amount, requested, starved);
            names.push(name.clone());
            amounts.push(amount);
        }
    }
    note.annotations.extend(
        [
            ("offending_containers", names.join(",")),
            ("offending_containers_usage", amounts.join(",")),
            ("starved_resource", starved.as_str().to_owned()),
        ]
        .map(|(key, value)| (key.to_owned(), value)),
    );
    note
}

/// Adds the total memory use of a pod with pod-level requests.
fn note_pod(note: &mut EvictionNote, pod: &Pod, used: &PodStatistics) {
    let requests = pod.spec.resources.as_ref().and_then(|own| own.requests.as_ref());
    let (Some(request), Some(memory)) = (requests.and_then(|list| list.get("memory")), &used.memory) else {
        return;
    };
    let amount = binary_si(i64::try_from(memory.working_set_bytes.unwrap_or(0)).unwrap_or(i64::MAX));
    note.message += &consumption("Pod", pod.name(), &amount, &request.0, StarvedResource::Memory);
    note.annotations.insert("offending_pod".to_owned(), pod.name().to_owned());
    note.annotations.insert("offending_pod_usage".to_owned(), amount);
}

fn consumption(what: &str, name: &str, amount: &str, requested: &str, starved: StarvedResource) -> String {
    let starved = starved.as_str();
    format!("{what} {name} was using {amount}, request is {requested}, has larger consumption of {starved}. ")
}

fn request(container: &Container, starved: StarvedResource) -> &str {
    let requests: Option<&ResourceList> = container.resources.as_ref().and_then(|own| own.requests.as_ref());
    requests.and_then(|list| list.get(starved.as_str())).map_or("0", |quantity| quantity.0.as_str())
}

fn amount(measured: &ContainerStatistics, starved: StarvedResource) -> Option<i64> {
    let amount = match starved {
        StarvedResource::Memory => measured.memory.as_ref()?.working_set_bytes?,
        StarvedResource::EphemeralStorage => {
            let (rootfs, logs) = (measured.rootfs.as_ref()?.used_bytes?, measured.logs.as_ref()?.used_bytes?);
            rootfs.saturating_add(logs)
        }
        StarvedResource::Inodes | StarvedResource::Pids => return None,
    };
    i64::try_from(amount).ok()
}
