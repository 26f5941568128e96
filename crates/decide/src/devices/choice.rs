//! Which devices a container gets: reusable ones first, then those that match the topology hint, and among equal ones those
//! that the plugin prefers.

use std::collections::BTreeSet;

use model::{NumaMask, PluginDevice};

use super::{DeviceRequest, DeviceState};
use crate::go_text::quoted;

/// Why a container cannot get its devices. The texts are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceChoiceError {
    #[error(
        "pod {} container {} changed request for resource {} from {before} to {now}",
        quoted(.pod), quoted(.container), quoted(.resource)
    )]
    ChangedRequest { pod: String, container: String, resource: String, before: usize, now: usize },
    #[error("cannot allocate unregistered device {0}")]
    Unregistered(String),
    #[error("no healthy devices present; cannot allocate unhealthy devices {0}")]
    NoHealthyDevices(String),
    #[error("previously allocated devices are no longer healthy; cannot allocate unhealthy devices {0}")]
    AllocatedDevicesUnhealthy(String),
    #[error(
        "requested number of devices unavailable for {resource}. Requested: {requested}, Available: {available}"
    )]
    Unavailable { resource: String, requested: usize, available: usize },
}

/// A choice of devices. The plugin may be asked for its preference before it is completed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceChoice {
    /// Devices that are certain.
    certain: Vec<String>,
    size: usize,
    /// The devices among which the plugin may express a preference.
    open: BTreeSet<String>,
    /// The order of `open` without a preference.
    fallback: Vec<String>,
}

impl DeviceChoice {
    /// The free devices that the plugin may choose from, if any choice is left.
    pub fn available(&self) -> Option<Vec<String>> {
        (self.certain.len() < self.size).then(|| {
            let all: BTreeSet<&String> = self.open.iter().chain(&self.certain).collect();
            all.into_iter().cloned().collect()
        })
    }

    /// Devices that are chosen already.
    pub fn certain(&self) -> &[String] {
        &self.certain
    }

    /// Number of devices that the container gets.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The chosen devices. Preferred devices that are not available are ignored.
    pub fn complete(self, preferred: &[String]) -> Vec<String> {
        let mut chosen = self.certain;
        let preferred: BTreeSet<&String> = preferred.iter().filter(|id| self.open.contains(*id)).collect();
        for id in preferred.into_iter().chain(&self.fallback) {
            if chosen.len() >= self.size {
                break;
            }
            if !chosen.contains(id) {
                chosen.push(id.clone());
            }
        }
        chosen
    }
}

pub(super) fn choose(
    state: &DeviceState,
    request: &DeviceRequest<'_>,
    mask: Option<NumaMask>,
) -> Result<Option<DeviceChoice>, DeviceChoiceError> {
    let resource = request.resource;
    let own = state.records.get(request.uid, request.container, resource).map(super::DeviceRecord::devices);
    if let Some(own) = &own
        && own.len() != request.count
    {
        return Err(DeviceChoiceError::ChangedRequest {
            pod: request.uid.to_string(),
            container: request.container.to_owned(),
            resource: resource.to_owned(),
            before: own.len(),
            now: request.count,
        });
    }
    // Upstream rejects a limit of 0 while the resource has no healthy device.
    if request.count == 0 {
        return Ok(None);
    }
    let Some(healthy) = state.inventory.healthy(resource) else {
        return Err(DeviceChoiceError::Unregistered(resource.to_owned()));
    };
    if healthy.is_empty() {
        return Err(DeviceChoiceError::NoHealthyDevices(resource.to_owned()));
    }
    match own {
        Some(own) if own.is_subset(healthy) => Ok(None),
        Some(_) => Err(DeviceChoiceError::AllocatedDevicesUnhealthy(resource.to_owned())),
        None => choose_new(state, request, healthy, mask).map(Some),
    }
}

fn choose_new(
    state: &DeviceState,
    request: &DeviceRequest<'_>,
    healthy: &BTreeSet<String>,
    mask: Option<NumaMask>,
) -> Result<DeviceChoice, DeviceChoiceError> {
    let size = request.count;
    let reusable = state.reusable(request.uid, request.resource);
    let mut certain: Vec<String> = reusable.intersection(healthy).take(size).cloned().collect();
    let missing = size - certain.len();
    if missing == 0 {
        return Ok(DeviceChoice { certain, size, ..DeviceChoice::default() });
    }
    let mut available = state.available(request.resource);
    available.retain(|device| !certain.contains(&device.id));
    if available.len() < missing {
        return Err(DeviceChoiceError::Unavailable {
            resource: request.resource.to_owned(),
            requested: missing,
            available: available.len(),
        });
    }
    let mask = mask.filter(|_| state.inventory.has_topology(request.resource));
    let groups = Alignment::of(&available, mask);
    if missing < groups.aligned.len() {
        let open = ids(&groups.aligned);
        return Ok(DeviceChoice { certain, size, open, fallback: ids(&groups.aligned) });
    }
    certain.extend(ids::<Vec<_>>(&groups.aligned));
    let fallback = ids(&[groups.unaligned, groups.without_nodes].concat());
    Ok(DeviceChoice { certain, size, open: ids(&available), fallback })
}

/// Free devices by their relation to the topology hint.
#[derive(Default)]
struct Alignment<'a> {
    aligned: Vec<&'a PluginDevice>,
    unaligned: Vec<&'a PluginDevice>,
    without_nodes: Vec<&'a PluginDevice>,
}

impl<'a> Alignment<'a> {
    /// `mask` is the hint, if the resource has a topology.
    fn of(available: &[&'a PluginDevice], mask: Option<NumaMask>) -> Self {
        let Some(mask) = mask else {
            return Self { without_nodes: available.to_vec(), ..Self::default() };
        };
        let mut groups = Self::default();
        for device in available {
            let group = match device.nodes.as_slice() {
                [] => &mut groups.without_nodes,
                nodes if touches(mask, nodes) => &mut groups.aligned,
                _ => &mut groups.unaligned,
            };
            group.push(device);
        }
        groups
    }
}

fn ids<C: FromIterator<String>>(devices: &[&PluginDevice]) -> C {
    devices.iter().map(|device| device.id.clone()).collect()
}

/// Whether any of the nodes is in the mask.
pub(super) fn touches(mask: NumaMask, nodes: &[i64]) -> bool {
    nodes.iter().any(|node| i32::try_from(*node).is_ok_and(|node| mask.contains(node)))
}
