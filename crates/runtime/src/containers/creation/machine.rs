//! Facts about this machine that the translation needs.

use std::fs;
use std::io::Read;

use cri::v1::LinuxContainerSecurityContext;

use crate::cgroups::{CgroupLayout, ContainerCgroup};
use crate::containers::translation::{CgroupView, SeccompChoice, seccomp_choice};
use crate::errors::ServiceError;
use crate::launcher::CgroupHierarchy;
use crate::launcher::seccomp::MAX_PROFILE_BYTES;

pub(super) fn cgroup_view(layout: &CgroupLayout, cgroup: &ContainerCgroup, privileged: bool) -> CgroupView {
    match layout {
        CgroupLayout::V1 { hierarchies } => {
            let view = |(hierarchy, directory): (&crate::cgroups::Hierarchy, std::path::PathBuf)| {
                let name = hierarchy.mount.file_name()?.to_str()?.to_owned();
                Some(CgroupHierarchy { name, directory })
            };
            CgroupView::V1(hierarchies.iter().zip(cgroup.directories()).filter_map(view).collect())
        }
        // A privileged container sees the node's hierarchy.
        CgroupLayout::V2 { mount } if privileged => CgroupView::V2(mount.clone()),
        CgroupLayout::V2 { mount } => {
            CgroupView::V2(cgroup.directories().into_iter().next().unwrap_or_else(|| mount.clone()))
        }
    }
}

/// The profile file that the request names.
pub(super) fn seccomp_profile(
    security: &LinuxContainerSecurityContext,
) -> Result<Option<Vec<u8>>, ServiceError> {
    let SeccompChoice::File(path) = seccomp_choice(security)? else { return Ok(None) };
    let problem = |error: std::io::Error| ServiceError::setting("seccomp", format!("read {path}: {error}"));
    let mut text = Vec::new();
    let file = fs::File::open(&path).map_err(problem)?;
    file.take(MAX_PROFILE_BYTES as u64 + 1).read_to_end(&mut text).map_err(problem)?;
    Ok(Some(text))
}
