//! With which SELinux label a volume is mounted, so that a runtime need not go through its files.
//!
//! What containers ask for becomes a label of files ([`file_label`]), the labels of all containers of a pod a wish
//! ([`wish`]), the wish and what the plugin can do a label to mount with ([`settle`]), and that label is held against the
//! one by which other pods of the node have the volume ([`join`]), and against what is mounted ([`way`]).
//!
//! A label keeps the spelling of its pod: upstream, which a node may be switched back to, writes it down like that and
//! compares letters. Here one label in two spellings is one ([`same_label`]).

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::SELinuxOptions;
use model::{
    ContainerLabels, CsiLifecycle, LabelChange, LabelReach, LabelWish, NodeSettings, Pod, VolumeLabel,
    VolumePlan, same_label,
};

use super::ClaimedVolume;
use super::csi::volume_in_use;

/// The file label for a container with these options; empty if it is not known before the container runs, because the
/// level is left to the runtime, or nothing is asked for.
///
/// # Errors
/// When the policy or the options have what cannot be part of a label.
pub fn file_label(policy: &ContainerLabels, options: &SELinuxOptions) -> Result<String, String> {
    let given = |field: &Option<String>| field.clone().filter(|text| !text.is_empty());
    let (user, level) = (given(&options.user), given(&options.level));
    // Role and type are those of the process; its files have the policy's.
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
        // Upstream mounts with a level drawn by lot, which the container, whose runtime draws another, may not read.
        (None, Some(_), _) => return Ok(String::new()),
        (None, None, level) => level.map(str::to_owned),
    };
    let user = user.unwrap_or_else(|| file.user.to_owned());
    for part in [Some(user.as_str()), level.as_deref()].into_iter().flatten() {
        // It stands between quotes in a list of mount options.
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

/// What a pod wants of the labels of a volume; `claimed` is what stands behind a claim.
#[must_use]
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
    VolumeLabel::Wanted(Box::new(LabelWish {
        volume: name.unwrap_or(volume).to_owned(),
        labels: container_labels(pod, volume, policy),
        change,
        reach: reach(modes, settings),
        access_mode: access_mode(modes),
    }))
}

/// The file labels of all containers that mount a volume and ask for a label, privileged ones too; each once, in the
/// spelling of the first that has it.
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

/// The access modes of a PersistentVolume; none for a pod's own volume.
fn access_modes<'a>(plan: &'a VolumePlan, claimed: Option<&'a ClaimedVolume>) -> Option<&'a [String]> {
    match (plan, claimed) {
        // A pod's own volume of a kind that became a driver's stands for a PersistentVolume.
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

/// How metrics call the widest of these access modes.
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
    /// It passes `context` on to the mount.
    Supports,
    /// It cannot.
    Ignores,
}

/// A label that does not go together with others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// What is wrong.
    pub class: ComplaintClass,
    /// In words.
    pub message: String,
}

/// What is wrong with a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComplaintClass {
    /// That of one container cannot be told.
    Container,
    /// Containers of the pod differ.
    Pod,
    /// Pods differ.
    Volume,
}

/// What comes of a wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// The label, for comparing; empty for none.
    pub label: String,
    /// What the volume is mounted with.
    pub mount: Option<String>,
    /// Whether it is held against other pods'.
    pub is_compared: bool,
    /// What would be refused if the feature reached the volume.
    pub warning: Option<Complaint>,
}

/// The label that a volume is mounted with for a pod.
///
/// # Errors
/// When its containers ask for what cannot be; the pod waits.
pub fn settle(wish: &LabelWish, plugin: Plugin) -> Result<Settled, Complaint> {
    let can = plugin == Plugin::Supports;
    let complaint = |class, message| Complaint { class, message };
    let (label, warning, is_compared) = match &wish.labels {
        Err(reason) => (String::new(), Some(complaint(ComplaintClass::Container, reason.clone())), can),
        Ok(labels) if labels.len() > 1 => {
            let all: Vec<&str> = labels.iter().map(String::as_str).collect();
            let message = format!("multiple SELinux labels found: {}", all.join(","));
            (String::new(), Some(complaint(ComplaintClass::Pod, message)), false)
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

/// Holds the label of a pod that is new to a volume against that of the first one; what comes back would be refused if
/// the feature reached the volume.
///
/// # Errors
/// When they differ; the pod waits.
pub fn join(wish: &LabelWish, settled: &Settled, first: &str) -> Result<Option<Complaint>, Complaint> {
    if !settled.is_compared || same_label(&settled.label, first) {
        return Ok(None);
    }
    let message =
        format!("conflicting SELinux labels of volume {}: {first:?} and {:?}", wish.volume, settled.label);
    let differs = Complaint { class: ComplaintClass::Volume, message };
    match wish.reach {
        LabelReach::Mounted => Err(differs),
        LabelReach::Counted => Ok(Some(differs)),
    }
}

/// What is known of a volume that a pod wants and does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding<'a> {
    /// The labels that it is mounted with for other pods, an empty one for none.
    pub others: Vec<&'a str>,
    /// Whether another pod has it, or may have it without anybody knowing its label.
    pub is_used: bool,
    /// How it is staged.
    pub staged: StagedLabel<'a>,
}

/// With which label a volume is staged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StagedLabel<'a> {
    /// It is not staged.
    NotStaged,
    /// With this one, empty for none.
    Known(&'a str),
    /// Nobody knows.
    Unknown,
}

/// What stands between a pod and its volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Nothing.
    Free,
    /// It is staged with another label, and nobody uses it.
    Unstage,
    /// Another pod has it with another label.
    Held,
}

/// Whether a volume can be mounted with a label, an empty one for none.
#[must_use]
pub fn way(label: &str, found: &Holding<'_>) -> Way {
    let is_other = |other: &str| !same_label(label, other);
    if found.others.iter().any(|other| is_other(other)) {
        return Way::Held;
    }
    match found.staged {
        StagedLabel::Known(staged) if !is_other(staged) => Way::Free,
        StagedLabel::Known(_) | StagedLabel::Unknown if !found.is_used => Way::Unstage,
        // Whoever has it has it as it is staged.
        StagedLabel::Known(_) if found.others.is_empty() => Way::Held,
        // Pods that know nothing of each other must not wait for each other for ever.
        StagedLabel::NotStaged | StagedLabel::Known(_) | StagedLabel::Unknown => Way::Free,
    }
}

/// The name that all pods of the node know a volume by, and its plugin as metrics call it; `None` for volumes that no
/// plugin mounts with a label.
#[must_use]
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
