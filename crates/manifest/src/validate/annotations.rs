//! Rules for annotations with a meaning, most of which are predecessors of fields.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{AppArmorProfile, SeccompProfile, Toleration};

use super::field::Field;
use super::{Context, formats, scheduling};

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APPARMOR_CONTAINER: &str = "container.apparmor.security.beta.kubernetes.io/";
const LOCALHOST: &str = "localhost/";

/// Checks the annotations and compares them with the fields that replaced them.
pub(super) fn check(annotations: &BTreeMap<String, String>, context: &Context<'_>, at: &Field<'_>) {
    if let Some(cost) = annotations.get(DELETION_COST)
        && context.validation_gates.check_deletion_cost
        && (cost.parse::<i32>().is_err() || cost.starts_with('+') || cost.starts_with('0') && cost.len() > 1)
    {
        at.key(DELETION_COST).invalid(cost.as_str(), "must be a 32bit integer");
    }
    if let Some(text) = annotations.get(TOLERATIONS).filter(|text| !text.is_empty()) {
        match serde_json::from_str::<Vec<Toleration>>(text) {
            Ok(tolerations) => {
                scheduling::check_tolerations(&tolerations, context.validation_gates, &at.key(TOLERATIONS));
            }
            Err(error) => at.key(TOLERATIONS).invalid(text.as_str(), &error.to_string()),
        }
    }
    for (key, value) in annotations {
        let at = at.key(key);
        if key == SECCOMP_POD || key.starts_with(SECCOMP_CONTAINER) {
            check_seccomp_format(value, &at);
        }
        if let Some(container) = key.strip_prefix(APPARMOR_CONTAINER) {
            if !context.containers().any(|(_, other)| other.name == container) {
                at.invalid(container, "container not found");
            }
            if !matches!(value.as_str(), "" | "runtime/default" | "unconfined")
                && !value.starts_with(LOCALHOST)
            {
                at.invalid(value.as_str(), "invalid AppArmor profile name");
            }
        }
    }
    check_annotations_match_fields(annotations, context);
}

fn check_seccomp_format(value: &str, at: &Field<'_>) {
    match value.strip_prefix(LOCALHOST) {
        Some(profile) => at.format(profile, formats::local_path),
        None if matches!(value, "runtime/default" | "docker/default" | "unconfined") => {}
        None => at.invalid(value, "must be a valid seccomp profile"),
    }
}

fn check_annotations_match_fields(annotations: &BTreeMap<String, String>, context: &Context<'_>) {
    let pod = context.spec.security_context.as_ref();
    let at = context.spec_field().field("securityContext.seccompProfile");
    let profile = pod.and_then(|pod| pod.seccomp_profile.as_ref());
    check_seccomp_matches(annotations.get(SECCOMP_POD), profile, &at);
    for (at, container) in context.containers() {
        let at = at.field("securityContext");
        let own = container.security_context.as_ref();
        let annotation = annotations.get(&format!("{SECCOMP_CONTAINER}{}", container.name));
        let profile = own.and_then(|own| own.seccomp_profile.as_ref());
        check_seccomp_matches(annotation, profile, &at.field("seccompProfile"));
        let annotation = annotations.get(&format!("{APPARMOR_CONTAINER}{}", container.name));
        let inherited = pod.and_then(|pod| pod.app_armor_profile.as_ref());
        let profile = own.and_then(|own| own.app_armor_profile.as_ref()).or(inherited);
        if context.os() != Some("windows") {
            check_apparmor_matches(annotation, profile, &at.field("appArmorProfile"));
        }
    }
}

fn check_seccomp_matches(annotation: Option<&String>, profile: Option<&SeccompProfile>, at: &Field<'_>) {
    let (Some(annotation), Some(profile)) = (annotation, profile) else { return };
    let localhost_profile = profile.localhost_profile.as_deref();
    let defaults = ["runtime/default", "docker/default"];
    check_profile_matches(annotation, &profile.type_, localhost_profile, &defaults, at);
}

fn check_apparmor_matches(annotation: Option<&String>, profile: Option<&AppArmorProfile>, at: &Field<'_>) {
    let (Some(annotation), Some(profile)) = (annotation, profile) else { return };
    let localhost_profile = profile.localhost_profile.as_deref();
    check_profile_matches(annotation, &profile.type_, localhost_profile, &["runtime/default"], at);
}

fn check_profile_matches(
    annotation: &str,
    kind: &str,
    localhost_profile: Option<&str>,
    defaults: &[&str],
    at: &Field<'_>,
) {
    let annotated_profile = annotation.strip_prefix(LOCALHOST);
    let is_same_kind = match kind {
        "Unconfined" => annotation == "unconfined",
        "RuntimeDefault" => defaults.contains(&annotation),
        "Localhost" => annotated_profile.is_some(),
        _ => true,
    };
    if !is_same_kind {
        at.field("type").forbidden("the annotation and the field must match");
    } else if kind == "Localhost" && annotated_profile != localhost_profile {
        at.field("localhostProfile").forbidden("the annotation and the field must match");
    }
}
