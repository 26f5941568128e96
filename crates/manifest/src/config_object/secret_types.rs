//! What the well-known types of Secrets must hold.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value};

use crate::path::Path;
use crate::validate::Checker;

const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";

/// Checks the content of a Secret against its type; other types may hold anything.
pub(super) fn check(
    secret_type: &str,
    data: &BTreeMap<String, Vec<u8>>,
    metadata: &ObjectMeta,
    check: &mut Checker,
) {
    let at = |key: &str| Path::root().field("data").key(key);
    match secret_type {
        "kubernetes.io/service-account-token" => {
            let annotations = metadata.annotations.as_ref();
            let name = annotations.and_then(|all| all.get(ACCOUNT_NAME)).map(String::as_str);
            check.require_text(
                &Path::root().field("metadata.annotations").key(ACCOUNT_NAME),
                name.unwrap_or_default(),
            );
        }
        "kubernetes.io/dockercfg" => json(data, ".dockercfg", check),
        "kubernetes.io/dockerconfigjson" => json(data, ".dockerconfigjson", check),
        "kubernetes.io/basic-auth" if !data.contains_key("username") && !data.contains_key("password") => {
            check.required(&at("username"), "");
            check.required(&at("password"), "");
        }
        "kubernetes.io/ssh-auth" if data.get("ssh-privatekey").is_none_or(Vec::is_empty) => {
            check.required(&at("ssh-privatekey"), "");
        }
        "kubernetes.io/tls" => {
            for key in ["tls.crt", "tls.key"] {
                if !data.contains_key(key) {
                    check.required(&at(key), "");
                }
            }
        }
        _ => {}
    }
}

fn json(data: &BTreeMap<String, Vec<u8>>, key: &str, check: &mut Checker) {
    let at = Path::root().field("data").key(key);
    match data.get(key) {
        None => check.required(&at, ""),
        Some(content) => {
            if let Err(error) = serde_json::from_slice::<Map<String, Value>>(content) {
                // The parser's own words may quote the content.
                let place = format!("not a JSON object at line {} column {}", error.line(), error.column());
                check.invalid(&at, "<secret contents redacted>", &place);
            }
        }
    }
}
