//! Required content of the well-known Secret types.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value};

use crate::path::Path;
use crate::validate::Checker;

const SERVICE_ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";

/// Checks the content of a Secret against its type. Unknown types may contain anything.
pub(super) fn check(
    secret_type: &str,
    data: &BTreeMap<String, Vec<u8>>,
    metadata: &ObjectMeta,
    checker: &mut Checker,
) {
    let path = |key: &str| Path::root().field("data").key(key);
    match secret_type {
        "kubernetes.io/service-account-token" => {
            let annotations = metadata.annotations.as_ref();
            let name = annotations.and_then(|all| all.get(SERVICE_ACCOUNT_NAME)).map(String::as_str);
            checker.require_text(
                &Path::root().field("metadata.annotations").key(SERVICE_ACCOUNT_NAME),
                name.unwrap_or_default(),
            );
        }
        "kubernetes.io/dockercfg" => check_json_object(data, ".dockercfg", checker),
        "kubernetes.io/dockerconfigjson" => check_json_object(data, ".dockerconfigjson", checker),
        "kubernetes.io/basic-auth" if !data.contains_key("username") && !data.contains_key("password") => {
            checker.required(&path("username"), "");
            checker.required(&path("password"), "");
        }
        "kubernetes.io/ssh-auth" if data.get("ssh-privatekey").is_none_or(Vec::is_empty) => {
            checker.required(&path("ssh-privatekey"), "");
        }
        "kubernetes.io/tls" => {
            for key in ["tls.crt", "tls.key"] {
                if !data.contains_key(key) {
                    checker.required(&path(key), "");
                }
            }
        }
        _ => {}
    }
}

fn check_json_object(data: &BTreeMap<String, Vec<u8>>, key: &str, checker: &mut Checker) {
    let path = Path::root().field("data").key(key);
    match data.get(key) {
        None => checker.required(&path, ""),
        Some(content) => {
            if let Err(error) = serde_json::from_slice::<Map<String, Value>>(content) {
                // The parser's message may quote the content.
                let detail = format!("not a JSON object at line {} column {}", error.line(), error.column());
                checker.invalid(&path, "<secret contents redacted>", &detail);
            }
        }
    }
}
