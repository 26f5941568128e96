//! Which credentials are tried for an image, and in which order.
//!
//! Each source of credentials (pull secrets of the pod, files of the node, provider programs) has entries for locations. Matching
//! entries are tried in order, the most specific location first.

mod docker_config;
mod files_hash;
mod location;
mod provider;

use std::collections::BTreeMap;

use model::{CredentialFile, CredentialFileForm, CredentialOrigin, ImageAuth, RegistryCredential};

pub use docker_config::{InvalidDockerConfig, read_config_json, read_dockercfg, read_secret};
pub use files_hash::files_hash;
pub use location::locations_match;
pub use provider::{
    CacheScope, ProviderResponse, ProviderResponseError, cache_keys, cache_owner, handles_image,
    passed_annotations, read_response, write_request,
};

/// Location of credentials for the default registry.
const DEFAULT_REGISTRY_KEY: &str = "index.docker.io";

/// The entries that match a repository (registry and path, no tag), in the order of attempts.
pub fn matching<'a>(entries: &'a [RegistryCredential], repository: &str) -> Vec<&'a RegistryCredential> {
    let mut by_key: BTreeMap<String, Vec<&RegistryCredential>> = BTreeMap::new();
    for entry in entries {
        if let Some(key) = location::key(&entry.location) {
            by_key.entry(key).or_default().push(entry);
        }
    }
    // Reverse order puts longer paths before their prefixes.
    let found: Vec<&RegistryCredential> = by_key
        .iter()
        .rev()
        .filter(|(key, _)| locations_match(key, repository))
        .flat_map(|(_, entries)| entries.iter().copied())
        .collect();
    if found.is_empty() && location::is_default_registry(repository) {
        return by_key.remove(DEFAULT_REGISTRY_KEY).unwrap_or_default();
    }
    found
}

/// The entries of the first valid file; every `config.json` comes before every `.dockercfg`.
pub fn first_readable(files: &[CredentialFile]) -> Vec<RegistryCredential> {
    let of_form = |form: CredentialFileForm| files.iter().filter(move |file| file.form == form);
    of_form(CredentialFileForm::ConfigJson)
        .chain(of_form(CredentialFileForm::Dockercfg))
        .find_map(|file| match file.form {
            CredentialFileForm::ConfigJson => read_config_json(&file.content, &CredentialOrigin::Node).ok(),
            CredentialFileForm::Dockercfg => read_dockercfg(&file.content, &CredentialOrigin::Node).ok(),
        })
        .unwrap_or_default()
}

pub fn image_auth(credential: &RegistryCredential) -> ImageAuth {
    ImageAuth {
        username: credential.username.clone(),
        password: credential.password.clone(),
        ..ImageAuth::default()
    }
}

#[cfg(test)]
mod tests;
