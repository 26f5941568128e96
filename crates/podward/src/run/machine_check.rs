//! Checks and settings of the machine before anything starts.

use std::path::Path;

use anyhow::bail;
use config::LoadedConfig;
use host::{HostPodCgroups, KernelTunableBehaviour, kernel_tunables};

use super::with_cause;

pub(super) fn log_notices(loaded: &LoadedConfig) {
    for notice in &loaded.notices {
        tracing::warn!("{notice}");
    }
    let idle = config::fields_without_effect(&loaded.config, &loaded.set_fields);
    if !idle.is_empty() {
        tracing::warn!(fields = idle.join(", "), "configured, but without effect yet");
    }
}

pub(super) fn check_machine(loaded: &LoadedConfig, cgroups: &HostPodCgroups) -> anyhow::Result<()> {
    let config = &loaded.config;
    if cgroups.version() == model::CgroupVersion::V1 {
        if config.cgroups.fail_cgroup_v1 {
            bail!(
                "this machine uses cgroup v1, which is no longer supported by default; set failCgroupV1: false (or --fail-cgroupv1=false) to run anyway"
            );
        }
        tracing::warn!("cgroup v1 is in maintenance mode, please migrate to cgroup v2");
    }
    if config.pods.fail_swap_on && host::swap_enabled().unwrap_or(false) {
        bail!(
            "running with swap on is not supported, please disable swap or set --fail-swap-on flag to false"
        );
    }
    if let Err(error) = host::set_oom_score_adj(config.cgroups.oom_score_adj) {
        tracing::debug!(%error, "failed to set oomScoreAdj");
    }
    set_tunables(config.cgroups.protect_kernel_defaults)?;
    host::raise_open_file_limit(u64::try_from(config.cgroups.max_open_files).unwrap_or(0));
    Ok(())
}

/// Sets the kernel tunables. Failures are only logged unless `protectKernelDefaults` is set, because containers may not
/// change them.
fn set_tunables(protect: bool) -> anyhow::Result<()> {
    let behaviour = if protect { KernelTunableBehaviour::Protect } else { KernelTunableBehaviour::Set };
    let problems = kernel_tunables(Path::new("/proc/sys"), behaviour);
    if protect && !problems.is_empty() {
        bail!("protectKernelDefaults: {}", problems.join("; "));
    }
    for problem in problems {
        tracing::warn!(%problem, "kernel tunable has an unexpected value");
    }
    Ok(())
}

/// Creates the root folder with the labels and mount propagation that pods and drivers need.
pub(super) fn prepare_root(loaded: &LoadedConfig) -> anyhow::Result<()> {
    let root = &loaded.flags.root_dir;
    host::make_root_folder(root, Path::new(&loaded.config.server.pod_logs_dir))
        .map_err(|error| anyhow::anyhow!("{}", with_cause(&error)))?;
    if let Err(error) = host::label_plugin_folders(root) {
        tracing::warn!(error = %with_cause(&error), "failed to label plugin folders, unprivileged drivers may not work");
    }
    if let Err(error) = host::make_rshared(root) {
        tracing::warn!(root = %root.display(), %error, "failed to make the root folder a shared mount, mounts below it will not propagate");
    }
    Ok(())
}
