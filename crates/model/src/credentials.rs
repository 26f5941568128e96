use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// User name and password for a registry or a path in it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RegistryCredential {
    /// Registry, optionally with a path, as configured; the host may have wildcards.
    pub location: String,
    pub username: String,
    pub password: String,
    /// Obsolete, but part of upstream's comparison of credentials.
    pub email: String,
    pub origin: CredentialOrigin,
}

impl fmt::Debug for RegistryCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegistryCredential")
            .field("location", &self.location)
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

/// Which pods may use a credential.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CredentialOrigin {
    /// Every pod of the node.
    Node,
    /// Pods that refer to the secret.
    Secret {
        /// UID of the secret.
        uid: String,
        namespace: String,
        name: String,
    },
    /// Pods of the service account for which a credential provider returned it.
    Account {
        /// UID of the account.
        uid: String,
        namespace: String,
        name: String,
    },
}

/// A configured credential provider program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialProvider {
    /// File name of the program.
    pub name: String,
    /// Patterns of images: hosts with wildcards and path prefixes.
    pub match_images: Vec<String>,
    /// How long a response without a duration is cached.
    pub default_cache_duration: Duration,
    /// Version of the request and the response.
    pub api_version: String,
    pub args: Vec<String>,
    /// Environment variables in addition to the agent's.
    pub env: BTreeMap<String, String>,
    /// `None` when the program does not get a service account token.
    pub token: Option<ProviderToken>,
}

/// Settings of the service account token for a provider program (`tokenAttributes`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderToken {
    pub audience: String,
    /// Whether pods without a service account are skipped.
    pub requires_account: bool,
    /// Annotations that an account must have.
    pub required_annotations: Vec<String>,
    /// Annotations that are passed on if the account has them.
    pub optional_annotations: Vec<String>,
    pub shared: ResponseSharing,
}

/// Which pods share a cached response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseSharing {
    /// All pods of the account (`cacheType: ServiceAccount`).
    Account,
    /// Pods with the same token (`cacheType: Token`).
    Token,
}

/// A pod's service account as passed to a provider program.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct AccountIdentity {
    /// Namespace of the account and the pod.
    pub namespace: String,
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// The annotations that are passed on.
    pub annotations: BTreeMap<String, String>,
    /// A token of the account, bound to the pod.
    pub token: String,
}

impl fmt::Debug for AccountIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccountIdentity")
            .field("namespace", &self.namespace)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// A file with credentials of the node.
#[derive(Clone, PartialEq, Eq)]
pub struct CredentialFile {
    pub path: std::path::PathBuf,
    pub form: CredentialFileForm,
    pub content: Vec<u8>,
}

impl fmt::Debug for CredentialFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CredentialFile").field("path", &self.path).finish_non_exhaustive()
    }
}

/// Format of a credential file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialFileForm {
    /// `config.json`: entries below `auths`.
    ConfigJson,
    /// `.dockercfg`: entries at the top.
    Dockercfg,
}
