//! Whether a pod may use an image that is already on the node.
//!
//! An image that was pulled with a secret is no common property: a pod that cannot show credentials which once pulled
//! it has the registry asked again. What pulled an image is written down in upstream's form ([`PulledRecord`]), so that
//! agents can take over from each other.

mod record;

use sha2::{Digest, Sha256};

use model::{CredentialOrigin, RegistryCredential};

use crate::container_spec::go_json_string;
use crate::image_pull::parse_image_name;
pub use record::{InvalidRecord, Permit, PullAccount, PullSecret, PulledRecord, read_intent, write_intent};

/// Past that many secrets an image gets no further ones that merely matched, lest the record grow with every namespace.
const LEARNT_AT_MOST: usize = 100;

/// Which images that are already on the node need credentials (`imagePullCredentialsVerificationPolicy`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verification {
    /// None.
    Never,
    /// Those an agent pulled.
    UnlessPreloaded,
    /// All but these: names without tag and digest, or prefixes that end in `/*`.
    UnlessListed(Vec<String>),
    /// All.
    Always,
}

impl Verification {
    fn asks_for(&self, image: &str, pulled_by_agent: bool) -> bool {
        match self {
            Self::Never => false,
            Self::UnlessPreloaded => pulled_by_agent,
            Self::UnlessListed(patterns) => {
                let name = without_tag(image).unwrap_or_else(|| image.to_owned());
                !patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
                    Some(prefix) => name.starts_with(prefix),
                    None => name == *pattern,
                })
            }
            Self::Always => true,
        }
    }
}

/// What is known of an image that is present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known<'a> {
    /// No agent pulled it, as far as is known.
    Nothing,
    /// An agent pulled it or began to, with credentials nobody knows.
    Pulled,
    /// What is written down of it.
    Recorded(&'a PulledRecord),
    /// Something is written down, and cannot be read.
    Unreadable,
}

/// Whether a pod may use an image without asking the registry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// It may, by the node's policy.
    ByPolicy,
    /// It may: it shows what once pulled the image, or everybody may.
    ByRecord,
    /// It may, and this secret of its own is good for the image from now on.
    Learn(PullSecret),
    /// The registry must be asked.
    MustPull,
    /// The registry must be asked, because the records cannot be read.
    Unclear,
}

/// Decides without the pod's credentials where that is possible; `None` when they matter.
#[must_use]
pub fn access_without_credentials(policy: &Verification, image: &str, known: Known<'_>) -> Option<Access> {
    let record = match known {
        Known::Unreadable => return Some(Access::Unclear),
        _ if !policy.asks_for(image, known != Known::Nothing) => return Some(Access::ByPolicy),
        Known::Nothing | Known::Pulled => return Some(Access::MustPull),
        Known::Recorded(record) => record,
    };
    let Some(name) = without_tag(image) else { return Some(Access::Unclear) };
    match record.permits.get(&name) {
        None => Some(Access::MustPull),
        Some(permit) if permit.everybody => Some(Access::ByRecord),
        Some(permit) if permit.secrets.is_empty() && permit.accounts.is_empty() => Some(Access::MustPull),
        Some(_) => None,
    }
}

/// What a pod shows for an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// The secrets that it names.
    pub secrets: Vec<PullSecret>,
    /// Its service account, where a provider program has something for it.
    pub accounts: Vec<PullAccount>,
}

impl Shown {
    /// What a pod's credentials for an image say of it.
    #[must_use]
    pub fn of(credentials: &[RegistryCredential]) -> Self {
        Self {
            secrets: credentials.iter().filter_map(shown_secret).collect(),
            accounts: credentials.iter().filter_map(shown_account).collect(),
        }
    }
}

/// Decides by what a pod shows.
#[must_use]
pub fn access_by_credentials(record: &PulledRecord, image: &str, shown: &Shown) -> Access {
    let Some(permit) = without_tag(image).and_then(|name| record.permits.get(&name)) else {
        return Access::MustPull;
    };
    let may_learn = permit.secrets.len() < LEARNT_AT_MOST;
    for secret in &shown.secrets {
        for known in &permit.secrets {
            let same_content = !known.hash.is_empty() && known.hash == secret.hash;
            match (same_content, known.is_same_object(secret)) {
                (true, true) => return Access::ByRecord,
                (true, false) if !may_learn => return Access::ByRecord,
                // The same object with a new password is trusted: who may change the secret is its owner.
                (true, false) => return Access::Learn(secret.clone()),
                (false, true) if may_learn => return Access::Learn(secret.clone()),
                (false, _) => {}
            }
        }
    }
    if shown.accounts.iter().any(|account| permit.accounts.contains(account)) {
        return Access::ByRecord;
    }
    Access::MustPull
}

/// Who may use an image that these credentials pulled; `None` for a pull without any.
#[must_use]
pub fn permit_of(used: Option<&RegistryCredential>) -> Permit {
    if let Some(account) = used.and_then(shown_account) {
        return Permit { accounts: vec![account], ..Permit::default() };
    }
    match used.and_then(shown_secret) {
        Some(secret) => Permit { secrets: vec![secret], ..Permit::default() },
        None => Permit { everybody: true, ..Permit::default() },
    }
}

fn shown_account(credential: &RegistryCredential) -> Option<PullAccount> {
    match &credential.origin {
        CredentialOrigin::Node | CredentialOrigin::Secret { .. } => None,
        CredentialOrigin::Account { uid, namespace, name } => {
            let (namespace, name, uid) = (namespace.clone(), name.clone(), uid.clone());
            Some(PullAccount { namespace, name, uid })
        }
    }
}

/// A credential as the records name it; `None` for one that is no secret.
fn shown_secret(credential: &RegistryCredential) -> Option<PullSecret> {
    match &credential.origin {
        CredentialOrigin::Node | CredentialOrigin::Account { .. } => None,
        CredentialOrigin::Secret { uid, namespace, name } => Some(PullSecret {
            uid: uid.clone(),
            namespace: namespace.clone(),
            name: name.clone(),
            hash: credential_hash(credential),
        }),
    }
}

/// Name of the file that tells of an image or of the pull of one.
#[must_use]
pub fn file_name(image: &str) -> String {
    format!("sha256-{}", hex(&Sha256::digest(image.as_bytes())))
}

/// An image's name as it was written, without tag and digest; `None` if it is no image's name.
#[must_use]
pub fn without_tag(image: &str) -> Option<String> {
    let parsed = parse_image_name(image).ok()?;
    let name = match &parsed.digest {
        Some(digest) => image.strip_suffix(digest.as_str())?.strip_suffix('@')?,
        None => image,
    };
    let name = match &parsed.tag {
        Some(tag) => name.strip_suffix(tag.as_str())?.strip_suffix(':')?,
        None => name,
    };
    Some(name.to_owned())
}

/// The hash upstream makes: of user, password and e-mail address as its JSON encoder writes them.
fn credential_hash(credential: &RegistryCredential) -> String {
    let fields = [
        ("username", &credential.username),
        ("password", &credential.password),
        ("email", &credential.email),
    ];
    let written = fields.iter().filter(|(_, value)| !value.is_empty());
    let json: Vec<String> =
        written.map(|(name, value)| format!("\"{name}\":{}", go_json_string(value))).collect();
    hex(&Sha256::digest(format!("{{{}}}", json.join(",")).as_bytes()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
