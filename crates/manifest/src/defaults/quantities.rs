//! Visits all quantities of a pod.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, EnvVar, Pod, ResourceRequirements, Volume};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as QuantityText;
use values::quantity::Quantity;

use crate::path::Path;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// An entry of a resource list.
    Resource,
    /// The size limit of a volume.
    Size,
    /// The divisor of a `resourceFieldRef`.
    Divisor,
}

type Visit<'a> = dyn FnMut(&Path, Role, &mut QuantityText) + 'a;

/// Rounds resource quantities up to thousandths and converts all quantities to their canonical form.
pub(crate) fn publish_quantities(pod: &mut Pod) {
    each_quantity(pod, &mut |_, role, text| {
        let Ok(quantity) = Quantity::parse_trimmed(&text.0) else { return };
        let quantity = match role {
            Role::Resource => quantity.rounded_up_to_milli(),
            Role::Size | Role::Divisor => quantity,
        };
        text.0 = quantity.to_string();
    });
}

/// Sets missing divisors of resource fields to `0`, which means one.
pub(crate) fn ensure_divisors(pod: &mut Pod) {
    let Some(spec) = pod.spec.as_mut() else { return };
    let containers = spec.init_containers.iter_mut().flatten().chain(&mut spec.containers);
    let variables = containers.flat_map(|container| container.env.iter_mut().flatten());
    let sources = variables.filter_map(|variable| variable.value_from.as_mut());
    let from_env = sources.filter_map(|source| source.resource_field_ref.as_mut());
    let from_files = spec
        .volumes
        .iter_mut()
        .flatten()
        .flat_map(downward_files)
        .filter_map(|(_, file)| file.resource_field_ref.as_mut());
    for field in from_env.chain(from_files) {
        field.divisor.get_or_insert_with(|| QuantityText("0".to_owned()));
    }
}

/// Calls `visit` for every quantity in the spec.
pub(crate) fn each_quantity(pod: &mut Pod, visit: &mut Visit<'_>) {
    let Some(spec) = pod.spec.as_mut() else { return };
    let path = Path::root().field("spec");
    let lists =
        [("initContainers", spec.init_containers.as_mut()), ("containers", Some(&mut spec.containers))];
    for (name, list) in lists {
        for (index, container) in list.into_iter().flatten().enumerate() {
            let path = path.field(name).index(index);
            visit_requirements(container.resources.as_mut(), &path.field("resources"), visit);
            visit_env(container.env.as_deref_mut(), &path.field("env"), visit);
        }
    }
    for (index, container) in spec.ephemeral_containers.iter_mut().flatten().enumerate() {
        let path = path.field("ephemeralContainers").index(index);
        visit_requirements(container.resources.as_mut(), &path.field("resources"), visit);
        visit_env(container.env.as_deref_mut(), &path.field("env"), visit);
    }
    visit_list(spec.overhead.as_mut(), &path.field("overhead"), visit);
    visit_requirements(spec.resources.as_mut(), &path.field("resources"), visit);
    for (index, volume) in spec.volumes.iter_mut().flatten().enumerate() {
        visit_volume(volume, &path.field("volumes").index(index), visit);
    }
}

fn visit_requirements(resources: Option<&mut ResourceRequirements>, path: &Path, visit: &mut Visit<'_>) {
    let Some(resources) = resources else { return };
    visit_list(resources.limits.as_mut(), &path.field("limits"), visit);
    visit_list(resources.requests.as_mut(), &path.field("requests"), visit);
}

fn visit_list(list: Option<&mut BTreeMap<String, QuantityText>>, path: &Path, visit: &mut Visit<'_>) {
    for (name, quantity) in list.into_iter().flatten() {
        visit(&path.key(name), Role::Resource, quantity);
    }
}

fn visit_env(variables: Option<&mut [EnvVar]>, path: &Path, visit: &mut Visit<'_>) {
    for (index, variable) in variables.into_iter().flatten().enumerate() {
        let field = variable.value_from.as_mut().and_then(|source| source.resource_field_ref.as_mut());
        if let Some(divisor) = field.and_then(|field| field.divisor.as_mut()) {
            visit(&path.index(index).field("valueFrom.resourceFieldRef.divisor"), Role::Divisor, divisor);
        }
    }
}

fn visit_volume(volume: &mut Volume, path: &Path, visit: &mut Visit<'_>) {
    if let Some(limit) = volume.empty_dir.as_mut().and_then(|source| source.size_limit.as_mut()) {
        visit(&path.field("emptyDir.sizeLimit"), Role::Size, limit);
    }
    let claim = volume.ephemeral.as_mut().and_then(|source| source.volume_claim_template.as_mut());
    if let Some(resources) = claim.and_then(|claim| claim.spec.resources.as_mut()) {
        let path = path.field("ephemeral.volumeClaimTemplate.spec.resources");
        visit_list(resources.limits.as_mut(), &path.field("limits"), visit);
        visit_list(resources.requests.as_mut(), &path.field("requests"), visit);
    }
    for (file_path, file) in downward_files(volume) {
        if let Some(divisor) = file.resource_field_ref.as_mut().and_then(|field| field.divisor.as_mut()) {
            visit(&file_path.below(path).field("resourceFieldRef.divisor"), Role::Divisor, divisor);
        }
    }
}

/// The downward API files of a volume, plain or projected, with their paths relative to the volume.
fn downward_files(volume: &mut Volume) -> impl Iterator<Item = (Path, &mut DownwardAPIVolumeFile)> {
    let plain =
        volume.downward_api.iter_mut().flat_map(|source| source.items.iter_mut().flatten().enumerate());
    let plain = plain.map(|(index, file)| (Path::root().field("downwardAPI.items").index(index), file));
    let sources =
        volume.projected.iter_mut().flat_map(|projected| projected.sources.iter_mut().flatten().enumerate());
    let projected = sources.flat_map(|(number, source)| {
        let path = Path::root().field("projected.sources").index(number).field("downwardAPI.items");
        let items = source.downward_api.iter_mut().flat_map(|downward| downward.items.iter_mut().flatten());
        items.enumerate().map(move |(index, file)| (path.index(index), file))
    });
    plain.chain(projected)
}
