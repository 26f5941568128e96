//! What is told of a pod that has to go.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Container;
use model::Pod;
use model::statistics::{ContainerStatistics, PodStatistics};

use super::observations::Observations;
use super::signals::Starved;
use super::thresholds::Threshold;
use crate::quantity::text::binary;
use crate::quantity::{Amount, ResourceList};

/// How the message begins when it is the node that is short of something.
pub(crate) const NODE_LOW: &str = "The node was low on resource: ";

/// A message with what programs read from its event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EvictionNote {
    /// For people.
    pub message: String,
    /// For programs.
    pub annotations: BTreeMap<String, String>,
}

/// What is told of a pod that has to go because the node is short of something.
#[must_use]
pub fn eviction_note(
    starved: Starved,
    pod: &Pod,
    used: Option<&PodStatistics>,
    met: &[Threshold],
    seen: &Observations,
) -> EvictionNote {
    let mut note =
        EvictionNote { message: format!("{NODE_LOW}{}. ", starved.as_str()), ..Default::default() };
    let about = met.iter().filter(|own| own.signal.starved() == starved);
    if let Some((own, seen)) = about.filter_map(|own| Some((own, seen.get(&own.signal)?))).next() {
        let (quantity, available) = (own.value.text(seen.capacity), seen.text(starved));
        note.message += &format!("Threshold quantity: {quantity}, available: {available}. ");
    }
    let Some(used) = used else { return note };
    if starved == Starved::Memory {
        note_pod(&mut note, pod, used);
    }
    let (mut names, mut amounts) = (Vec::new(), Vec::new());
    let containers = || pod.spec.containers.iter().chain(pod.spec.init_containers.iter().flatten());
    for measured in &used.containers {
        let Some(container) = containers().find(|own| own.name == measured.name) else { continue };
        let (Some(amount), requested) = (amount(measured, starved), request(container, starved)) else {
            continue;
        };
        if Amount::whole(amount) > Amount::parse(requested).unwrap_or_default() {
            let (name, amount) = (&container.name, binary(amount));
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

/// A pod with requests of its own is told of with what it uses as a whole.
fn note_pod(note: &mut EvictionNote, pod: &Pod, used: &PodStatistics) {
    let requests = pod.spec.resources.as_ref().and_then(|own| own.requests.as_ref());
    let (Some(request), Some(memory)) = (requests.and_then(|list| list.get("memory")), &used.memory) else {
        return;
    };
    let amount = binary(i64::try_from(memory.working_set_bytes.unwrap_or(0)).unwrap_or(i64::MAX));
    note.message += &consumption("Pod", pod.name(), &amount, &request.0, Starved::Memory);
    note.annotations.insert("offending_pod".to_owned(), pod.name().to_owned());
    note.annotations.insert("offending_pod_usage".to_owned(), amount);
}

fn consumption(what: &str, name: &str, amount: &str, requested: &str, starved: Starved) -> String {
    let starved = starved.as_str();
    format!("{what} {name} was using {amount}, request is {requested}, has larger consumption of {starved}. ")
}

fn request(container: &Container, starved: Starved) -> &str {
    let requests: Option<&ResourceList> = container.resources.as_ref().and_then(|own| own.requests.as_ref());
    requests.and_then(|list| list.get(starved.as_str())).map_or("0", |quantity| quantity.0.as_str())
}

fn amount(measured: &ContainerStatistics, starved: Starved) -> Option<i64> {
    let amount = match starved {
        Starved::Memory => measured.memory.as_ref()?.working_set_bytes?,
        Starved::EphemeralStorage => {
            let (rootfs, logs) = (measured.rootfs.as_ref()?.used_bytes?, measured.logs.as_ref()?.used_bytes?);
            rootfs.saturating_add(logs)
        }
        Starved::Inodes | Starved::Pids => return None,
    };
    i64::try_from(amount).ok()
}
