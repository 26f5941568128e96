use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// A user name and password for a part of a registry.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct RegistryCredential {
    /// Registry, or registry and path, as it was written: the host may hold wildcards.
    pub location: String,
    /// User name.
    pub username: String,
    /// Password.
    pub password: String,
    /// E-mail address; no registry asks for it any more, but it counts when credentials are compared.
    pub email: String,
    /// Where it came from.
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

/// Who may use a credential.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CredentialOrigin {
    /// Every pod of the node.
    Node,
    /// Pods that name the secret.
    Secret {
        /// UID of the secret.
        uid: String,
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// Pods with the service account that a provider program gave it to.
    Account {
        /// UID of the account.
        uid: String,
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}

/// A program that knows credentials, as the configuration describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialProvider {
    /// Name of the program in the folder of providers.
    pub name: String,
    /// Images it is asked about: hosts with wildcards, and path prefixes.
    pub match_images: Vec<String>,
    /// How long its answers are good for unless they say otherwise.
    pub default_cache_duration: Duration,
    /// Version of the request and the response.
    pub api_version: String,
    /// Arguments.
    pub args: Vec<String>,
    /// Environment variables laid over the agent's own.
    pub env: BTreeMap<String, String>,
    /// How it is told of a pod's service account; `None` when it is not.
    pub token: Option<ProviderToken>,
}

/// How a provider program is told of a pod's service account (`tokenAttributes`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProviderToken {
    /// Who the token is for.
    pub audience: String,
    /// Pods without a service account get nothing from it.
    pub requires_account: bool,
    /// Annotations without which an account gets nothing from it.
    pub required_annotations: Vec<String>,
    /// Annotations that it is told of if the account has them.
    pub optional_annotations: Vec<String>,
    /// Who else its answer is good for.
    pub shared: AnswerSharing,
}

/// Who else an answer that was given for a token is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerSharing {
    /// All pods of the account (`cacheType: ServiceAccount`).
    Account,
    /// Who has the same token (`cacheType: Token`).
    Token,
}

/// A pod's service account, as a provider program is told of it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct AccountProof {
    /// Namespace of account and pod.
    pub namespace: String,
    /// Name of the account.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Those of its annotations that the program is told of.
    pub annotations: BTreeMap<String, String>,
    /// A token of the account, bound to the pod.
    pub token: String,
}

impl fmt::Debug for AccountProof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AccountProof")
            .field("namespace", &self.namespace)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// A file that may hold the node's credentials.
#[derive(Clone, PartialEq, Eq)]
pub struct CredentialFile {
    /// Its path, for messages.
    pub path: std::path::PathBuf,
    /// How it is written.
    pub form: CredentialFileForm,
    /// Its content.
    pub content: Vec<u8>,
}

impl fmt::Debug for CredentialFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CredentialFile").field("path", &self.path).finish_non_exhaustive()
    }
}

/// How credentials are written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialFileForm {
    /// `config.json`: entries below `auths`.
    ConfigJson,
    /// `.dockercfg`: entries at the top.
    Dockercfg,
}
