//! Every quantity of a pod, with its path.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{DownwardAPIVolumeFile, EnvVar, Pod, ResourceRequirements, Volume};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as QuantityText;

use crate::path::Path;
use crate::quantity::Quantity;

/// What a quantity counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// An entry of a resource list.
    Resource,
    /// The size limit of a volume.
    Size,
    /// The unit of an exposed resource.
    Divisor,
}

type Visit<'a> = dyn FnMut(&Path, Role, &mut QuantityText) + 'a;

/// Rounds resource amounts up to thousandths and writes every quantity in its canonical form.
pub(crate) fn publish_quantities(pod: &mut Pod) {
    each_quantity(pod, &mut |_, role, text| {
        let Ok(quantity) = Quantity::parse(&text.0) else { return };
        let quantity = match role {
            Role::Resource => quantity.rounded_to_milli(),
            Role::Size | Role::Divisor => quantity,
        };
        text.0 = quantity.to_string();
    });
}

/// A resource field without a divisor is published with the divisor `0`, which means one.
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

/// Calls `visit` for every quantity of the spec.
pub(crate) fn each_quantity(pod: &mut Pod, visit: &mut Visit<'_>) {
    let Some(spec) = pod.spec.as_mut() else { return };
    let at = Path::root().field("spec");
    let lists =
        [("initContainers", spec.init_containers.as_mut()), ("containers", Some(&mut spec.containers))];
    for (name, list) in lists {
        for (index, container) in list.into_iter().flatten().enumerate() {
            let at = at.field(name).index(index);
            visit_requirements(container.resources.as_mut(), &at.field("resources"), visit);
            visit_env(container.env.as_deref_mut(), &at.field("env"), visit);
        }
    }
    for (index, container) in spec.ephemeral_containers.iter_mut().flatten().enumerate() {
        let at = at.field("ephemeralContainers").index(index);
        visit_requirements(container.resources.as_mut(), &at.field("resources"), visit);
        visit_env(container.env.as_deref_mut(), &at.field("env"), visit);
    }
    visit_list(spec.overhead.as_mut(), &at.field("overhead"), visit);
    visit_requirements(spec.resources.as_mut(), &at.field("resources"), visit);
    for (index, volume) in spec.volumes.iter_mut().flatten().enumerate() {
        visit_volume(volume, &at.field("volumes").index(index), visit);
    }
}

fn visit_requirements(resources: Option<&mut ResourceRequirements>, at: &Path, visit: &mut Visit<'_>) {
    let Some(resources) = resources else { return };
    visit_list(resources.limits.as_mut(), &at.field("limits"), visit);
    visit_list(resources.requests.as_mut(), &at.field("requests"), visit);
}

fn visit_list(list: Option<&mut BTreeMap<String, QuantityText>>, at: &Path, visit: &mut Visit<'_>) {
    for (name, quantity) in list.into_iter().flatten() {
        visit(&at.key(name), Role::Resource, quantity);
    }
}

fn visit_env(variables: Option<&mut [EnvVar]>, at: &Path, visit: &mut Visit<'_>) {
    for (index, variable) in variables.into_iter().flatten().enumerate() {
        let field = variable.value_from.as_mut().and_then(|source| source.resource_field_ref.as_mut());
        if let Some(divisor) = field.and_then(|field| field.divisor.as_mut()) {
            visit(&at.index(index).field("valueFrom.resourceFieldRef.divisor"), Role::Divisor, divisor);
        }
    }
}

fn visit_volume(volume: &mut Volume, at: &Path, visit: &mut Visit<'_>) {
    if let Some(limit) = volume.empty_dir.as_mut().and_then(|source| source.size_limit.as_mut()) {
        visit(&at.field("emptyDir.sizeLimit"), Role::Size, limit);
    }
    let claim = volume.ephemeral.as_mut().and_then(|source| source.volume_claim_template.as_mut());
    if let Some(resources) = claim.and_then(|claim| claim.spec.resources.as_mut()) {
        let at = at.field("ephemeral.volumeClaimTemplate.spec.resources");
        visit_list(resources.limits.as_mut(), &at.field("limits"), visit);
        visit_list(resources.requests.as_mut(), &at.field("requests"), visit);
    }
    for (path, file) in downward_files(volume) {
        if let Some(divisor) = file.resource_field_ref.as_mut().and_then(|field| field.divisor.as_mut()) {
            visit(&path.below(at).field("resourceFieldRef.divisor"), Role::Divisor, divisor);
        }
    }
}

/// The downward API files of a volume, plain or projected, with their path inside it.
fn downward_files(volume: &mut Volume) -> impl Iterator<Item = (Path, &mut DownwardAPIVolumeFile)> {
    let plain =
        volume.downward_api.iter_mut().flat_map(|source| source.items.iter_mut().flatten().enumerate());
    let plain = plain.map(|(index, file)| (Path::root().field("downwardAPI.items").index(index), file));
    let sources =
        volume.projected.iter_mut().flat_map(|projected| projected.sources.iter_mut().flatten().enumerate());
    let projected = sources.flat_map(|(number, source)| {
        let at = Path::root().field("projected.sources").index(number).field("downwardAPI.items");
        let items = source.downward_api.iter_mut().flat_map(|downward| downward.items.iter_mut().flatten());
        items.enumerate().map(move |(index, file)| (at.index(index), file))
    });
    plain.chain(projected)
}
