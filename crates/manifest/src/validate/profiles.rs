//! Seccomp and AppArmor profiles.

use k8s_openapi::api::core::v1::{AppArmorProfile, SeccompProfile};

use super::checker::Checker;
use super::formats;
use crate::path::Path;

const TYPES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];
/// The longest path Linux takes, without its terminator.
const PATH_LIMIT: usize = 4095;

/// Checks a seccomp profile.
pub(super) fn seccomp(profile: Option<&SeccompProfile>, at: &Path, check: &mut Checker) {
    let Some(profile) = profile else { return };
    let path = profile.localhost_profile.as_deref();
    type_and_path("seccompProfile", &profile.type_, path, at, check);
    if let (Some(path), "Localhost") = (path, profile.type_.as_str()) {
        check.format(&at.field("localhostProfile"), path, formats::descending_path(path));
    }
}

/// Checks an AppArmor profile.
pub(super) fn apparmor(profile: Option<&AppArmorProfile>, at: &Path, check: &mut Checker) {
    let Some(profile) = profile else { return };
    let path = profile.localhost_profile.as_deref();
    type_and_path("appArmorProfile", &profile.type_, path, at, check);
    let (Some(path), "Localhost") = (path, profile.type_.as_str()) else { return };
    let at = at.field("localhostProfile");
    if path.is_empty() {
        check.required(&at, "must be set when the type is Localhost");
    } else if path.trim() != path {
        check.invalid(&at, path, "must not be padded with whitespace");
    }
    if path.len() > PATH_LIMIT {
        check.too_long(&at, PATH_LIMIT);
    }
}

fn type_and_path(field: &str, kind: &str, path: Option<&str>, at: &Path, check: &mut Checker) {
    if kind.is_empty() {
        check.required(&at.field("type"), &format!("type is required when {field} is set"));
    } else {
        check.one_of(&at.field("type"), kind, &TYPES);
    }
    let at = at.field("localhostProfile");
    match (kind, path) {
        ("Localhost", None) => check.required(&at, "must be set when the type is Localhost"),
        ("Localhost", Some(_)) | (_, None) => {}
        (_, Some(path)) => check.invalid(&at, path, "can only be set when the type is Localhost"),
    }
}
