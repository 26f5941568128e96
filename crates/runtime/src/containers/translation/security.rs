//! Capabilities, filters and labels of a container.

use std::collections::BTreeSet;

use cri::v1::security_profile::ProfileType;
use cri::v1::{LinuxContainerSecurityContext, SecurityProfile};

use super::TranslationInput;
use crate::errors::{ServiceError, describe};
use crate::launcher::capabilities::{Capability, requested_set};
use crate::launcher::seccomp::{Filter, Profile, default_profile};
use crate::launcher::{NewPrivileges, SecurityLabel};

const SECCOMP: &str = "seccomp";
const APPARMOR: &str = "apparmor";
/// Name of the AppArmor profile for containers that name none, as in containerd.
pub(crate) const DEFAULT_APPARMOR_PROFILE: &str = "cri-containerd.apparmor.d";

/// AppArmor of this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AppArmorHost {
    pub(crate) enabled: bool,
    /// Names of the loaded profiles.
    pub(crate) profiles: BTreeSet<String>,
}

pub(super) struct Confinement {
    pub(super) capabilities: BTreeSet<Capability>,
    pub(super) new_privileges: NewPrivileges,
    pub(super) seccomp: Option<Filter>,
    pub(super) label: SecurityLabel,
}

pub(super) fn confinement(
    input: &TranslationInput<'_>,
    security: &LinuxContainerSecurityContext,
) -> Result<Confinement, ServiceError> {
    let changes = security.capabilities.clone().unwrap_or_default();
    let capabilities = if security.privileged {
        input.held.clone()
    } else {
        requested_set(&changes.add_capabilities, &changes.drop_capabilities, input.held)
    };
    let seccomp = filter(&seccomp_choice(security)?, &capabilities, input.seccomp_profile.as_deref())?;
    Ok(Confinement {
        new_privileges: match security.no_new_privs {
            true => NewPrivileges::Forbidden,
            false => NewPrivileges::Allowed,
        },
        label: apparmor_label(security, &input.apparmor)?,
        seccomp,
        capabilities,
    })
}

/// The seccomp profile that a request chooses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SeccompChoice {
    Unconfined,
    RuntimeDefault,
    /// The path of a profile file.
    File(String),
}

pub(crate) fn seccomp_choice(
    security: &LinuxContainerSecurityContext,
) -> Result<SeccompChoice, ServiceError> {
    if security.privileged {
        return Ok(SeccompChoice::Unconfined);
    }
    let choice = match (&security.seccomp, security.seccomp_profile_path.as_str()) {
        (Some(profile), _) => profile_choice(SECCOMP, profile)?,
        (None, "" | "unconfined") => return Ok(SeccompChoice::Unconfined),
        (None, "runtime/default" | "docker/default") => return Ok(SeccompChoice::RuntimeDefault),
        (None, path) => match path.strip_prefix("localhost/") {
            Some(path) => ProfileChoice::Localhost(path.to_owned()),
            None => {
                let problem = format!("{path:?} is not a known profile");
                return Err(ServiceError::setting("seccomp_profile_path", problem));
            }
        },
    };
    match choice {
        ProfileChoice::Unconfined => Ok(SeccompChoice::Unconfined),
        ProfileChoice::RuntimeDefault => Ok(SeccompChoice::RuntimeDefault),
        ProfileChoice::Localhost(path) if path.starts_with('/') => Ok(SeccompChoice::File(path)),
        ProfileChoice::Localhost(path) => {
            Err(ServiceError::setting(SECCOMP, format!("{path:?} is not an absolute path")))
        }
    }
}

enum ProfileChoice {
    Unconfined,
    RuntimeDefault,
    Localhost(String),
}

fn profile_choice(field: &'static str, profile: &SecurityProfile) -> Result<ProfileChoice, ServiceError> {
    let kind = ProfileType::try_from(profile.profile_type).map_err(|_| {
        ServiceError::setting(field, format!("unknown kind of profile {}", profile.profile_type))
    })?;
    match (kind, profile.localhost_ref.as_str()) {
        (ProfileType::Localhost, "") => Err(ServiceError::setting(field, "it names no profile")),
        (ProfileType::Localhost, name) => Ok(ProfileChoice::Localhost(name.to_owned())),
        (ProfileType::RuntimeDefault, "") => Ok(ProfileChoice::RuntimeDefault),
        (ProfileType::Unconfined, "") => Ok(ProfileChoice::Unconfined),
        (ProfileType::RuntimeDefault | ProfileType::Unconfined, _) => {
            Err(ServiceError::setting(field, "only the kind Localhost has a name"))
        }
    }
}

fn filter(
    choice: &SeccompChoice,
    capabilities: &BTreeSet<Capability>,
    file: Option<&[u8]>,
) -> Result<Option<Filter>, ServiceError> {
    let problem = |error: &dyn std::error::Error| ServiceError::setting(SECCOMP, describe(error));
    let profile = match choice {
        SeccompChoice::Unconfined => return Ok(None),
        SeccompChoice::RuntimeDefault => default_profile(capabilities).map_err(|error| problem(&error))?,
        SeccompChoice::File(path) => {
            let text = file.ok_or_else(|| ServiceError::setting(SECCOMP, format!("{path} was not read")))?;
            Profile::from_json(text).map_err(|error| problem(&error))?
        }
    };
    Filter::compile(&profile).map(Some).map_err(|error| problem(&error))
}

/// The AppArmor profile that a request chooses; none if it does not choose.
fn apparmor_choice(security: &LinuxContainerSecurityContext) -> Result<Option<ProfileChoice>, ServiceError> {
    if security.privileged {
        return Ok(Some(ProfileChoice::Unconfined));
    }
    Ok(match (&security.apparmor, security.apparmor_profile.as_str()) {
        (Some(profile), _) => Some(profile_choice(APPARMOR, profile)?),
        (None, "") => None,
        (None, "runtime/default") => Some(ProfileChoice::RuntimeDefault),
        (None, "unconfined") => Some(ProfileChoice::Unconfined),
        (None, name) => Some(ProfileChoice::Localhost(name.to_owned())),
    })
}

/// Whether the container gets the default profile of AppArmor, where there is AppArmor.
pub(crate) fn needs_default_profile(security: &LinuxContainerSecurityContext) -> Result<bool, ServiceError> {
    Ok(matches!(apparmor_choice(security)?, None | Some(ProfileChoice::RuntimeDefault)))
}

fn apparmor_label(
    security: &LinuxContainerSecurityContext,
    host: &AppArmorHost,
) -> Result<SecurityLabel, ServiceError> {
    let named = match apparmor_choice(security)? {
        Some(ProfileChoice::Unconfined) => return Ok(SecurityLabel::None),
        None if !host.enabled => return Ok(SecurityLabel::None),
        None | Some(ProfileChoice::RuntimeDefault) => DEFAULT_APPARMOR_PROFILE.to_owned(),
        Some(ProfileChoice::Localhost(name)) => name.strip_prefix("localhost/").unwrap_or(&name).to_owned(),
    };
    if !host.enabled {
        return Err(ServiceError::setting(APPARMOR, "AppArmor is not enabled on this machine"));
    }
    if !host.profiles.contains(&named) {
        return Err(ServiceError::setting(APPARMOR, format!("the profile {named:?} is not loaded")));
    }
    Ok(SecurityLabel::AppArmor(named))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seccomp(kind: ProfileType, name: &str) -> LinuxContainerSecurityContext {
        LinuxContainerSecurityContext {
            seccomp: Some(SecurityProfile { profile_type: kind.into(), localhost_ref: name.into() }),
            ..LinuxContainerSecurityContext::default()
        }
    }

    #[test]
    fn seccomp_field_wins_over_the_deprecated_path() {
        let choice = |security: &LinuxContainerSecurityContext| seccomp_choice(security).ok();
        let old = |path: &str| LinuxContainerSecurityContext {
            seccomp_profile_path: path.into(),
            ..LinuxContainerSecurityContext::default()
        };
        let cases = [
            (old(""), Some(SeccompChoice::Unconfined)),
            (old("runtime/default"), Some(SeccompChoice::RuntimeDefault)),
            (old("localhost//p.json"), Some(SeccompChoice::File("/p.json".into()))),
            (old("what"), None),
            (seccomp(ProfileType::RuntimeDefault, ""), Some(SeccompChoice::RuntimeDefault)),
            (seccomp(ProfileType::RuntimeDefault, "x"), None),
            (seccomp(ProfileType::Localhost, "/p.json"), Some(SeccompChoice::File("/p.json".into()))),
            (seccomp(ProfileType::Localhost, "p.json"), None),
            (seccomp(ProfileType::Localhost, ""), None),
            (
                LinuxContainerSecurityContext {
                    privileged: true,
                    ..seccomp(ProfileType::Localhost, "/p.json")
                },
                Some(SeccompChoice::Unconfined),
            ),
            (
                LinuxContainerSecurityContext {
                    seccomp_profile_path: "unconfined".into(),
                    ..seccomp(ProfileType::RuntimeDefault, "")
                },
                Some(SeccompChoice::RuntimeDefault),
            ),
        ];
        for (security, expected) in cases {
            assert_eq!(choice(&security), expected, "{security:?}");
        }
    }

    #[test]
    fn apparmor_profile_must_be_loaded() {
        let named = |kind: ProfileType, name: &str| LinuxContainerSecurityContext {
            apparmor: Some(SecurityProfile { profile_type: kind.into(), localhost_ref: name.into() }),
            ..LinuxContainerSecurityContext::default()
        };
        let none = LinuxContainerSecurityContext::default();
        let absent = AppArmorHost::default();
        let profiles = ["web".to_owned(), DEFAULT_APPARMOR_PROFILE.to_owned()].into();
        let present = AppArmorHost { enabled: true, profiles };
        let label = |security: &LinuxContainerSecurityContext, host: &AppArmorHost| {
            apparmor_label(security, host).ok()
        };
        let default = SecurityLabel::AppArmor(DEFAULT_APPARMOR_PROFILE.into());
        assert_eq!(label(&none, &absent), Some(SecurityLabel::None));
        assert_eq!(label(&none, &present), Some(default.clone()));
        assert_eq!(label(&named(ProfileType::RuntimeDefault, ""), &absent), None);
        assert_eq!(label(&named(ProfileType::RuntimeDefault, ""), &present), Some(default));
        assert_eq!(label(&named(ProfileType::Unconfined, ""), &absent), Some(SecurityLabel::None));
        let web = Some(SecurityLabel::AppArmor("web".into()));
        assert_eq!(label(&named(ProfileType::Localhost, "localhost/web"), &present), web);
        assert_eq!(label(&named(ProfileType::Localhost, "other"), &present), None);
    }
}
