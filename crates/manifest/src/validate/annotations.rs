//! Rules for annotations with a meaning, most of which are predecessors of fields.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{AppArmorProfile, SeccompProfile, Toleration};

use super::checker::Checker;
use super::{Context, formats, scheduling};
use crate::path::Path;

const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
const APPARMOR_CONTAINER: &str = "container.apparmor.security.beta.kubernetes.io/";
const LOCALHOST: &str = "localhost/";

/// Checks the annotations and compares them with the fields that replaced them.
pub(super) fn check(
    annotations: Option<&BTreeMap<String, String>>,
    context: &Context<'_>,
    checker: &mut Checker,
) {
    let Some(annotations) = annotations else { return };
    let path = Path::root().field("metadata.annotations");
    if let Some(cost) = annotations.get(DELETION_COST)
        && context.validation_gates.check_deletion_cost
        && (cost.parse::<i32>().is_err() || cost.starts_with('+') || cost.starts_with('0') && cost.len() > 1)
    {
        checker.invalid(&path.key(DELETION_COST), cost.as_str(), "must be a 32bit integer");
    }
    if let Some(text) = annotations.get(TOLERATIONS).filter(|text| !text.is_empty()) {
        match serde_json::from_str::<Vec<Toleration>>(text) {
            Ok(tolerations) => scheduling::check_tolerations(&tolerations, &path.key(TOLERATIONS), checker),
            Err(error) => checker.invalid(&path.key(TOLERATIONS), text.as_str(), &error.to_string()),
        }
    }
    for (key, value) in annotations {
        let path = path.key(key);
        if key == SECCOMP_POD || key.starts_with(SECCOMP_CONTAINER) {
            check_seccomp_format(value, &path, checker);
        }
        if let Some(container) = key.strip_prefix(APPARMOR_CONTAINER) {
            if !context.containers().any(|(_, other)| other.name == container) {
                checker.invalid(&path, container, "container not found");
            }
            if !matches!(value.as_str(), "" | "runtime/default" | "unconfined")
                && !value.starts_with(LOCALHOST)
            {
                checker.invalid(&path, value.as_str(), "invalid AppArmor profile name");
            }
        }
    }
    check_annotations_match_fields(annotations, context, checker);
}

fn check_seccomp_format(value: &str, path: &Path, checker: &mut Checker) {
    match value.strip_prefix(LOCALHOST) {
        Some(profile) => checker.format(path, profile, formats::local_path(profile)),
        None if matches!(value, "runtime/default" | "docker/default" | "unconfined") => {}
        None => checker.invalid(path, value, "must be a valid seccomp profile"),
    }
}

fn check_annotations_match_fields(
    annotations: &BTreeMap<String, String>,
    context: &Context<'_>,
    checker: &mut Checker,
) {
    let pod = context.spec.security_context.as_ref();
    let path = Path::root().field("spec.securityContext.seccompProfile");
    check_seccomp_matches(
        annotations.get(SECCOMP_POD),
        pod.and_then(|pod| pod.seccomp_profile.as_ref()),
        &path,
        checker,
    );
    for (path, container) in context.containers() {
        let path = path.field("securityContext");
        let container_context = container.security_context.as_ref();
        let annotation = annotations.get(&format!("{SECCOMP_CONTAINER}{}", container.name));
        let profile =
            container_context.and_then(|container_context| container_context.seccomp_profile.as_ref());
        check_seccomp_matches(annotation, profile, &path.field("seccompProfile"), checker);
        let annotation = annotations.get(&format!("{APPARMOR_CONTAINER}{}", container.name));
        let inherited = pod.and_then(|pod| pod.app_armor_profile.as_ref());
        let profile = container_context
            .and_then(|container_context| container_context.app_armor_profile.as_ref())
            .or(inherited);
        if context.os() != Some("windows") {
            check_apparmor_matches(annotation, profile, &path.field("appArmorProfile"), checker);
        }
    }
}

fn check_seccomp_matches(
    annotation: Option<&String>,
    profile: Option<&SeccompProfile>,
    path: &Path,
    checker: &mut Checker,
) {
    let (Some(annotation), Some(profile)) = (annotation, profile) else { return };
    let localhost_profile = profile.localhost_profile.as_deref();
    let defaults = ["runtime/default", "docker/default"];
    check_profile_matches(annotation, &profile.type_, localhost_profile, &defaults, path, checker);
}

fn check_apparmor_matches(
    annotation: Option<&String>,
    profile: Option<&AppArmorProfile>,
    path: &Path,
    checker: &mut Checker,
) {
    let (Some(annotation), Some(profile)) = (annotation, profile) else { return };
    check_profile_matches(
        annotation,
        &profile.type_,
        profile.localhost_profile.as_deref(),
        &["runtime/default"],
        path,
        checker,
    );
}

fn check_profile_matches(
    annotation: &str,
    kind: &str,
    localhost_profile: Option<&str>,
    defaults: &[&str],
    path: &Path,
    checker: &mut Checker,
) {
    let annotated_profile = annotation.strip_prefix(LOCALHOST);
    let is_same_kind = match kind {
        "Unconfined" => annotation == "unconfined",
        "RuntimeDefault" => defaults.contains(&annotation),
        "Localhost" => annotated_profile.is_some(),
        _ => true,
    };
    if !is_same_kind {
        checker.forbidden(&path.field("type"), "the annotation and the field must match");
    } else if kind == "Localhost" && annotated_profile != localhost_profile {
        checker.forbidden(&path.field("localhostProfile"), "the annotation and the field must match");
    }
}
