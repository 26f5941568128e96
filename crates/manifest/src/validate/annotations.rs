//! Annotations that mean something: old ways to say what fields say now.

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

/// Checks the annotations a pod gives meaning to, alone and against the fields that replaced them.
pub(super) fn check(
    annotations: Option<&BTreeMap<String, String>>,
    context: &Context<'_>,
    check: &mut Checker,
) {
    let Some(annotations) = annotations else { return };
    let at = Path::root().field("metadata.annotations");
    if let Some(cost) = annotations.get(DELETION_COST)
        && context.strictness.numeric_deletion_cost
        && (cost.parse::<i32>().is_err() || cost.starts_with('+') || cost.starts_with('0') && cost.len() > 1)
    {
        check.invalid(&at.key(DELETION_COST), cost.as_str(), "must be a 32bit integer");
    }
    if let Some(text) = annotations.get(TOLERATIONS).filter(|text| !text.is_empty()) {
        match serde_json::from_str::<Vec<Toleration>>(text) {
            Ok(tolerations) => scheduling::tolerations(&tolerations, &at.key(TOLERATIONS), check),
            Err(error) => check.invalid(&at.key(TOLERATIONS), text.as_str(), &error.to_string()),
        }
    }
    for (key, value) in annotations {
        let at = at.key(key);
        if key == SECCOMP_POD || key.starts_with(SECCOMP_CONTAINER) {
            seccomp_format(value, &at, check);
        }
        if let Some(container) = key.strip_prefix(APPARMOR_CONTAINER) {
            if !context.containers().any(|(_, other)| other.name == container) {
                check.invalid(&at, container, "container not found");
            }
            if !matches!(value.as_str(), "" | "runtime/default" | "unconfined")
                && !value.starts_with(LOCALHOST)
            {
                check.invalid(&at, value.as_str(), "invalid AppArmor profile name");
            }
        }
    }
    fields_match(annotations, context, check);
}

fn seccomp_format(value: &str, at: &Path, check: &mut Checker) {
    match value.strip_prefix(LOCALHOST) {
        Some(path) => check.format(at, path, formats::descending_path(path)),
        None if matches!(value, "runtime/default" | "docker/default" | "unconfined") => {}
        None => check.invalid(at, value, "must be a valid seccomp profile"),
    }
}

fn fields_match(annotations: &BTreeMap<String, String>, context: &Context<'_>, check: &mut Checker) {
    let pod = context.spec.security_context.as_ref();
    let at = Path::root().field("spec.securityContext.seccompProfile");
    seccomp_matches(
        annotations.get(SECCOMP_POD),
        pod.and_then(|pod| pod.seccomp_profile.as_ref()),
        &at,
        check,
    );
    for (at, container) in context.containers() {
        let at = at.field("securityContext");
        let own = container.security_context.as_ref();
        let annotation = annotations.get(&format!("{SECCOMP_CONTAINER}{}", container.name));
        let profile = own.and_then(|own| own.seccomp_profile.as_ref());
        seccomp_matches(annotation, profile, &at.field("seccompProfile"), check);
        let annotation = annotations.get(&format!("{APPARMOR_CONTAINER}{}", container.name));
        let inherited = pod.and_then(|pod| pod.app_armor_profile.as_ref());
        let profile = own.and_then(|own| own.app_armor_profile.as_ref()).or(inherited);
        if context.os() != Some("windows") {
            apparmor_matches(annotation, profile, &at.field("appArmorProfile"), check);
        }
    }
}

fn seccomp_matches(
    annotation: Option<&String>,
    profile: Option<&SeccompProfile>,
    at: &Path,
    check: &mut Checker,
) {
    let (Some(annotation), Some(profile)) = (annotation, profile) else { return };
    let path = profile.localhost_profile.as_deref();
    let defaults = ["runtime/default", "docker/default"];
    matches(annotation, &profile.type_, path, &defaults, at, check);
}

fn apparmor_matches(
    annotation: Option<&String>,
    profile: Option<&AppArmorProfile>,
    at: &Path,
    check: &mut Checker,
) {
    let (Some(annotation), Some(profile)) = (annotation, profile) else { return };
    matches(
        annotation,
        &profile.type_,
        profile.localhost_profile.as_deref(),
        &["runtime/default"],
        at,
        check,
    );
}

fn matches(
    annotation: &str,
    kind: &str,
    path: Option<&str>,
    defaults: &[&str],
    at: &Path,
    check: &mut Checker,
) {
    let local = annotation.strip_prefix(LOCALHOST);
    let is_same_kind = match kind {
        "Unconfined" => annotation == "unconfined",
        "RuntimeDefault" => defaults.contains(&annotation),
        "Localhost" => local.is_some(),
        _ => true,
    };
    if !is_same_kind {
        check.forbidden(&at.field("type"), "the annotation and the field must match");
    } else if kind == "Localhost" && local != path {
        check.forbidden(&at.field("localhostProfile"), "the annotation and the field must match");
    }
}
