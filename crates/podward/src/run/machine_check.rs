//! Checks and settings of the machine before anything starts.

use std::path::Path;

use anyhow::{Context as _, bail};
use config::{FeatureGates, Gate, LoadedConfig};
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

/// A guest leaves the settings of the machine alone.
pub(super) fn check_machine(
    loaded: &LoadedConfig,
    cgroups: &HostPodCgroups,
    is_guest: bool,
) -> anyhow::Result<()> {
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
    if !is_guest && let Err(error) = host::set_oom_score_adj(config.cgroups.oom_score_adj) {
        tracing::debug!(%error, "failed to set oomScoreAdj");
    }
    if !is_guest {
        let missing =
            MissingPrivileges::of(&loaded.gates, host::in_user_namespace(Path::new("/proc/self/uid_map")));
        set_tunables(Path::new("/proc/sys"), config.cgroups.protect_kernel_defaults, missing)?;
        check_kernel_log(Path::new("/dev/kmsg"), missing)?;
    }
    host::raise_open_file_limit(u64::try_from(config.cgroups.max_open_files).unwrap_or(0));
    Ok(())
}

/// The reaction to a setting that the machine refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MissingPrivileges {
    /// The agent logs it and continues without.
    Logged,
    /// The agent does not start: it runs in a user namespace without the gate `KubeletInUserNamespace`.
    Refused,
}

impl MissingPrivileges {
    fn of(gates: &FeatureGates, in_user_namespace: bool) -> Self {
        if in_user_namespace && !gates.enabled(Gate::KubeletInUserNamespace) {
            Self::Refused
        } else {
            // Upstream refuses outside of user namespaces, too, although a container may lack the same privileges.
            Self::Logged
        }
    }

    fn hint(self) -> &'static str {
        match self {
            Self::Logged => "",
            Self::Refused => {
                " (this is a user namespace; enable the feature gate KubeletInUserNamespace to run without this)"
            }
        }
    }
}

/// Sets the kernel tunables below `folder`.
fn set_tunables(folder: &Path, protect: bool, missing: MissingPrivileges) -> anyhow::Result<()> {
    let behaviour = if protect { KernelTunableBehaviour::Protect } else { KernelTunableBehaviour::Set };
    let problems = kernel_tunables(folder, behaviour);
    if protect && !problems.is_empty() {
        bail!("protectKernelDefaults: {}", problems.join("; "));
    }
    if missing == MissingPrivileges::Refused && !problems.is_empty() {
        bail!("set kernel tunables: {}{}", problems.join("; "), missing.hint());
    }
    for problem in problems {
        tracing::warn!(%problem, "kernel tunable has an unexpected value");
    }
    Ok(())
}

/// `SystemOOM` events come from the kernel log. If it cannot be read, the OOM watcher logs that once.
fn check_kernel_log(device: &Path, missing: MissingPrivileges) -> anyhow::Result<()> {
    match missing {
        MissingPrivileges::Logged => Ok(()),
        MissingPrivileges::Refused => std::fs::File::open(device)
            .map(drop)
            .with_context(|| format!("open the kernel log {}{}", device.display(), missing.hint())),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_namespace_needs_the_gate_for_what_it_forbids() {
        let with_gate =
            |on: bool| FeatureGates::resolve(&[("KubeletInUserNamespace".to_owned(), on)].into()).gates;
        assert_eq!(MissingPrivileges::of(&with_gate(false), true), MissingPrivileges::Refused);
        assert_eq!(MissingPrivileges::of(&with_gate(true), true), MissingPrivileges::Logged);
        assert_eq!(MissingPrivileges::of(&with_gate(false), false), MissingPrivileges::Logged);
    }

    #[test]
    fn missing_privileges_are_logged_or_stop_the_start() {
        let empty = tempfile::tempdir().unwrap();
        let device = empty.path().join("kmsg");
        let set = |missing| set_tunables(empty.path(), false, missing);
        set(MissingPrivileges::Logged).unwrap();
        check_kernel_log(&device, MissingPrivileges::Logged).unwrap();
        let error = set(MissingPrivileges::Refused).unwrap_err().to_string();
        assert!(error.starts_with("set kernel tunables: read vm/overcommit_memory: "), "{error}");
        assert!(error.contains("feature gate KubeletInUserNamespace"), "{error}");
        let error = check_kernel_log(&device, MissingPrivileges::Refused).unwrap_err().to_string();
        assert!(error.contains("feature gate KubeletInUserNamespace"), "{error}");
        std::fs::write(&device, "").unwrap();
        check_kernel_log(&device, MissingPrivileges::Refused).unwrap();
    }
}
