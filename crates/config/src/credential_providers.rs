//! The configuration of the image credential provider plugins: one file, or a directory of files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use document::{Document, FieldPath};
use serde::{Deserialize, Deserializer};
use values::duration::GoDuration;

use crate::files;
use crate::gates::{FeatureGates, Gate};
use crate::problem::{LoadError, Problem};
use crate::validate::is_qualified_name;

const CONFIG_GROUP: &str = "kubelet.config.k8s.io";
const STABLE_VERSION: &str = "credentialprovider.kubelet.k8s.io/v1";
const PLUGIN_VERSIONS: [&str; 3] = [
    STABLE_VERSION,
    "credentialprovider.kubelet.k8s.io/v1alpha1",
    "credentialprovider.kubelet.k8s.io/v1beta1",
];
const CACHE_TYPES: [&str; 2] = ["ServiceAccount", "Token"];

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CredentialProviderSettings {
    /// File name of the plugin in the plugin directory.
    pub name: String,
    /// Patterns of the images that the plugin has credentials for.
    pub match_images: Vec<String>,
    /// Cache duration of responses that do not specify one.
    pub default_cache_duration: GoDuration,
    /// API version of request and response.
    pub api_version: String,
    pub args: Vec<String>,
    #[serde(deserialize_with = "env_map")]
    pub env: BTreeMap<String, String>,
    /// Set if the plugin uses service account tokens.
    #[serde(rename = "tokenAttributes")]
    pub token: Option<ProviderTokenSettings>,
}

/// How a plugin uses service account tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ProviderTokenSettings {
    /// Audience of the tokens.
    #[serde(rename = "serviceAccountTokenAudience")]
    pub audience: String,
    /// `ServiceAccount` or `Token`: the scope in which responses are cached.
    cache_type: String,
    /// Whether the plugin requires a service account.
    #[serde(rename = "requireServiceAccount")]
    pub requires_account: bool,
    /// Annotations that the service account must have.
    #[serde(rename = "requiredServiceAccountAnnotationKeys")]
    pub required_annotations: Vec<String>,
    /// Annotations that are passed to the plugin if they exist.
    #[serde(rename = "optionalServiceAccountAnnotationKeys")]
    pub optional_annotations: Vec<String>,
}

impl ProviderTokenSettings {
    /// Whether responses are cached per token instead of per service account.
    pub fn cache_per_token(&self) -> bool {
        self.cache_type == "Token"
    }
}

/// Loads the providers from a file, or from the `.json`, `.yaml` and `.yml` files of a directory in lexical order.
///
/// # Errors
/// All problems, each with its file, line and field.
pub fn credential_providers(
    path: &Path,
    gates: &FeatureGates,
) -> Result<Vec<CredentialProviderSettings>, LoadError> {
    let mut loader = ProviderLoader::default();
    for file in config_files(path)? {
        loader.load_file(&file, gates)?;
    }
    if loader.providers.is_empty() && loader.problems.is_empty() {
        let field = FieldPath::root().key("providers");
        loader.problems.push(Problem::in_file(path, None, field, "at least one provider is required"));
    }
    if loader.problems.is_empty() {
        Ok(loader.providers)
    } else {
        Err(LoadError::Invalid { problems: loader.problems })
    }
}

/// The contents of the same files in the same order.
///
/// # Errors
/// If a file cannot be read.
pub fn credential_provider_files(path: &Path) -> Result<Vec<Vec<u8>>, LoadError> {
    let read = |file: PathBuf| std::fs::read(&file).map_err(|source| LoadError::Read { path: file, source });
    config_files(path)?.into_iter().map(read).collect()
}

fn config_files(path: &Path) -> Result<Vec<PathBuf>, LoadError> {
    let read_error = |source| LoadError::Read { path: path.to_owned(), source };
    if !std::fs::metadata(path).map_err(read_error)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).map_err(read_error)? {
        let entry = entry.map_err(read_error)?;
        let file = entry.path();
        let is_config = file.extension().is_some_and(|end| end == "json" || end == "yaml" || end == "yml");
        if is_config && !entry.file_type().map_err(read_error)?.is_dir() {
            found.push(file);
        }
    }
    found.sort();
    if found.is_empty() {
        return Err(read_error(std::io::Error::other("the directory contains no .json, .yaml or .yml file")));
    }
    Ok(found)
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConfigFile {
    #[serde(rename = "apiVersion")]
    _api_version: String,
    #[serde(rename = "kind")]
    _kind: String,
    #[serde(default)]
    providers: Vec<CredentialProviderSettings>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct EnvVar {
    name: String,
    value: String,
}

fn env_map<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, String>, D::Error> {
    let variables = Vec::<EnvVar>::deserialize(deserializer)?;
    Ok(variables.into_iter().map(|variable| (variable.name, variable.value)).collect())
}

#[derive(Default)]
struct ProviderLoader {
    providers: Vec<CredentialProviderSettings>,
    names: BTreeSet<String>,
    problems: Vec<Problem>,
}

impl ProviderLoader {
    fn load_file(&mut self, path: &Path, gates: &FeatureGates) -> Result<(), LoadError> {
        let text = files::read(path)?;
        let Some(mut document) = self.parse_document(path, &text) else { return Ok(()) };
        document.drop_nulls();
        let file: ConfigFile = match document.decode_strict() {
            Ok(file) => file,
            Err(errors) => {
                self.problems.extend(errors.into_iter().map(|error| Problem::of_field(path, error)));
                return Ok(());
            }
        };
        for (index, provider) in file.providers.into_iter().enumerate() {
            let field = FieldPath::root().key("providers").index(index);
            let found = self.check(&provider, &document, &field, gates).into_iter();
            self.problems.extend(
                found.map(|(field, reason)| Problem::in_file(path, document.position(&field), field, reason)),
            );
            self.names.insert(provider.name.clone());
            self.providers.push(provider);
        }
        Ok(())
    }

    /// Parses a file, which must contain one document of a supported API version and kind.
    fn parse_document(&mut self, path: &Path, text: &[u8]) -> Option<Document> {
        let mut report = |position, field, reason: String| {
            self.problems.push(Problem::in_file(path, position, field, reason));
        };
        let mut documents = match document::parse(text) {
            Ok(documents) => documents,
            Err(error) => {
                report(Some(error.position), FieldPath::root(), error.reason);
                return None;
            }
        };
        let (Some(document), true) = (documents.pop(), documents.is_empty()) else {
            report(None, FieldPath::root(), "the file must contain exactly one document".to_owned());
            return None;
        };
        let string_field = |name: &str| {
            let field = FieldPath::root().key(name);
            (document.get(&field).and_then(|value| value.as_str()).unwrap_or_default().to_owned(), field)
        };
        let (kind, kind_field) = string_field("kind");
        if kind != "CredentialProviderConfig" {
            let reason = format!("{kind:?} must be \"CredentialProviderConfig\"");
            report(document.position(&kind_field), kind_field, reason);
            return None;
        }
        let (version, field) = string_field("apiVersion");
        if !["v1", "v1beta1", "v1alpha1"].iter().any(|known| version == format!("{CONFIG_GROUP}/{known}")) {
            let reason = format!(
                "{version:?} must be {CONFIG_GROUP}/v1, {CONFIG_GROUP}/v1beta1 or {CONFIG_GROUP}/v1alpha1"
            );
            report(document.position(&field), field, reason);
            return None;
        }
        Some(document)
    }

    fn check(
        &self,
        provider: &CredentialProviderSettings,
        document: &Document,
        path: &FieldPath,
        gates: &FeatureGates,
    ) -> Vec<(FieldPath, String)> {
        let mut problems = Vec::new();
        let mut report = |field: &str, reason: String| problems.push((path.clone().key(field), reason));
        let name = &provider.name;
        match name.as_str() {
            "" | "." | ".." => report("name", format!("{name:?} is not a valid file name of a plugin")),
            _ if name.contains(['/', ' ']) => {
                report("name", format!("{name:?} must not contain slashes or spaces"));
            }
            _ if self.names.contains(name) => {
                report("name", format!("{name:?} is already the name of another provider"));
            }
            _ => {}
        }
        if !PLUGIN_VERSIONS.contains(&provider.api_version.as_str()) {
            let found = &provider.api_version;
            report("apiVersion", format!("{found:?} must be one of {}", PLUGIN_VERSIONS.join(", ")));
        }
        if provider.match_images.is_empty() {
            report("matchImages", "at least one image is required".to_owned());
        }
        for image in provider.match_images.iter().filter(|image| !is_image_pattern(image)) {
            report("matchImages", format!("{image:?} is not a valid registry or image pattern"));
        }
        let duration = provider.default_cache_duration;
        if document.get(&path.clone().key("defaultCacheDuration")).is_none() {
            report("defaultCacheDuration", "required field is missing".to_owned());
        } else if duration.is_negative() {
            report("defaultCacheDuration", format!("{duration} must not be negative"));
        }
        if let Some(token) = &provider.token {
            let path = path.clone().key("tokenAttributes");
            problems.extend(check_token(token, document, &path));
            if provider.api_version != STABLE_VERSION {
                let reason = format!("requires the provider's apiVersion to be {STABLE_VERSION}");
                problems.push((path.clone(), reason));
            }
            if !gates.enabled(Gate::KubeletServiceAccountTokenForCredentialProviders) {
                let reason =
                    "requires feature gate KubeletServiceAccountTokenForCredentialProviders to be enabled";
                problems.push((path, reason.to_owned()));
            }
        }
        problems
    }
}

fn check_token(
    token: &ProviderTokenSettings,
    document: &Document,
    path: &FieldPath,
) -> Vec<(FieldPath, String)> {
    let mut problems = Vec::new();
    let mut report = |field: &str, reason: String| problems.push((path.clone().key(field), reason));
    if token.audience.is_empty() {
        report("serviceAccountTokenAudience", "required field is missing".to_owned());
    }
    if document.get(&path.clone().key("requireServiceAccount")).is_none() {
        report("requireServiceAccount", "required field is missing".to_owned());
    } else if !token.requires_account && !token.required_annotations.is_empty() {
        let reason = "must be empty if requireServiceAccount is false";
        report("requiredServiceAccountAnnotationKeys", reason.to_owned());
    }
    for (field, keys) in [
        ("requiredServiceAccountAnnotationKeys", &token.required_annotations),
        ("optionalServiceAccountAnnotationKeys", &token.optional_annotations),
    ] {
        let mut seen = BTreeSet::new();
        for key in keys {
            if !is_qualified_name(&key.to_lowercase()) {
                report(field, format!("{key:?} is not a valid annotation key"));
            }
            if !seen.insert(key) {
                report(field, format!("{key:?} is listed twice"));
            }
        }
    }
    let both = |key: &&String| token.optional_annotations.contains(key);
    if token.required_annotations.iter().any(|key| both(&key)) {
        let reason = "a key cannot be both required and optional";
        report("optionalServiceAccountAnnotationKeys", reason.to_owned());
    }
    if !CACHE_TYPES.contains(&token.cache_type.as_str()) {
        report("cacheType", "must be ServiceAccount or Token".to_owned());
    }
    problems
}

fn is_image_pattern(image: &str) -> bool {
    let host = image.split('/').next().unwrap_or_default();
    let plain = !image.chars().any(|c| c.is_whitespace() || c.is_control() || "\"<>\\^`{|}".contains(c));
    let port_is_number =
        host.rsplit_once(':').is_none_or(|(_, port)| port.chars().all(|c| c.is_ascii_digit()));
    plain && !image.contains("://") && (port_is_number || host.contains(']'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALID: &str = "\
apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: helper
  matchImages: ['*.example.com', '127.0.0.1:5000/team']
  defaultCacheDuration: 12h
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  args: [get]
  env: [{name: A, value: b}]
";

    fn load(texts: &[(&str, &str)]) -> Result<Vec<CredentialProviderSettings>, String> {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in texts {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        let gates = FeatureGates::default();
        credential_providers(dir.path(), &gates)
            .map_err(|error| error.to_string().replace(&format!("{}/", dir.path().display()), ""))
    }

    #[test]
    fn loads_a_directory_in_order_and_ignores_other_files() {
        let other = VALID.replace("helper", "second").replace("v1\nkind", "v1beta1\nkind");
        let found = load(&[("b.yaml", &other), ("a.yml", VALID), ("x.conf", "nonsense")]).unwrap();
        assert_eq!(found.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(), ["helper", "second"]);
        assert_eq!(found[0].default_cache_duration, GoDuration::from_secs(12 * 3600));
        assert_eq!(found[0].env.get("A").map(String::as_str), Some("b"));
        assert_eq!(found[0].token, None);
    }

    #[test]
    fn treats_empty_values_as_not_set() {
        let text =
            VALID.replace("[get]", "").replace("[{name: A, value: b}]", "[{value: b}, {name: A, value: }]");
        let found = load(&[("a.yaml", &format!("{text}  tokenAttributes:\n"))]).unwrap();
        assert!(found[0].args.is_empty() && found[0].token.is_none());
        let env: Vec<_> = found[0].env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(env, [("", "b"), ("A", "")]);
    }

    #[test]
    fn reports_file_line_and_field_of_invalid_values() {
        for (from, to, expected) in [
            ("name: helper", "name: ../helper", "a.yaml: line 4: providers[0].name: \"../helper\""),
            ("k8s.io/v1\n  args", "k8s.io/v2\n  args", "a.yaml: line 7: providers[0].apiVersion"),
            (
                "  defaultCacheDuration: 12h\n",
                "",
                "providers[0].defaultCacheDuration: required field is missing",
            ),
            ("12h", "-1s", "a.yaml: line 6: providers[0].defaultCacheDuration"),
            ("['*.example.com', '127.0.0.1:5000/team']", "[]", "a.yaml: line 5: providers[0].matchImages"),
            ("CredentialProviderConfig", "Secret", "a.yaml: line 2: kind"),
            ("config.k8s.io/v1\n", "config.k8s.io/v9\n", "a.yaml: line 1: apiVersion"),
            ("  args: [get]", "  arguments: [get]", "a.yaml: line 8: providers[0].arguments: unknown field"),
            ("providers:", "providers: [", "a.yaml: line"),
        ] {
            let error = load(&[("a.yaml", &VALID.replace(from, to))]).unwrap_err();
            assert!(error.contains(expected), "{error} lacks {expected}");
        }
        let error = load(&[("a.yaml", VALID), ("b.yaml", VALID)]).unwrap_err();
        assert!(
            error.contains(
                "b.yaml: line 4: providers[0].name: \"helper\" is already the name of another provider"
            ),
            "{error}"
        );
        assert!(load(&[]).is_err());
    }

    #[test]
    fn validates_token_attributes() {
        let token = "  tokenAttributes:
    serviceAccountTokenAudience: a
    requireServiceAccount: true
    cacheType: Token
    requiredServiceAccountAnnotationKeys: [example.com/id]
";
        let found = load(&[("a.yaml", &format!("{VALID}{token}"))]).unwrap();
        let expected = ProviderTokenSettings {
            audience: "a".to_owned(),
            requires_account: true,
            required_annotations: vec!["example.com/id".to_owned()],
            optional_annotations: Vec::new(),
            cache_type: "Token".to_owned(),
        };
        assert_eq!(found[0].token, Some(expected));
        for (from, to, expected) in [
            ("cacheType: Token", "cacheType: Pod", "cacheType"),
            ("    requireServiceAccount: true\n", "", "requireServiceAccount"),
            ("serviceAccountTokenAudience: a", "serviceAccountTokenAudience: ''", "Audience"),
            (
                "requireServiceAccount: true",
                "requireServiceAccount: false",
                "requiredServiceAccountAnnotationKeys",
            ),
            ("[example.com/id]", "[a b]", "\"a b\" is not a valid annotation key"),
            ("[example.com/id]", "[a, A, a]", "\"a\" is listed twice"),
        ] {
            let error = load(&[("a.yaml", &format!("{VALID}{}", token.replace(from, to)))]).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
