use std::path::PathBuf;

use k8s_openapi::api::core::v1::Volume;
use model::{NodeSettings, Pod, VolumePlan};
use values::quantity::Amount;

use crate::cgroups::allocatable::allocatable;
use crate::pod_resources::resources::declared_limit;
use crate::quantity::amount_of;

const HUGE_PAGES: &str = "HugePages";
const HUGE_PAGES_OF: &str = "HugePages-";
const HUGE_PAGES_RESOURCE: &str = "hugepages-";

/// Plans an emptyDir by its medium. A volume without a source is an emptyDir.
pub(super) fn plan(
    pod: &Pod,
    volume: &Volume,
    path: PathBuf,
    settings: &NodeSettings,
) -> Result<VolumePlan, String> {
    let source = volume.empty_dir.clone().unwrap_or_default();
    let medium = source.medium.as_deref().unwrap_or_default();
    match medium {
        "" => Ok(VolumePlan::EmptyDir { path }),
        "Memory" => {
            let limit = source.size_limit.as_ref().map(|limit| amount_of(limit).units());
            Ok(VolumePlan::MemoryDir { path, size_limit: memory_size(pod, limit, settings) })
        }
        HUGE_PAGES => {
            page_size(pod, medium, None).map(|page_size| VolumePlan::HugePagesDir { path, page_size })
        }
        _ => match medium.strip_prefix(HUGE_PAGES_OF).and_then(bytes) {
            Some(size) => page_size(pod, medium, Some(size))
                .map(|page_size| VolumePlan::HugePagesDir { path, page_size }),
            None => Err(format!("unknown storage medium {medium:?}")),
        },
    }
}

/// The smallest positive value of the volume's limit, the pod's memory limit and the node's allocatable memory.
pub(super) fn memory_size(pod: &Pod, of_volume: Option<i64>, settings: &NodeSettings) -> Option<u64> {
    let of_node = allocatable(&settings.resources).get("memory").copied();
    let asked = [of_volume, declared_limit(pod, "memory").map(Amount::units), of_node].into_iter().flatten();
    asked
        .filter_map(|bytes| u64::try_from(bytes).ok())
        .chain([settings.memory_capacity])
        .filter(|bytes| *bytes > 0)
        .min()
}

/// The huge page size that containers request; other sizes cannot be used.
fn page_size(pod: &Pod, medium: &str, requested: Option<u64>) -> Result<u64, String> {
    let of_pod = pod.spec.resources.as_ref().and_then(|resources| resources.requests.as_ref());
    let of_containers = pod.containers().filter_map(|entry| entry.container.resources.as_ref());
    let requests =
        of_pod.into_iter().chain(of_containers.filter_map(|resources| resources.requests.as_ref()));
    let mut found = None;
    for name in requests.flat_map(|list| list.keys()) {
        let Some(size) = name.strip_prefix(HUGE_PAGES_RESOURCE).and_then(bytes) else { continue };
        match requested {
            Some(requested) if size != requested => {}
            None if found.is_some_and(|other| other != size) => {
                return Err(format!(
                    "medium: {medium} can't be used if container requests multiple huge page sizes"
                ));
            }
            Some(_) | None => found = Some(size),
        }
    }
    found.ok_or_else(|| {
        format!(
            "medium {medium}: hugePages storage requested, but there is no resource request for huge pages"
        )
    })
}

fn bytes(text: &str) -> Option<u64> {
    u64::try_from(Amount::parse(text)?.units()).ok().filter(|bytes| *bytes > 0)
}
