//! What is looked at, and set, before anything starts.

use std::path::Path;

use anyhow::bail;
use config::Loaded;
use host::{HostPodCgroups, Tunables, kernel_tunables};

use super::with_cause;

pub(super) fn tell_about(loaded: &Loaded) {
    for notice in &loaded.notices {
        tracing::warn!("{notice}");
    }
    let idle = config::without_effect(&loaded.config, &loaded.set_fields);
    if !idle.is_empty() {
        tracing::warn!(fields = idle.join(", "), "configured, but without effect yet");
    }
}

pub(super) fn check_machine(loaded: &Loaded, cgroups: &HostPodCgroups) -> anyhow::Result<()> {
    let config = &loaded.config;
    if cgroups.version() == model::CgroupVersion::V1 {
        if config.cgroups.fail_cgroup_v1 {
            bail!(
                "this machine uses cgroup v1, which is no longer supported by default; set failCgroupV1: false (or --fail-cgroupv1=false) to run all the same"
            );
        }
        tracing::warn!("cgroup v1 is in maintenance mode; move to cgroup v2 when you can");
    }
    if config.pods.fail_swap_on && host::swap_enabled().unwrap_or(false) {
        bail!(
            "running with swap on is not supported, please disable swap or set --fail-swap-on flag to false"
        );
    }
    if let Err(error) = host::set_oom_score_adj(config.cgroups.oom_score_adj) {
        tracing::debug!(%error, "oomScoreAdj cannot be set");
    }
    set_tunables(config.cgroups.protect_kernel_defaults)?;
    host::raise_open_files(u64::try_from(config.cgroups.max_open_files).unwrap_or(0));
    Ok(())
}

/// A machine whose kernel may not be set, such as one in a container, works all the same.
fn set_tunables(protect: bool) -> anyhow::Result<()> {
    let behaviour = if protect { Tunables::Protect } else { Tunables::Set };
    let problems = kernel_tunables(Path::new("/proc/sys"), behaviour);
    if protect && !problems.is_empty() {
        bail!("protectKernelDefaults: {}", problems.join("; "));
    }
    for problem in problems {
        tracing::warn!(%problem, "a kernel setting is not as it should be");
    }
    Ok(())
}

/// Makes the root folder as pods and drivers need it.
pub(super) fn prepare_root(loaded: &Loaded) -> anyhow::Result<()> {
    let root = &loaded.flags.root_dir;
    host::make_root_folder(root, Path::new(&loaded.config.server.pod_logs_dir))
        .map_err(|error| anyhow::anyhow!("{}", with_cause(&error)))?;
    if let Err(error) = host::label_plugin_folders(root) {
        tracing::warn!(error = %with_cause(&error), "drivers without privileges may not work");
    }
    if let Err(error) = host::make_rshared(root) {
        tracing::warn!(root = %root.display(), %error, "mounts below the root folder will not propagate");
    }
    Ok(())
}
