//! Required content of the well-known Secret types.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Map, Value};

use crate::validate::Field;

const SERVICE_ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";

/// Checks the content of a Secret against its type. Unknown types may contain anything.
pub(super) fn check(
    secret_type: &str,
    data: &BTreeMap<String, Vec<u8>>,
    metadata: &ObjectMeta,
    object: &Field<'_>,
) {
    let at = |key: &str| object.field("data").key(key);
    match secret_type {
        "kubernetes.io/service-account-token" => {
            let annotations = metadata.annotations.as_ref();
            let name = annotations.and_then(|all| all.get(SERVICE_ACCOUNT_NAME)).map(String::as_str);
            let at = object.field("metadata.annotations").key(SERVICE_ACCOUNT_NAME);
            at.require(name.unwrap_or_default());
        }
        "kubernetes.io/dockercfg" => check_json_object(data.get(".dockercfg"), &at(".dockercfg")),
        "kubernetes.io/dockerconfigjson" => {
            check_json_object(data.get(".dockerconfigjson"), &at(".dockerconfigjson"));
        }
        "kubernetes.io/basic-auth" if !data.contains_key("username") && !data.contains_key("password") => {
            at("username").required("");
            at("password").required("");
        }
        "kubernetes.io/ssh-auth" if data.get("ssh-privatekey").is_none_or(Vec::is_empty) => {
            at("ssh-privatekey").required("");
        }
        "kubernetes.io/tls" => {
            let missing = ["tls.crt", "tls.key"].into_iter().filter(|key| !data.contains_key(*key));
            missing.for_each(|key| at(key).required(""));
        }
        _ => {}
    }
}

fn check_json_object(content: Option<&Vec<u8>>, at: &Field<'_>) {
    let Some(content) = content else { return at.required("") };
    if let Err(error) = serde_json::from_slice::<Map<String, Value>>(content) {
        // The parser's message may quote the content.
        let detail = format!("not a JSON object at line {} column {}", error.line(), error.column());
        at.invalid("<secret contents redacted>", &detail);
    }
}
