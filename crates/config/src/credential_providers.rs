//! The file, or folder of files, that describes the credential provider programs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use document::{Document, FieldPath};
use serde::Deserialize;

use crate::duration::GoDuration;
use crate::files;
use crate::gates::{FeatureGates, Gate};
use crate::problem::{LoadError, Origin, Problem};
use crate::validate::is_qualified_name;

const GROUP: &str = "kubelet.config.k8s.io";
const NEWEST: &str = "credentialprovider.kubelet.k8s.io/v1";
const VERSIONS: [&str; 3] =
    [NEWEST, "credentialprovider.kubelet.k8s.io/v1alpha1", "credentialprovider.kubelet.k8s.io/v1beta1"];
const CACHE_TYPES: [&str; 2] = ["ServiceAccount", "Token"];

/// A credential provider program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialProviderSettings {
    /// Name of the program in the folder of providers.
    pub name: String,
    /// Images it is asked about.
    pub match_images: Vec<String>,
    /// How long its answers are good for unless they say otherwise.
    pub default_cache_duration: GoDuration,
    /// Version of the request and the response.
    pub api_version: String,
    /// Arguments.
    pub args: Vec<String>,
    /// Environment variables.
    pub env: BTreeMap<String, String>,
    /// How it works with service account tokens, if it does.
    pub token: Option<ProviderTokenSettings>,
}

/// How a provider works with service account tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderTokenSettings {
    /// Who the tokens are for.
    pub audience: String,
    /// Whether it cannot do without an account.
    pub requires_account: bool,
    /// Annotations that an account must have.
    pub required_annotations: Vec<String>,
    /// Annotations that it is told of if there are any.
    pub optional_annotations: Vec<String>,
    /// Whether its answers are good for one token only, not for the whole account.
    pub answers_one_token: bool,
}

/// Reads the providers of a file, or of the `.json`, `.yaml` and `.yml` files of a folder in lexical order.
///
/// # Errors
/// All that is wrong, each with its file, line and field.
pub fn credential_providers(
    path: &Path,
    gates: &FeatureGates,
) -> Result<Vec<CredentialProviderSettings>, LoadError> {
    let mut reading = Reading::default();
    for file in config_files(path)? {
        reading.file(&file, gates)?;
    }
    if reading.providers.is_empty() && reading.problems.is_empty() {
        reading.problems.push(Problem {
            origin: Origin::File { path: path.to_owned(), position: None },
            field: FieldPath::root().key("providers"),
            reason: "at least one provider is required".to_owned(),
        });
    }
    if reading.problems.is_empty() {
        Ok(reading.providers)
    } else {
        Err(LoadError::Invalid { problems: reading.problems })
    }
}

/// The contents of those files, in the order in which they are read.
///
/// # Errors
/// When one cannot be read.
pub fn credential_provider_files(path: &Path) -> Result<Vec<Vec<u8>>, LoadError> {
    let read = |file: PathBuf| std::fs::read(&file).map_err(|source| LoadError::Read { path: file, source });
    config_files(path)?.into_iter().map(read).collect()
}

fn config_files(path: &Path) -> Result<Vec<PathBuf>, LoadError> {
    let failed = |source| LoadError::Read { path: path.to_owned(), source };
    if !std::fs::metadata(path).map_err(failed)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let file = entry.path();
        let known = file.extension().is_some_and(|end| end == "json" || end == "yaml" || end == "yml");
        if known && !entry.file_type().map_err(failed)?.is_dir() {
            found.push(file);
        }
    }
    found.sort();
    if found.is_empty() {
        return Err(failed(std::io::Error::other("no configuration files found in the folder")));
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
    providers: Vec<Provider>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Provider {
    #[serde(default)]
    name: String,
    #[serde(default)]
    match_images: Vec<String>,
    default_cache_duration: Option<GoDuration>,
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: Vec<EnvVar>,
    token_attributes: Option<TokenAttributes>,
}

#[derive(Deserialize)]
struct EnvVar {
    #[serde(default)]
    name: String,
    #[serde(default)]
    value: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TokenAttributes {
    #[serde(default)]
    service_account_token_audience: String,
    #[serde(default)]
    cache_type: String,
    require_service_account: Option<bool>,
    #[serde(default)]
    required_service_account_annotation_keys: Vec<String>,
    #[serde(default)]
    optional_service_account_annotation_keys: Vec<String>,
}

#[derive(Default)]
struct Reading {
    providers: Vec<CredentialProviderSettings>,
    names: BTreeSet<String>,
    problems: Vec<Problem>,
}

impl Reading {
    fn file(&mut self, path: &Path, gates: &FeatureGates) -> Result<(), LoadError> {
        let text = files::read(path)?;
        let Some(mut document) = self.document(path, &text) else { return Ok(()) };
        document.drop_nulls();
        let file: ConfigFile = match document.decode_strict() {
            Ok(file) => file,
            Err(errors) => {
                self.problems.extend(errors.into_iter().map(|error| Problem {
                    origin: Origin::File { path: path.to_owned(), position: error.position },
                    field: error.path,
                    reason: error.reason,
                }));
                return Ok(());
            }
        };
        for (index, provider) in file.providers.into_iter().enumerate() {
            let field = FieldPath::root().key("providers").index(index);
            for (field, reason) in self.check(&provider, &field, gates) {
                let position = document.position(&field);
                let origin = Origin::File { path: path.to_owned(), position };
                self.problems.push(Problem { origin, field, reason });
            }
            self.names.insert(provider.name.clone());
            self.providers.push(settings(provider));
        }
        Ok(())
    }

    /// The one document of a file, of a kind we know.
    fn document(&mut self, path: &Path, text: &[u8]) -> Option<Document> {
        let origin = |position| Origin::File { path: path.to_owned(), position };
        let mut tell = |position, field, reason: String| {
            self.problems.push(Problem { origin: origin(position), field, reason });
        };
        let mut documents = match document::parse(text) {
            Ok(documents) => documents,
            Err(error) => {
                tell(Some(error.position), FieldPath::root(), error.reason);
                return None;
            }
        };
        let (Some(document), true) = (documents.pop(), documents.is_empty()) else {
            tell(None, FieldPath::root(), "the file must hold one document".to_owned());
            return None;
        };
        let text_at = |name: &str| {
            let field = FieldPath::root().key(name);
            (document.get(&field).and_then(|value| value.as_str()).unwrap_or_default().to_owned(), field)
        };
        let (kind, kind_field) = text_at("kind");
        if kind != "CredentialProviderConfig" {
            let reason = format!("{kind:?} must be \"CredentialProviderConfig\"");
            tell(document.position(&kind_field), kind_field, reason);
            return None;
        }
        let (version, field) = text_at("apiVersion");
        if !["v1", "v1beta1", "v1alpha1"].iter().any(|known| version == format!("{GROUP}/{known}")) {
            let reason = format!("{version:?} must be {GROUP}/v1, {GROUP}/v1beta1 or {GROUP}/v1alpha1");
            tell(document.position(&field), field, reason);
            return None;
        }
        Some(document)
    }

    fn check(&self, provider: &Provider, at: &FieldPath, gates: &FeatureGates) -> Vec<(FieldPath, String)> {
        let mut problems = Vec::new();
        let mut tell = |field: &str, reason: String| problems.push((at.clone().key(field), reason));
        let name = &provider.name;
        match name.as_str() {
            "" | "." | ".." => tell("name", format!("{name:?} is not the name of a program")),
            _ if name.contains(['/', ' ']) => {
                tell("name", format!("{name:?} must not hold a slash or a blank"));
            }
            _ if self.names.contains(name) => tell("name", format!("{name:?} is used twice")),
            _ => {}
        }
        if !VERSIONS.contains(&provider.api_version.as_str()) {
            let found = &provider.api_version;
            tell("apiVersion", format!("{found:?} must be one of {}", VERSIONS.join(", ")));
        }
        if provider.match_images.is_empty() {
            tell("matchImages", "at least one image is required".to_owned());
        }
        for image in provider.match_images.iter().filter(|image| !is_location(image)) {
            tell("matchImages", format!("{image:?} is not a registry or image"));
        }
        match provider.default_cache_duration {
            None => tell("defaultCacheDuration", "required field is missing".to_owned()),
            Some(duration) if duration.is_negative() => {
                tell("defaultCacheDuration", format!("{duration} must not be negative"));
            }
            Some(_) => {}
        }
        if let Some(token) = &provider.token_attributes {
            let at = at.clone().key("tokenAttributes");
            problems.extend(check_token(token, provider, &at, gates));
        }
        problems
    }
}

fn check_token(
    token: &TokenAttributes,
    provider: &Provider,
    at: &FieldPath,
    gates: &FeatureGates,
) -> Vec<(FieldPath, String)> {
    let mut problems = Vec::new();
    let mut tell = |field: &str, reason: String| problems.push((at.clone().key(field), reason));
    if token.service_account_token_audience.is_empty() {
        tell("serviceAccountTokenAudience", "required field is missing".to_owned());
    }
    match token.require_service_account {
        None => tell("requireServiceAccount", "required field is missing".to_owned()),
        Some(false) if !token.required_service_account_annotation_keys.is_empty() => {
            tell(
                "requiredServiceAccountAnnotationKeys",
                "must be empty while requireServiceAccount is false".to_owned(),
            );
        }
        Some(_) => {}
    }
    for (field, keys) in [
        ("requiredServiceAccountAnnotationKeys", &token.required_service_account_annotation_keys),
        ("optionalServiceAccountAnnotationKeys", &token.optional_service_account_annotation_keys),
    ] {
        let mut seen = BTreeSet::new();
        for key in keys {
            if !is_qualified_name(&key.to_lowercase()) {
                tell(field, format!("{key:?} is not the name of an annotation"));
            }
            if !seen.insert(key) {
                tell(field, format!("{key:?} is given twice"));
            }
        }
    }
    let both = |key: &&String| token.optional_service_account_annotation_keys.contains(key);
    if token.required_service_account_annotation_keys.iter().any(|key| both(&key)) {
        let reason = "a key cannot be both required and optional";
        tell("optionalServiceAccountAnnotationKeys", reason.to_owned());
    }
    if !CACHE_TYPES.contains(&token.cache_type.as_str()) {
        tell("cacheType", "must be ServiceAccount or Token".to_owned());
    }
    if provider.api_version != NEWEST {
        problems.push((at.clone(), format!("needs the apiVersion {NEWEST}")));
    }
    if !gates.enabled(Gate::KubeletServiceAccountTokenForCredentialProviders) {
        let reason = "needs the feature gate KubeletServiceAccountTokenForCredentialProviders";
        problems.push((at.clone(), reason.to_owned()));
    }
    problems
}

fn is_location(image: &str) -> bool {
    let host = image.split('/').next().unwrap_or_default();
    let plain = !image.chars().any(|c| c.is_whitespace() || c.is_control() || "\"<>\\^`{|}".contains(c));
    let port_is_number =
        host.rsplit_once(':').is_none_or(|(_, port)| port.chars().all(|c| c.is_ascii_digit()));
    plain && !image.contains("://") && (port_is_number || host.contains(']'))
}

fn settings(provider: Provider) -> CredentialProviderSettings {
    CredentialProviderSettings {
        name: provider.name,
        match_images: provider.match_images,
        default_cache_duration: provider.default_cache_duration.unwrap_or(GoDuration::ZERO),
        api_version: provider.api_version,
        args: provider.args,
        env: provider.env.into_iter().map(|var| (var.name, var.value)).collect(),
        token: provider.token_attributes.map(token_settings),
    }
}

fn token_settings(token: TokenAttributes) -> ProviderTokenSettings {
    ProviderTokenSettings {
        audience: token.service_account_token_audience,
        requires_account: token.require_service_account == Some(true),
        required_annotations: token.required_service_account_annotation_keys,
        optional_annotations: token.optional_service_account_annotation_keys,
        answers_one_token: token.cache_type == "Token",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "\
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

    fn read(texts: &[(&str, &str)]) -> Result<Vec<CredentialProviderSettings>, String> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in texts {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let gates = FeatureGates::default();
        credential_providers(folder.path(), &gates)
            .map_err(|error| error.to_string().replace(&format!("{}/", folder.path().display()), ""))
    }

    #[test]
    fn reads_a_folder_in_order_and_skips_other_files() {
        let other = GOOD.replace("helper", "second").replace("v1\nkind", "v1beta1\nkind");
        let found = read(&[("b.yaml", &other), ("a.yml", GOOD), ("x.conf", "nonsense")]).unwrap();
        assert_eq!(found.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(), ["helper", "second"]);
        assert_eq!(found[0].default_cache_duration, GoDuration::from_secs(12 * 3600));
        assert_eq!(found[0].env.get("A").map(String::as_str), Some("b"));
        assert_eq!(found[0].token, None);
    }

    #[test]
    fn what_is_left_empty_counts_as_left_out() {
        let text =
            GOOD.replace("[get]", "").replace("[{name: A, value: b}]", "[{value: b}, {name: A, value: }]");
        let found = read(&[("a.yaml", &format!("{text}  tokenAttributes:\n"))]).unwrap();
        assert!(found[0].args.is_empty() && found[0].token.is_none());
        let env: Vec<_> = found[0].env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(env, [("", "b"), ("A", "")]);
    }

    #[test]
    fn says_file_line_and_field_of_what_is_wrong() {
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
            let error = read(&[("a.yaml", &GOOD.replace(from, to))]).unwrap_err();
            assert!(error.contains(expected), "{error} lacks {expected}");
        }
        let error = read(&[("a.yaml", GOOD), ("b.yaml", GOOD)]).unwrap_err();
        assert!(error.contains("b.yaml: line 4: providers[0].name: \"helper\" is used twice"), "{error}");
        assert!(read(&[]).is_err());
    }

    #[test]
    fn token_attributes_are_checked() {
        let token = "  tokenAttributes:
    serviceAccountTokenAudience: a
    requireServiceAccount: true
    cacheType: Token
    requiredServiceAccountAnnotationKeys: [example.com/id]
";
        let found = read(&[("a.yaml", &format!("{GOOD}{token}"))]).unwrap();
        let expected = ProviderTokenSettings {
            audience: "a".to_owned(),
            requires_account: true,
            required_annotations: vec!["example.com/id".to_owned()],
            optional_annotations: Vec::new(),
            answers_one_token: true,
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
            ("[example.com/id]", "[a b]", "\"a b\" is not the name of an annotation"),
            ("[example.com/id]", "[a, A, a]", "\"a\" is given twice"),
        ] {
            let error = read(&[("a.yaml", &format!("{GOOD}{}", token.replace(from, to)))]).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
