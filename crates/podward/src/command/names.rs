//! Finds the pod that is meant.

use anyhow::bail;
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use super::client::{Client, typed};

/// All pods of the node.
pub(super) async fn pods(client: &Client) -> anyhow::Result<Vec<Pod>> {
    read_pods(&client.json("/pods").await?)
}

/// The pods of a list.
pub(super) fn read_pods(list: &Value) -> anyhow::Result<Vec<Pod>> {
    let items = list.get("items").and_then(Value::as_array).into_iter().flatten();
    items.map(|item| Ok(typed(item)?)).collect()
}

/// The pod that is meant by a name, with or without the node's, `NAMESPACE/NAME` or `pod/NAME`.
pub(super) async fn find(client: &Client, wanted: &str, namespace: Option<&str>) -> anyhow::Result<Pod> {
    let pods = pods(client).await?;
    match choose(&pods, wanted, namespace) {
        Ok(found) => Ok(found.clone()),
        Err(error) => {
            let has_guess = error.contains("Did you mean");
            let files = rejected_files(client).await.into_iter();
            let files = files.filter(|(stem, _)| !has_guess || distance(stem, wanted).is_some());
            bail!("{}", [error].into_iter().chain(files.map(|(_, text)| text)).collect::<Vec<_>>().join("\n"))
        }
    }
}

/// Manifest files that are no pods because something is wrong with them, by the stem of their name: the pod may be meant
/// to be in one.
async fn rejected_files(client: &Client) -> Vec<(String, String)> {
    let Ok(files) = client.json("/podward/manifests").await else { return Vec::new() };
    let rejected = files.as_array().into_iter().flatten().filter(|file| file["state"] == "rejected");
    rejected
        .map(|file| {
            let problem = file["problems"][0].as_str().unwrap_or_default();
            let path = file["path"].as_str().unwrap_or_default();
            let stem = std::path::Path::new(path).file_stem().map(|stem| stem.to_string_lossy().into_owned());
            (stem.unwrap_or_default(), format!("The manifest {path} was rejected: {problem}"))
        })
        .collect()
}

/// The name and namespace of a pod.
pub(super) fn name_of(pod: &Pod) -> (&str, &str) {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
    (namespace, pod.metadata.name.as_deref().unwrap_or_default())
}

/// Whether a pod is called so, with or without the node's name.
pub(super) fn is_called(pod: &Pod, wanted: &str) -> bool {
    let (namespace, name) = name_of(pod);
    let wanted = strip_kind(wanted);
    let (in_namespace, wanted) = match wanted.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, wanted),
    };
    in_namespace.is_none_or(|wanted| wanted == namespace) && (name == wanted || short_name(pod) == wanted)
}

fn strip_kind(wanted: &str) -> &str {
    let kinds = ["pods/", "pod/", "po/"];
    kinds.iter().find_map(|kind| wanted.strip_prefix(kind)).unwrap_or(wanted)
}

/// A static pod's name as its manifest has it.
fn short_name(pod: &Pod) -> &str {
    let (_, name) = name_of(pod);
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
    name.strip_suffix(node)
        .and_then(|rest| rest.strip_suffix('-'))
        .filter(|rest| !rest.is_empty())
        .unwrap_or(name)
}

fn choose<'a>(pods: &'a [Pod], wanted: &str, namespace: Option<&str>) -> Result<&'a Pod, String> {
    let inside = |pod: &&Pod| namespace.is_none_or(|namespace| name_of(pod).0 == namespace);
    let mut found: Vec<&Pod> = pods.iter().filter(inside).filter(|pod| is_called(pod, wanted)).collect();
    // The whole name wins over one that only begins so.
    if found.iter().any(|pod| name_of(pod).1 == wanted) {
        found.retain(|pod| name_of(pod).1 == wanted);
    }
    match found.as_slice() {
        [only] => Ok(only),
        [] => Err(unknown(pods, strip_kind(wanted), namespace)),
        several => {
            let names: Vec<String> =
                several.iter().map(|pod| format!("{}/{}", name_of(pod).0, name_of(pod).1)).collect();
            Err(format!("{wanted:?} may be {}; say which with -n NAMESPACE", names.join(" or ")))
        }
    }
}

fn unknown(pods: &[Pod], wanted: &str, namespace: Option<&str>) -> String {
    let place = namespace.map(|namespace| format!(" in namespace {namespace:?}")).unwrap_or_default();
    let mut similar: Vec<(usize, String)> = pods
        .iter()
        .filter_map(|pod| {
            let near =
                [name_of(pod).1, short_name(pod)].into_iter().filter_map(|name| distance(name, wanted));
            Some((near.min()?, format!("{}/{}", name_of(pod).0, name_of(pod).1)))
        })
        .collect();
    similar.sort();
    let names: Vec<String> = similar.into_iter().take(3).map(|(_, name)| name).collect();
    let hint = match names.as_slice() {
        [] if pods.is_empty() => {
            "\nThe node has no pods; `podward get sources` shows where they come from.".to_owned()
        }
        [] => "\n`podward get pods` lists the pods of this node.".to_owned(),
        names => format!("\nDid you mean {}?", names.join(" or ")),
    };
    format!("pod {wanted:?} not found{place}{hint}")
}

/// How far a word is from a known one, if it may be meant: a few letters are wrong, or it is a part of it.
pub(super) fn distance(known: &str, wanted: &str) -> Option<usize> {
    let wrong = strsim::osa_distance(known, wanted);
    let is_part = wanted.chars().count() > 1 && known.contains(wanted);
    (wrong <= 1 + wanted.chars().count() / 5 || is_part).then_some(wrong)
}

/// The container that is meant.
pub(super) fn container(pod: &Pod, wanted: Option<&str>) -> anyhow::Result<String> {
    let names = container_names(pod);
    let (namespace, name) = name_of(pod);
    if let Some(wanted) = wanted {
        if names.iter().any(|name| name == wanted) {
            return Ok(wanted.to_owned());
        }
        bail!("pod {namespace}/{name} has no container {wanted:?}; it has {}", names.join(", "));
    }
    let regular: Vec<&str> =
        pod.spec.iter().flat_map(|spec| &spec.containers).map(|container| container.name.as_str()).collect();
    let annotation = pod.metadata.annotations.as_ref();
    let default = annotation.and_then(|all| all.get("kubectl.kubernetes.io/default-container"));
    if let Some(default) = default.filter(|default| names.contains(*default)) {
        return Ok(default.clone());
    }
    let Some(first) = regular.first() else { bail!("pod {namespace}/{name} has no containers") };
    if names.len() > 1 {
        eprintln!("Defaulted container {first:?} out of: {}", names.join(", "));
    }
    Ok((*first).to_owned())
}

fn container_names(pod: &Pod) -> Vec<String> {
    let Some(spec) = &pod.spec else { return Vec::new() };
    let regular = spec.containers.iter().map(|container| container.name.clone());
    let init = spec.init_containers.iter().flatten().map(|container| container.name.clone());
    let ephemeral = spec.ephemeral_containers.iter().flatten().map(|container| container.name.clone());
    regular.chain(init).chain(ephemeral).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(namespace: &str, name: &str) -> Pod {
        serde_json::from_value(serde_json::json!({"metadata": {"namespace": namespace, "name": name},
            "spec": {"nodeName": "node-a", "containers": [{"name": "main"}, {"name": "side"}]}}))
        .unwrap()
    }

    #[test]
    fn pods_are_found_by_what_people_call_them() {
        let pods = [pod("default", "web-node-a"), pod("kube-system", "dns-node-a"), pod("default", "cache")];
        for wanted in ["web", "web-node-a", "default/web", "pod/web", "po/web-node-a"] {
            assert_eq!(name_of(choose(&pods, wanted, None).unwrap()).1, "web-node-a", "{wanted}");
        }
        assert!(choose(&pods, "web", Some("kube-system")).is_err());
        assert!(choose(&pods, "node-a", None).is_err());
    }

    #[test]
    fn a_near_miss_is_told() {
        let pods = [pod("default", "web-node-a"), pod("kube-system", "dns-node-a")];
        let error = choose(&pods, "wbe", None).unwrap_err();
        assert_eq!(error, "pod \"wbe\" not found\nDid you mean default/web-node-a?");
        let error = choose(&pods, "quite-another", None).unwrap_err();
        assert!(error.contains("podward get pods"), "{error}");
        assert!(choose(&[], "x", None).unwrap_err().contains("no pods"));
    }

    #[test]
    fn two_pods_of_one_name_are_told_apart() {
        let pods = [pod("a", "web-node-a"), pod("b", "web-node-a")];
        let error = choose(&pods, "web", None).unwrap_err();
        assert!(error.contains("a/web-node-a or b/web-node-a"), "{error}");
        assert_eq!(name_of(choose(&pods, "web", Some("b")).unwrap()).0, "b");
        assert_eq!(name_of(choose(&pods, "b/web", None).unwrap()).0, "b");
    }

    #[test]
    fn a_container_that_is_not_there_is_told() {
        let pod = pod("default", "web-node-a");
        assert_eq!(container(&pod, None).unwrap(), "main");
        assert_eq!(container(&pod, Some("side")).unwrap(), "side");
        let error = container(&pod, Some("mian")).unwrap_err().to_string();
        assert!(error.contains("it has main, side"), "{error}");
    }
}
