//! Whether a pod may use an image that is already on the node.
//!
//! An image that was pulled with a secret is private: for a pod without credentials that pulled it before, the image is pulled
//! again, so that the registry decides. The credentials of pulls are recorded in upstream's format ([`PulledRecord`]), so that
//! podward and upstream can replace each other.

mod record;

use sha2::{Digest, Sha256};

use model::{CredentialOrigin, RegistryCredential};

use crate::go_text::JsonObject;
use crate::images::image_pull::parse_image_name;
pub use record::{InvalidRecord, Permit, PullAccount, PullSecret, PulledRecord, read_intent, write_intent};

/// Maximum number of secrets in a record, so that it does not grow with every namespace.
const MAX_RECORDED_SECRETS: usize = 100;

/// Which present images need credentials (`imagePullCredentialsVerificationPolicy`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verification {
    Never,
    /// Images that an agent pulled.
    UnlessPreloaded,
    /// All images except these: names without tag and digest, or prefixes that end in `/*`.
    UnlessListed(Vec<String>),
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

/// The record of a present image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known<'a> {
    /// No record: the image was probably preloaded.
    Nothing,
    /// An agent started or finished a pull; the credentials are unknown.
    Pulled,
    Recorded(&'a PulledRecord),
    /// The record cannot be read.
    Unreadable,
}

/// Whether a pod may use a present image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// Allowed by the node's policy.
    ByPolicy,
    /// Allowed: the pod has credentials that pulled the image, or the image is public.
    ByRecord,
    /// Allowed, and this secret of the pod is added to the record.
    Learn(PullSecret),
    /// The image must be pulled again.
    MustPull,
    /// The image must be pulled again, because the record cannot be read.
    Unclear,
}

/// Decides without the pod's credentials; `None` when they are needed.
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

/// The credentials of a pod for an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    pub secrets: Vec<PullSecret>,
    /// Set if a credential provider has credentials for it.
    pub accounts: Vec<PullAccount>,
}

impl Shown {
    pub fn of(credentials: &[RegistryCredential]) -> Self {
        Self {
            secrets: credentials.iter().filter_map(shown_secret).collect(),
            accounts: credentials.iter().filter_map(shown_account).collect(),
        }
    }
}

/// Decides by the pod's credentials.
pub fn access_by_credentials(record: &PulledRecord, image: &str, shown: &Shown) -> Access {
    let Some(permit) = without_tag(image).and_then(|name| record.permits.get(&name)) else {
        return Access::MustPull;
    };
    let may_learn = permit.secrets.len() < MAX_RECORDED_SECRETS;
    for secret in &shown.secrets {
        for known in &permit.secrets {
            let same_content = !known.hash.is_empty() && known.hash == secret.hash;
            match (same_content, known.is_same_object(secret)) {
                (true, true) => return Access::ByRecord,
                (true, false) if !may_learn => return Access::ByRecord,
                // The same secret with a new password is trusted, because only its owner can change it.
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

/// The permit after a pull with these credentials; `None` for an anonymous pull.
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

/// The recorded form of a credential; `None` if it does not come from a secret.
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

/// File name of a record or intent.
pub fn file_name(image: &str) -> String {
    format!("sha256-{:x}", Sha256::digest(image))
}

/// The image name as written, without tag and digest; `None` if it is invalid.
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

/// Upstream's hash of user, password and e-mail address as JSON.
fn credential_hash(credential: &RegistryCredential) -> String {
    let RegistryCredential { username, password, email, .. } = credential;
    let mut object = JsonObject::default();
    object.text("username", Some(username)).text("password", Some(password)).text("email", Some(email));
    format!("{:x}", Sha256::digest(object.finish()))
}

#[cfg(test)]
mod tests;
