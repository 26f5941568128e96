//! Rules for seccomp and AppArmor profiles.

use k8s_openapi::api::core::v1::{AppArmorProfile, SeccompProfile};

use super::checker::Checker;
use super::formats;
use crate::path::Path;

const TYPES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];
/// Maximum path length on Linux, without the terminating NUL.
const MAX_PATH_LENGTH: usize = 4095;

pub(super) fn check_seccomp(profile: Option<&SeccompProfile>, path: &Path, checker: &mut Checker) {
    let Some(profile) = profile else { return };
    let localhost_profile = profile.localhost_profile.as_deref();
    check_type_and_path("seccompProfile", &profile.type_, localhost_profile, path, checker);
    if let (Some(localhost_profile), "Localhost") = (localhost_profile, profile.type_.as_str()) {
        checker.format(
            &path.field("localhostProfile"),
            localhost_profile,
            formats::local_path(localhost_profile),
        );
    }
}

pub(super) fn check_apparmor(profile: Option<&AppArmorProfile>, path: &Path, checker: &mut Checker) {
    let Some(profile) = profile else { return };
    let localhost_profile = profile.localhost_profile.as_deref();
    check_type_and_path("appArmorProfile", &profile.type_, localhost_profile, path, checker);
    let (Some(localhost_profile), "Localhost") = (localhost_profile, profile.type_.as_str()) else { return };
    let path = path.field("localhostProfile");
    if localhost_profile.is_empty() {
        checker.required(&path, "must be set when the type is Localhost");
    } else if localhost_profile.trim() != localhost_profile {
        checker.invalid(&path, localhost_profile, "must not be padded with whitespace");
    }
    if localhost_profile.len() > MAX_PATH_LENGTH {
        checker.too_long(&path, MAX_PATH_LENGTH);
    }
}

fn check_type_and_path(
    field: &str,
    kind: &str,
    localhost_profile: Option<&str>,
    path: &Path,
    checker: &mut Checker,
) {
    if kind.is_empty() {
        checker.required(&path.field("type"), &format!("type is required when {field} is set"));
    } else {
        checker.one_of(&path.field("type"), kind, &TYPES);
    }
    let path = path.field("localhostProfile");
    match (kind, localhost_profile) {
        ("Localhost", None) => checker.required(&path, "must be set when the type is Localhost"),
        ("Localhost", Some(_)) | (_, None) => {}
        (_, Some(localhost_profile)) => {
            checker.invalid(&path, localhost_profile, "can only be set when the type is Localhost");
        }
    }
}
