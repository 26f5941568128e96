//! The files of configMap, secret, downwardAPI and projected volumes.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use k8s_openapi::api::core::v1::{
    ClusterTrustBundleProjection, DownwardAPIVolumeFile, KeyToPath, PodCertificateProjection,
    ServiceAccountTokenProjection, Volume, VolumeProjection,
};
use model::{
    ConfigObject, NodeSettings, ObjectError, ObjectKey, ObjectKind, Pod, ProjectedFile, ReadCertificates,
    ReadObjects, ReadTokens, ReadTrustBundles,
};
use values::fnv::Fnv64a;

use crate::error_list::aggregate;
use crate::projected::service_account_tokens::{token_owner, token_spec};
use crate::projected::trust_bundles::trust_anchors;
use crate::runtime_spec::environment::fields::{metadata_field, resource_of_container};

const DEFAULT_MODE: i32 = 0o644;
/// Used when the owner of the token is known.
const TOKEN_MODE: i32 = 0o600;

/// Everything that projected files are built from.
#[derive(Clone, Copy, Debug)]
pub struct ProjectedContent<'a> {
    pub pod: &'a Pod,
    pub settings: &'a NodeSettings,
    /// The objects that the pod refers to; an object without an entry does not exist.
    pub objects: &'a ReadObjects,
    /// The requested tokens; `None` on a node without an API server.
    pub tokens: Option<&'a ReadTokens>,
    /// `None` without the gate `ClusterTrustBundleProjection`.
    pub trust_bundles: Option<&'a ReadTrustBundles>,
    /// `None` without the gate `PodCertificateRequest`.
    pub certificates: Option<&'a ReadCertificates>,
}

/// The files of a volume by path. The last source wins if several have the same path.
///
/// # Errors
/// Upstream's message for everything that cannot be projected.
pub fn volume_files(facts: &ProjectedContent<'_>, volume: &Volume) -> Result<Vec<ProjectedFile>, String> {
    let mut files = Files { facts, found: BTreeMap::new(), default_mode: DEFAULT_MODE };
    if let Some(source) = &volume.config_map {
        files.default_mode = source.default_mode.unwrap_or(DEFAULT_MODE);
        files.object(ObjectKind::ConfigMap, &source.name, &source.items, source.optional)?;
    } else if let Some(source) = &volume.secret {
        files.default_mode = source.default_mode.unwrap_or(DEFAULT_MODE);
        let name = source.secret_name.as_deref().unwrap_or_default();
        files.object(ObjectKind::Secret, name, &source.items, source.optional)?;
    } else if let Some(source) = &volume.downward_api {
        files.default_mode = source.default_mode.unwrap_or(DEFAULT_MODE);
        files.downward(source.items.as_deref().unwrap_or_default())?;
    } else if let Some(source) = &volume.projected {
        files.default_mode = source.default_mode.unwrap_or(DEFAULT_MODE);
        let sources = source.sources.iter().flatten().enumerate();
        let problems: Vec<String> = sources
            .filter_map(|(place, source)| files.projection((&volume.name, place), source).err())
            .collect();
        if !problems.is_empty() {
            return Err(aggregate(&problems));
        }
    }
    Ok(files.found.into_values().collect())
}

/// A hash of the files.
pub fn digest(files: &[ProjectedFile]) -> u64 {
    let mut hash = Fnv64a::new();
    for file in files {
        hash.write_with_length(file.path.as_os_str().as_encoded_bytes());
        hash.write_with_length(&file.content);
        hash.write_with_length(&file.mode.to_le_bytes());
    }
    hash.finish()
}

struct Files<'a> {
    facts: &'a ProjectedContent<'a>,
    found: BTreeMap<PathBuf, ProjectedFile>,
    default_mode: i32,
}

impl Files<'_> {
    fn add(&mut self, path: &str, content: Vec<u8>, mode: Option<i32>) {
        let path = clean(path);
        let mode = mode.unwrap_or(self.default_mode).unsigned_abs();
        self.found.insert(path.clone(), ProjectedFile { path, content, mode, owner: None });
    }

    /// Adds all keys of a ConfigMap or Secret, or the requested ones.
    fn object(
        &mut self,
        kind: ObjectKind,
        name: &str,
        items: &Option<Vec<KeyToPath>>,
        optional: Option<bool>,
    ) -> Result<(), String> {
        let (items, optional) = (items.as_deref().unwrap_or_default(), optional == Some(true));
        let namespace = self.facts.pod.namespace().to_owned();
        let key = ObjectKey { kind, namespace, name: name.to_owned() };
        let object = match self.facts.objects.get(&key) {
            Some(Ok(object)) => Some(object),
            Some(Err(ObjectError::NotFound(_))) | None if optional => None,
            Some(Err(error)) => return Err(error.to_string()),
            None => return Err(ObjectError::NotFound(key).to_string()),
        };
        if items.is_empty() {
            let all = object.into_iter().flat_map(|object| object.data.iter().chain(&object.binary_data));
            for (key, value) in all {
                self.add(key, value.clone(), None);
            }
            return Ok(());
        }
        let value = |object: &ConfigObject, key: &str| {
            object.data.get(key).or_else(|| object.binary_data.get(key)).cloned()
        };
        for item in items {
            match object.and_then(|object| value(object, &item.key)) {
                Some(value) => self.add(&item.path, value, item.mode),
                None if optional => {}
                None => {
                    return Err(match kind {
                        ObjectKind::ConfigMap => {
                            format!("configmap references non-existent config key: {}", item.key)
                        }
                        ObjectKind::Secret => format!("references non-existent secret key: {}", item.key),
                    });
                }
            }
        }
        Ok(())
    }

    fn downward(&mut self, items: &[DownwardAPIVolumeFile]) -> Result<(), String> {
        let ProjectedContent { pod, settings, .. } = *self.facts;
        let mut problems = Vec::new();
        for item in items {
            let value = match (&item.field_ref, &item.resource_field_ref) {
                (Some(field), _) => metadata_field(pod, &field.field_path),
                (None, Some(field)) => resource_of_container(pod, field, settings),
                (None, None) => Ok(String::new()),
            };
            match value {
                Ok(value) => self.add(&item.path, value.into_bytes(), item.mode),
                Err(problem) => problems.push(problem),
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(aggregate(&problems)) }
    }

    /// With an fsGroup, the volume's setup makes the file readable by that group.
    fn token(&mut self, source: &ServiceAccountTokenProjection, tokens: &ReadTokens) -> Result<(), String> {
        let token = match tokens.get(&token_spec(source)) {
            Some(Ok(token)) => token.token.clone(),
            Some(Err(problem)) => return Err(problem.clone()),
            None => return Err("failed to fetch token: it was not asked for".to_owned()),
        };
        self.add_own(&source.path, token.into_bytes());
        Ok(())
    }

    /// Adds a file that only the token owner can read, if there is one.
    fn add_own(&mut self, path: &str, content: Vec<u8>) {
        let pod = self.facts.pod;
        let owner = token_owner(pod);
        let has_group = pod.spec.security_context.as_ref().is_some_and(|context| context.fs_group.is_some());
        let mode = (owner.is_some() || has_group).then_some(TOKEN_MODE);
        self.add(path, content, mode);
        if let Some(file) = self.found.get_mut(&clean(path)) {
            file.owner = owner;
        }
    }

    fn trust_bundle(
        &mut self,
        source: &ClusterTrustBundleProjection,
        bundles: &ReadTrustBundles,
    ) -> Result<(), String> {
        let bundles = bundles.as_ref().map_err(Clone::clone)?;
        let bundles = bundles.iter().map(AsRef::as_ref);
        let anchors = trust_anchors(source, bundles, &self.facts.pod.uid)?;
        self.add_own(&source.path, anchors.into_bytes());
        Ok(())
    }

    /// Adds key and certificates, in one file or two.
    fn certificate(
        &mut self,
        at: (&str, usize),
        source: &PodCertificateProjection,
        certificates: &ReadCertificates,
    ) -> Result<(), String> {
        let found = match certificates.get(&(at.0.to_owned(), at.1)) {
            Some(found) => found.as_ref().map_err(Clone::clone)?,
            None => return Err("credential bundle is not issued yet".to_owned()),
        };
        let files = [
            (&source.credential_bundle_path, format!("{}{}", found.key, found.chain)),
            (&source.key_path, found.key.clone()),
            (&source.certificate_chain_path, found.chain.clone()),
        ];
        for (path, content) in files {
            if let Some(path) = path.as_deref().filter(|path| !path.is_empty()) {
                self.add_own(path, content.into_bytes());
            }
        }
        Ok(())
    }

    fn projection(&mut self, at: (&str, usize), source: &VolumeProjection) -> Result<(), String> {
        if let Some(source) = &source.secret {
            return self.object(ObjectKind::Secret, &source.name, &source.items, source.optional);
        }
        if let Some(source) = &source.config_map {
            return self.object(ObjectKind::ConfigMap, &source.name, &source.items, source.optional);
        }
        if let Some(source) = &source.downward_api {
            return self.downward(source.items.as_deref().unwrap_or_default());
        }
        if let (Some(source), Some(tokens)) = (&source.service_account_token, self.facts.tokens) {
            return self.token(source, tokens);
        }
        if let (Some(source), Some(bundles)) = (&source.cluster_trust_bundle, self.facts.trust_bundles) {
            return self.trust_bundle(source, bundles);
        }
        if let (Some(source), Some(certificates)) = (&source.pod_certificate, self.facts.certificates) {
            return self.certificate(at, source, certificates);
        }
        let (needs, missing) = if source.service_account_token.is_some() {
            ("serviceAccountToken: a token", "this node has none")
        } else if source.cluster_trust_bundle.is_some() {
            let missing = "this node has none, or its feature gate ClusterTrustBundleProjection is off";
            ("clusterTrustBundle: a trust bundle", missing)
        } else if source.pod_certificate.is_some() {
            let missing = "this node has none, or its feature gate PodCertificateRequest is off";
            ("podCertificate: a certificate", missing)
        } else {
            return Ok(());
        };
        Err(format!("{needs} comes from an API server, and {missing}; remove the source"))
    }
}

/// Removes `.` and duplicate slashes from a path.
fn clean(path: &str) -> PathBuf {
    Path::new(path).components().filter(|part| *part != Component::CurDir).collect()
}

#[cfg(test)]
mod tests;
