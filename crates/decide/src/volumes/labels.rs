//! The SELinux label that a volume is mounted with, so that the runtime need not relabel its files.
//!
//! SELinux options of containers become a file label ([`file_label`]); the labels of all containers of a pod become a request
//! ([`wish`]); with the capabilities of the plugin, the request becomes a mount label ([`settle`]), which must be equal for all pods of
//! the node that use the volume ([`join`]) and fit the existing mounts ([`way`]).
//!
//! A label keeps the spelling of its pod, because upstream compares recorded labels as text. Within podward, different spellings
//! of one label are equal ([`same_label`]).

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::SELinuxOptions;
use model::{
    ContainerLabels, CsiLifecycle, LabelChange, LabelReach, LabelRequest, NodeSettings, Pod, VolumeLabel,
    VolumePlan, same_label,
};

use super::ClaimedVolume;
use super::csi::volume_in_use;

/// The file label of a container with these options. Empty if no options are set, or if the runtime chooses the level.
///
/// # Errors
/// When the policy or the options are invalid.
pub fn file_label(policy: &ContainerLabels, options: &SELinuxOptions) -> Result<String, String> {
    let given = |field: &Option<String>| field.clone().filter(|text| !text.is_empty());
    let (user, level) = (given(&options.user), given(&options.level));
    // Role and type apply to the process; files use those of the policy.
    let asks = [&options.role, &options.type_].into_iter().any(|field| given(field).is_some());
    if user.is_none() && level.is_none() && !asks {
        return Ok(String::new());
    }
    if policy.process.is_empty() || policy.file.is_empty() {
        return Ok(policy.file.clone());
    }
    let process = Parts::of(&policy.process)?;
    let file = Parts::of(&policy.file)?;
    let level = match (level, process.level, file.level) {
        (Some(level), _, _) => Some(level),
        // Upstream mounts with a random level, which differs from the random level that the runtime chooses.
        (None, Some(_), _) => return Ok(String::new()),
        (None, None, level) => level.map(str::to_owned),
    };
    let user = user.unwrap_or_else(|| file.user.to_owned());
    for part in [Some(user.as_str()), level.as_deref()].into_iter().flatten() {
        // It is quoted in a list of mount options.
        let is_odd =
            |letter: char| matches!(letter, '"' | '\\') || letter.is_whitespace() || letter.is_control();
        if part.contains(is_odd) {
            return Err(format!("{part:?} cannot be part of a label"));
        }
    }
    let level = level.map(|level| format!(":{level}")).unwrap_or_default();
    Ok(format!("{user}:{}:{}{level}", file.role, file.kind))
}

/// `user:role:type:level`.
struct Parts<'a> {
    user: &'a str,
    role: &'a str,
    kind: &'a str,
    level: Option<&'a str>,
}

impl<'a> Parts<'a> {
    fn of(label: &'a str) -> Result<Self, String> {
        let mut parts = label.splitn(4, ':');
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some(user), Some(role), Some(kind), level) => {
                Ok(Self { user, role, kind, level: level.filter(|level| !level.is_empty()) })
            }
            _ => Err(format!("the policy's label {label:?} is invalid")),
        }
    }
}

/// The labels that a pod requests for a volume.
pub fn wish(
    pod: &Pod,
    volume: &str,
    plan: &VolumePlan,
    claimed: Option<&ClaimedVolume>,
    settings: &NodeSettings,
) -> VolumeLabel {
    let Some(policy) = &settings.capabilities.selinux else { return VolumeLabel::None };
    let modes = access_modes(plan, claimed);
    let name = claimed.and_then(|found| found.volume.metadata.name.as_deref());
    let context = pod.spec.security_context.as_ref();
    let change = match context.and_then(|context| context.se_linux_change_policy.as_deref()) {
        Some("Recursive") => LabelChange::Recursive,
        Some(_) | None => LabelChange::Mount,
    };
    VolumeLabel::Requested(Box::new(LabelRequest {
        volume: name.unwrap_or(volume).to_owned(),
        labels: container_labels(pod, volume, policy),
        change,
        reach: reach(modes, settings),
        access_mode: access_mode(modes),
    }))
}

/// The distinct file labels of all containers that mount a volume and set SELinux options, in the spelling of the first one.
/// Privileged containers count as well.
fn container_labels(pod: &Pod, volume: &str, policy: &ContainerLabels) -> Result<BTreeSet<String>, String> {
    let of_pod = pod.spec.security_context.as_ref().and_then(|context| context.se_linux_options.as_ref());
    let mut labels: BTreeSet<String> = BTreeSet::new();
    for entry in pod.all_containers() {
        let own = entry.container.security_context.as_ref();
        let Some(options) = own.and_then(|own| own.se_linux_options.as_ref()).or(of_pod) else { continue };
        if !entry.container.volume_mounts.iter().flatten().any(|mount| mount.name == volume) {
            continue;
        }
        let label = file_label(policy, options).map_err(|reason| {
            format!("failed to construct SELinux label from context {:?}: {reason}", shown(options))
        })?;
        if !labels.iter().any(|known| same_label(known, &label)) {
            labels.insert(label);
        }
    }
    Ok(labels)
}

fn shown(options: &SELinuxOptions) -> String {
    let parts = [&options.user, &options.role, &options.type_, &options.level];
    parts.map(|part| part.as_deref().unwrap_or_default()).join(":")
}

/// The access modes of a PersistentVolume; `None` for an inline volume.
fn access_modes<'a>(plan: &'a VolumePlan, claimed: Option<&'a ClaimedVolume>) -> Option<&'a [String]> {
    match (plan, claimed) {
        // A translated inline volume counts as a PersistentVolume.
        (VolumePlan::Csi(volume), _) if volume.lifecycle == CsiLifecycle::Persistent => {
            Some(&volume.access_modes)
        }
        (_, Some(found)) => {
            let spec = found.volume.spec.as_ref();
            Some(spec.and_then(|spec| spec.access_modes.as_deref()).unwrap_or_default())
        }
        (_, None) => None,
    }
}

fn reach(modes: Option<&[String]>, settings: &NodeSettings) -> LabelReach {
    let is_reached = match modes {
        None => false,
        Some(_) if settings.gates.selinux_mount => true,
        Some(modes) => modes == ["ReadWriteOncePod"],
    };
    if is_reached { LabelReach::Mounted } else { LabelReach::Counted }
}

/// The metric label of the widest access mode.
fn access_mode(modes: Option<&[String]>) -> &'static str {
    let Some(modes) = modes else { return "inline" };
    [
        ("ReadWriteMany", "RWX"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteOnce", "RWO"),
        ("ReadWriteOncePod", "RWOP"),
    ]
    .into_iter()
    .find_map(|(mode, name)| modes.iter().any(|own| own == mode).then_some(name))
    .unwrap_or_default()
}

/// Whether a plugin can mount with a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plugin {
    /// It supports the mount option `context`.
    Supports,
    Ignores,
}

/// A label conflict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelConflict {
    pub class: LabelConflictKind,
    pub message: String,
}

/// Kinds of label conflicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelConflictKind {
    /// The label of a container cannot be determined.
    Container,
    /// Containers of the pod have different labels.
    Pod,
    /// Pods have different labels.
    Volume,
}

/// The mount label of a volume for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// The label for comparisons; empty for none.
    pub label: String,
    /// The label of the mount.
    pub mount: Option<String>,
    /// Whether it must equal the label of other pods.
    pub is_compared: bool,
    /// A conflict that is only counted, because the feature does not apply to this volume.
    pub warning: Option<LabelConflict>,
}

/// The label that a volume is mounted with for a pod.
///
/// # Errors
/// A conflict that blocks the pod.
pub fn settle(wish: &LabelRequest, plugin: Plugin) -> Result<Settled, LabelConflict> {
    let can = plugin == Plugin::Supports;
    let complaint = |class, message| LabelConflict { class, message };
    let (label, warning, is_compared) = match &wish.labels {
        Err(reason) => (String::new(), Some(complaint(LabelConflictKind::Container, reason.clone())), can),
        Ok(labels) if labels.len() > 1 => {
            let all: Vec<&str> = labels.iter().map(String::as_str).collect();
            let message = format!("multiple SELinux labels found: {}", all.join(","));
            (String::new(), Some(complaint(LabelConflictKind::Pod, message)), false)
        }
        Ok(labels) => {
            let is_mounted = can && wish.change == LabelChange::Mount;
            let label = labels.first().filter(|_| is_mounted).cloned().unwrap_or_default();
            (label, None, can)
        }
    };
    match (wish.reach, warning) {
        (LabelReach::Mounted, Some(refused)) => Err(refused),
        (LabelReach::Mounted, None) => {
            let mount = Some(label.clone()).filter(|label| !label.is_empty());
            Ok(Settled { label, mount, is_compared, warning: None })
        }
        (LabelReach::Counted, warning) => Ok(Settled { label, mount: None, is_compared, warning }),
    }
}

/// Compares the label of a new pod with that of the first pod. Returns a conflict that is only counted, because the feature
/// does not apply to this volume.
///
/// # Errors
/// A conflict that blocks the pod.
pub fn join(
    wish: &LabelRequest,
    settled: &Settled,
    first: &str,
) -> Result<Option<LabelConflict>, LabelConflict> {
    if !settled.is_compared || same_label(&settled.label, first) {
        return Ok(None);
    }
    let message =
        format!("conflicting SELinux labels of volume {}: {first:?} and {:?}", wish.volume, settled.label);
    let differs = LabelConflict { class: LabelConflictKind::Volume, message };
    match wish.reach {
        LabelReach::Mounted => Err(differs),
        LabelReach::Counted => Ok(Some(differs)),
    }
}

/// Existing uses of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding<'a> {
    /// Mount labels for other pods; empty for none.
    pub others: Vec<&'a str>,
    /// Whether another pod uses it, or may use it with an unknown label.
    pub is_used: bool,
    pub staged: StagedLabel<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StagedLabel<'a> {
    NotStaged,
    /// Empty for none.
    Known(&'a str),
    Unknown,
}

/// Whether a volume can be mounted now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Free,
    /// It is staged with another label and unused: unstage it first.
    Unstage,
    /// Another pod uses it with another label: wait.
    Held,
}

/// Whether a volume can be mounted with a label; empty for none.
pub fn way(label: &str, found: &Holding<'_>) -> Way {
    let is_other = |other: &str| !same_label(label, other);
    if found.others.iter().any(|other| is_other(other)) {
        return Way::Held;
    }
    match found.staged {
        StagedLabel::Known(staged) if !is_other(staged) => Way::Free,
        StagedLabel::Known(_) | StagedLabel::Unknown if !found.is_used => Way::Unstage,
        // Other pods use it with the staged label.
        StagedLabel::Known(_) if found.others.is_empty() => Way::Held,
        // Two pods with unknown labels must not wait for each other.
        StagedLabel::NotStaged | StagedLabel::Known(_) | StagedLabel::Unknown => Way::Free,
    }
}

/// The node-wide name of a volume, and its plugin as a metric label; `None` for volumes that cannot be mounted with a label.
pub fn shared_name(plan: &VolumePlan) -> Option<(String, String)> {
    match plan {
        VolumePlan::Csi(volume) if volume.lifecycle == CsiLifecycle::Persistent => {
            let name = volume_in_use(&volume.driver, &volume.handle);
            Some((name, format!("kubernetes.io/csi/{}", volume.driver)))
        }
        VolumePlan::Iscsi(disk) => Some((disk.attachment.clone(), "kubernetes.io/iscsi".to_owned())),
        VolumePlan::Fc(disk) => Some((disk.attachment.clone(), "kubernetes.io/fc".to_owned())),
        VolumePlan::Csi(_)
        | VolumePlan::EmptyDir { .. }
        | VolumePlan::MemoryDir { .. }
        | VolumePlan::HugePagesDir { .. }
        | VolumePlan::Files { .. }
        | VolumePlan::Nfs { .. }
        | VolumePlan::Flex(_)
        | VolumePlan::Local { .. }
        | VolumePlan::Device { .. }
        | VolumePlan::Image { .. }
        | VolumePlan::HostPath { .. } => None,
    }
}
