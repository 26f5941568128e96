//! Kubeconfig files, written as JSON (which is YAML).

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::certificates::Issued;

/// A client's credential for the API server.
#[derive(Debug)]
pub(super) enum Credential {
    Certificate(Issued),
    Token(String),
}

pub(super) fn write(path: &Path, url: &str, authority: &str, credential: &Credential) -> Result<()> {
    let user = match credential {
        Credential::Certificate(issued) => json!({
            "client-certificate-data": STANDARD.encode(&issued.certificate),
            "client-key-data": STANDARD.encode(&issued.key),
        }),
        Credential::Token(token) => json!({"token": token}),
    };
    let text = serde_json::to_string_pretty(&document(url, authority, &user))?;
    let file = File::options().create(true).write(true).truncate(true).mode(0o600).open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.with_context(|| format!("write {}", path.display()))
}

fn document(url: &str, authority: &str, user: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": "test",
            "cluster": {"server": url, "certificate-authority-data": STANDARD.encode(authority)},
        }],
        "users": [{"name": "user", "user": user}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "user"}}],
        "current-context": "test",
    })
}
