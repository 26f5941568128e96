//! Rules for seccomp and AppArmor profiles.

use k8s_openapi::api::core::v1::{AppArmorProfile, SeccompProfile};

use super::field::Field;
use super::formats;

const TYPES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];
/// Maximum path length on Linux, without the terminating NUL.
const MAX_PATH_LENGTH: usize = 4095;

pub(super) fn check_seccomp(profile: &SeccompProfile, at: &Field<'_>) {
    let localhost_profile = profile.localhost_profile.as_deref();
    check_type_and_path("seccompProfile", &profile.type_, localhost_profile, at);
    if let (Some(localhost_profile), "Localhost") = (localhost_profile, profile.type_.as_str()) {
        at.field("localhostProfile").format(localhost_profile, formats::local_path);
    }
}

pub(super) fn check_apparmor(profile: &AppArmorProfile, at: &Field<'_>) {
    let localhost_profile = profile.localhost_profile.as_deref();
    check_type_and_path("appArmorProfile", &profile.type_, localhost_profile, at);
    let (Some(localhost_profile), "Localhost") = (localhost_profile, profile.type_.as_str()) else { return };
    let at = at.field("localhostProfile");
    if localhost_profile.is_empty() {
        at.required("must be set when the type is Localhost");
    } else if localhost_profile.trim() != localhost_profile {
        at.invalid(localhost_profile, "must not be padded with whitespace");
    }
    if localhost_profile.len() > MAX_PATH_LENGTH {
        at.too_long(MAX_PATH_LENGTH);
    }
}

fn check_type_and_path(field: &str, kind: &str, localhost_profile: Option<&str>, at: &Field<'_>) {
    if kind.is_empty() {
        at.field("type").required(&format!("type is required when {field} is set"));
    } else {
        at.field("type").one_of(kind, &TYPES);
    }
    let at = at.field("localhostProfile");
    match (kind, localhost_profile) {
        ("Localhost", None) => at.required("must be set when the type is Localhost"),
        ("Localhost", Some(_)) | (_, None) => {}
        (_, Some(localhost_profile)) => {
            at.invalid(localhost_profile, "can only be set when the type is Localhost");
        }
    }
}
