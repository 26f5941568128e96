//! Finds pods and containers by the names that users type.

use anyhow::bail;
use k8s_openapi::List;
use k8s_openapi::api::core::v1::Pod;
use model::local_api::{FileReport, FileState, paths};

use super::client::Client;

/// Finds a pod by `NAME`, `NAMESPACE/NAME` or `pod/NAME`. The name of a static pod may omit the name of the node.
pub(super) async fn find(client: &Client, name: &str, namespace: Option<&str>) -> anyhow::Result<Pod> {
    let pods: List<Pod> = client.get(paths::PODS).await?;
    match choose(&pods.items, name, namespace) {
        Ok(found) => Ok(found.clone()),
        Err(error) => {
            // The pod may be in a manifest that was rejected.
            let has_suggestion = error.contains("Did you mean");
            let files = rejected_files(client).await.into_iter();
            let files = files.filter(|(stem, _)| !has_suggestion || distance(stem, name).is_some());
            bail!("{}", [error].into_iter().chain(files.map(|(_, text)| text)).collect::<Vec<_>>().join("\n"))
        }
    }
}

/// The stem of each rejected manifest file, with a message.
async fn rejected_files(client: &Client) -> Vec<(String, String)> {
    let Ok(files) = client.get::<Vec<FileReport>>(paths::MANIFESTS).await else { return Vec::new() };
    let rejected = files.iter().filter(|file| file.state == FileState::Rejected);
    rejected
        .map(|file| {
            let problem = file.problems.first().map(String::as_str).unwrap_or_default();
            let stem = file.path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
            let message = format!("The manifest {} was rejected: {problem}", file.path.display());
            (stem.unwrap_or_default(), message)
        })
        .collect()
}

/// Namespace and name.
pub(super) fn name_of(pod: &Pod) -> (&str, &str) {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or("default");
    (namespace, pod.metadata.name.as_deref().unwrap_or_default())
}

/// Whether `requested` is a name of the pod, in one of the forms that [`find`] accepts.
pub(super) fn has_name(pod: &Pod, requested: &str) -> bool {
    let (namespace, name) = name_of(pod);
    let requested = strip_kind(requested);
    let (requested_namespace, requested) = match requested.split_once('/') {
        Some((namespace, name)) => (Some(namespace), name),
        None => (None, requested),
    };
    requested_namespace.is_none_or(|requested| requested == namespace)
        && (name == requested || short_name(pod) == requested)
}

fn strip_kind(name: &str) -> &str {
    let kinds = ["pods/", "pod/", "po/"];
    kinds.iter().find_map(|kind| name.strip_prefix(kind)).unwrap_or(name)
}

/// The name in the manifest of a static pod: without the name of the node.
fn short_name(pod: &Pod) -> &str {
    let (_, name) = name_of(pod);
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
    name.strip_suffix(node)
        .and_then(|rest| rest.strip_suffix('-'))
        .filter(|rest| !rest.is_empty())
        .unwrap_or(name)
}

fn choose<'a>(pods: &'a [Pod], name: &str, namespace: Option<&str>) -> Result<&'a Pod, String> {
    let is_in_namespace = |pod: &&Pod| namespace.is_none_or(|namespace| name_of(pod).0 == namespace);
    let mut found: Vec<&Pod> =
        pods.iter().filter(is_in_namespace).filter(|pod| has_name(pod, name)).collect();
    // The full name wins over a short name.
    if found.iter().any(|pod| name_of(pod).1 == name) {
        found.retain(|pod| name_of(pod).1 == name);
    }
    match found.as_slice() {
        [only] => Ok(only),
        [] => Err(not_found(pods, strip_kind(name), namespace)),
        several => {
            let names: Vec<String> =
                several.iter().map(|pod| format!("{}/{}", name_of(pod).0, name_of(pod).1)).collect();
            Err(format!("{name:?} matches {}; choose one with -n NAMESPACE", names.join(" or ")))
        }
    }
}

fn not_found(pods: &[Pod], requested: &str, namespace: Option<&str>) -> String {
    let in_namespace = namespace.map(|namespace| format!(" in namespace {namespace:?}")).unwrap_or_default();
    let mut similar: Vec<(usize, String)> = pods
        .iter()
        .filter_map(|pod| {
            let distances =
                [name_of(pod).1, short_name(pod)].into_iter().filter_map(|name| distance(name, requested));
            Some((distances.min()?, format!("{}/{}", name_of(pod).0, name_of(pod).1)))
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
    format!("pod {requested:?} not found{in_namespace}{hint}")
}

/// The edit distance of a requested name to a known one; `None` if they are too different to be a typo.
pub(super) fn distance(known: &str, requested: &str) -> Option<usize> {
    let distance = strsim::osa_distance(known, requested);
    let is_part = requested.chars().count() > 1 && known.contains(requested);
    (distance <= 1 + requested.chars().count() / 5 || is_part).then_some(distance)
}

/// The requested container, or the default container of the pod.
pub(super) fn container(pod: &Pod, requested: Option<&str>) -> anyhow::Result<String> {
    let names = container_names(pod);
    let (namespace, name) = name_of(pod);
    if let Some(requested) = requested {
        if names.iter().any(|name| name == requested) {
            return Ok(requested.to_owned());
        }
        bail!("pod {namespace}/{name} has no container {requested:?}; it has {}", names.join(", "));
    }
    let regular: Vec<&str> =
        pod.spec.iter().flat_map(|spec| &spec.containers).map(|container| container.name.as_str()).collect();
    let annotations = pod.metadata.annotations.as_ref();
    let default = annotations.and_then(|all| all.get("kubectl.kubernetes.io/default-container"));
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
    fn finds_pods_by_all_name_forms() {
        let pods = [pod("default", "web-node-a"), pod("kube-system", "dns-node-a"), pod("default", "cache")];
        for name in ["web", "web-node-a", "default/web", "pod/web", "po/web-node-a"] {
            assert_eq!(name_of(choose(&pods, name, None).unwrap()).1, "web-node-a", "{name}");
        }
        assert!(choose(&pods, "web", Some("kube-system")).is_err());
        assert!(choose(&pods, "node-a", None).is_err());
    }

    #[test]
    fn suggests_similar_pod_names() {
        let pods = [pod("default", "web-node-a"), pod("kube-system", "dns-node-a")];
        let error = choose(&pods, "wbe", None).unwrap_err();
        assert_eq!(error, "pod \"wbe\" not found\nDid you mean default/web-node-a?");
        let error = choose(&pods, "quite-another", None).unwrap_err();
        assert!(error.contains("podward get pods"), "{error}");
        assert!(choose(&[], "x", None).unwrap_err().contains("no pods"));
    }

    #[test]
    fn ambiguous_name_lists_matching_pods() {
        let pods = [pod("a", "web-node-a"), pod("b", "web-node-a")];
        let error = choose(&pods, "web", None).unwrap_err();
        assert!(error.contains("a/web-node-a or b/web-node-a"), "{error}");
        assert_eq!(name_of(choose(&pods, "web", Some("b")).unwrap()).0, "b");
        assert_eq!(name_of(choose(&pods, "b/web", None).unwrap()).0, "b");
    }

    #[test]
    fn unknown_container_lists_existing_ones() {
        let pod = pod("default", "web-node-a");
        assert_eq!(container(&pod, None).unwrap(), "main");
        assert_eq!(container(&pod, Some("side")).unwrap(), "side");
        let error = container(&pod, Some("mian")).unwrap_err().to_string();
        assert!(error.contains("it has main, side"), "{error}");
    }
}
