//! The certificates of a projected ClusterTrustBundle source.

use std::collections::{BTreeMap, BTreeSet};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::ClusterTrustBundleProjection;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use model::{PodUid, TrustBundle};
use sha2::{Digest, Sha256};

use super::pem;
use crate::admission::affinity::set_operator_holds;

/// The certificates of a source without duplicates. Their order differs between pods, so that nothing can rely on it, but is
/// stable for one pod, so that its file does not change.
///
/// # Errors
/// Upstream's message when there are none and the source is not optional.
pub fn trust_anchors<'a>(
    source: &ClusterTrustBundleProjection,
    bundles: impl Iterator<Item = &'a TrustBundle>,
    pod: &PodUid,
) -> Result<String, String> {
    let optional = source.optional == Some(true);
    let chosen: Vec<&TrustBundle> = match (&source.name, &source.signer_name) {
        (Some(name), _) => {
            let found: Vec<_> = bundles.filter(|bundle| bundle.name == *name).collect();
            if found.is_empty() && !optional {
                return Err(format!(
                    "while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io {name:?} not found"
                ));
            }
            found
        }
        (None, Some(signer)) => {
            let selector = source.label_selector.as_ref();
            let found =
                bundles.filter(|bundle| bundle.signer == *signer && selects(selector, &bundle.labels));
            let found: Vec<_> = found.collect();
            if found.is_empty() && !optional {
                return Err(
                    "combination of signerName and labelSelector matched zero ClusterTrustBundles".to_owned()
                );
            }
            found
        }
        (None, None) => {
            return Err(
                "ClusterTrustBundle projection requires either name or signerName to be set".to_owned()
            );
        }
    };
    let anchors: BTreeSet<Vec<u8>> = chosen.iter().flat_map(|bundle| blocks(&bundle.certificates)).collect();
    let mut anchors: Vec<Vec<u8>> = anchors.into_iter().collect();
    anchors.sort_by_cached_key(|anchor| {
        Sha256::new_with_prefix(pod.as_str()).chain_update(anchor).finalize().to_vec()
    });
    Ok(anchors.iter().map(|anchor| pem::certificate(&STANDARD.encode(anchor))).collect())
}

/// A missing selector matches nothing, an empty one everything.
fn selects(selector: Option<&LabelSelector>, labels: &BTreeMap<String, String>) -> bool {
    let Some(selector) = selector else { return false };
    let mut exact = selector.match_labels.iter().flatten();
    let mut rules = selector.match_expressions.iter().flatten();
    exact.all(|(key, value)| labels.get(key) == Some(value)) && rules.all(|rule| holds(rule, labels))
}

fn holds(rule: &LabelSelectorRequirement, labels: &BTreeMap<String, String>) -> bool {
    set_operator_holds(&rule.operator, rule.values.as_deref().unwrap_or_default(), labels.get(&rule.key))
}

/// The decoded certificates; invalid ones are left out.
fn blocks(text: &str) -> Vec<Vec<u8>> {
    pem::certificates(text).filter_map(|body| STANDARD.decode(body).ok()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pem(anchor: &[u8]) -> String {
        pem::certificate(&STANDARD.encode(anchor))
    }

    fn bundle(name: &str, signer: &str, zone: &str, anchors: &[&str]) -> TrustBundle {
        TrustBundle {
            name: name.into(),
            signer: signer.into(),
            labels: [("zone".to_owned(), zone.to_owned())].into(),
            certificates: anchors.iter().map(|anchor| pem(anchor.as_bytes())).collect::<String>(),
        }
    }

    fn bundles() -> Vec<TrustBundle> {
        vec![
            bundle("plain", "", "a", &["one", "two", "one"]),
            bundle("s:1", "example.com/s", "a", &["two", "three"]),
            bundle("s:2", "example.com/s", "b", &["three", "four"]),
            bundle("t:1", "example.com/t", "a", &["five"]),
        ]
    }

    fn read(source: Value, pod: &str) -> Result<Vec<String>, String> {
        let source = serde_json::from_value(source).unwrap();
        let text = trust_anchors(&source, bundles().iter(), &pod.into())?;
        Ok(blocks(&text).into_iter().map(|anchor| String::from_utf8(anchor).unwrap()).collect())
    }

    fn sorted(source: Value) -> Result<Vec<String>, String> {
        read(source, "u").map(|mut anchors| {
            anchors.sort();
            anchors
        })
    }

    #[test]
    fn selects_by_name_or_by_signer_and_labels() {
        let cases: [(Value, &[&str]); 7] = [
            (json!({"path": "p", "name": "plain"}), &["one", "two"]),
            (json!({"path": "p", "name": "gone", "optional": true}), &[]),
            (
                json!({"path": "p", "signerName": "example.com/s", "labelSelector": {}}),
                &["four", "three", "two"],
            ),
            (
                json!({"path": "p", "signerName": "example.com/s", "labelSelector": {"matchLabels": {"zone": "b"}}}),
                &["four", "three"],
            ),
            (
                json!({"path": "p", "signerName": "example.com/s", "labelSelector": {"matchExpressions": [
                    {"key": "zone", "operator": "NotIn", "values": ["b"]}, {"key": "x", "operator": "DoesNotExist"},
                ]}}),
                &["three", "two"],
            ),
            (json!({"path": "p", "signerName": "example.com/s", "optional": true}), &[]),
            (
                json!({"path": "p", "signerName": "example.com/none", "labelSelector": {}, "optional": true}),
                &[],
            ),
        ];
        for (source, expected) in cases {
            assert_eq!(sorted(source.clone()).unwrap(), expected, "{source}");
        }
    }

    #[test]
    fn missing_bundle_is_an_error_unless_optional() {
        for (source, expected) in [
            (json!({"path": "p", "name": "gone"}), "\"gone\" not found"),
            (json!({"path": "p", "signerName": "example.com/s"}), "matched zero ClusterTrustBundles"),
            (json!({"path": "p"}), "requires either name or signerName"),
        ] {
            let problem = sorted(source.clone()).unwrap_err();
            assert!(problem.contains(expected), "{source}: {problem}");
        }
    }

    #[test]
    fn order_differs_between_pods_and_is_stable() {
        let source = || json!({"path": "p", "signerName": "example.com/s", "labelSelector": {}});
        assert_eq!(read(source(), "a").unwrap(), read(source(), "a").unwrap());
        let orders: BTreeSet<_> =
            ["a", "b", "c", "d", "e", "f"].map(|pod| read(source(), pod).unwrap()).into();
        assert!(orders.len() > 1, "{orders:?}");
    }

    #[test]
    fn wraps_pem_lines() {
        let text = pem(&[7; 100]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), lines[1].len()), (5, 64));
        assert_eq!(blocks(&text), [vec![7; 100]]);
        assert!(blocks("-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----").is_empty());
    }
}
