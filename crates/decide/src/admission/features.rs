use k8s_openapi::api::core::v1::AppArmorProfile;
use model::{AdmissionSettings, AppArmor, Pod, PodLevelResources, Rejection};

use super::StrictGroups;
use crate::runtime_spec::security::{APPARMOR_ANNOTATION_PREFIX, apparmor};

const OS_LABEL: &str = "kubernetes.io/os";
const OS: &str = "linux";

fn reject(reason: &str, message: impl Into<String>) -> Result<(), Rejection> {
    Err(Rejection::at_admission(reason, message))
}

pub(super) fn check_operating_system(pod: &Pod) -> Result<(), Rejection> {
    let label = pod.metadata.labels.as_ref().and_then(|labels| labels.get(OS_LABEL));
    if label.is_some_and(|label| label != OS) {
        return reject(
            "PodOSSelectorNodeLabelDoesNotMatch",
            "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
        );
    }
    if pod.spec.os.as_ref().is_some_and(|os| os.name != OS) {
        return reject("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS");
    }
    Ok(())
}

pub(super) fn check_groups(pod: &Pod, strict_groups: StrictGroups) -> Result<(), Rejection> {
    let of_pod = pod.spec.security_context.as_ref();
    let policy = of_pod.and_then(|of_pod| of_pod.supplemental_groups_policy.as_deref());
    match (policy, strict_groups) {
        (Some("Strict"), StrictGroups::Unsupported) => reject(
            "SupplementalGroupsPolicyNotSupported",
            "SupplementalGroupsPolicy=Strict is not supported in this node",
        ),
        (_, StrictGroups::Supported | StrictGroups::Unsupported) => Ok(()),
    }
}

/// A pod that has run before is not checked again: its profile was checked at its first admission.
pub(super) fn check_apparmor(pod: &Pod, settings: &AdmissionSettings) -> Result<(), Rejection> {
    let phase = pod.status.phase.as_deref().unwrap_or_default();
    if !matches!(phase, "" | "Pending") || !uses_apparmor(pod) {
        return Ok(());
    }
    if settings.apparmor == AppArmor::Disabled {
        return reject("AppArmor", "Cannot enforce AppArmor: AppArmor is not enabled on the host");
    }
    for entry in pod.containers() {
        if let Err(problem) = apparmor(pod, entry.container) {
            return reject("AppArmor", format!("Cannot enforce AppArmor: {problem}"));
        }
    }
    Ok(())
}

fn uses_apparmor(pod: &Pod) -> bool {
    let confined = |profile: &AppArmorProfile| profile.type_ != "Unconfined";
    let of_pod = pod.spec.security_context.as_ref().and_then(|of_pod| of_pod.app_armor_profile.as_ref());
    let mut annotations = pod.metadata.annotations.iter().flatten();
    of_pod.is_some_and(confined)
        || pod.containers().any(|entry| {
            let own = entry.container.security_context.as_ref();
            own.and_then(|own| own.app_armor_profile.as_ref()).is_some_and(confined)
        })
        || annotations
            .any(|(key, value)| key.starts_with(APPARMOR_ANNOTATION_PREFIX) && value != "unconfined")
}

pub(super) fn check_pod_level_resources(pod: &Pod, settings: &AdmissionSettings) -> Result<(), Rejection> {
    let set = pod.spec.resources.as_ref().is_some_and(|resources| {
        let lists = [resources.requests.as_ref(), resources.limits.as_ref()];
        lists.into_iter().flatten().any(|list| !list.is_empty())
    });
    match settings.pod_level_resources {
        PodLevelResources::Refused if set => {
            reject("PodLevelResourcesNotSupported", "PodLevelResources feature gate is disabled")
        }
        PodLevelResources::Refused | PodLevelResources::Allowed => Ok(()),
    }
}
