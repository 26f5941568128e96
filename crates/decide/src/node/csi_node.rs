//! Registration of CSI drivers in the CSINode and Node objects.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, CSINodeDriver, CSINodeSpec, VolumeNodeResources};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::owner::node_owner;

const NODE_ID_ANNOTATION: &str = "csi.volume.kubernetes.io/nodeid";
const MIGRATED_ANNOTATION: &str = "storage.alpha.kubernetes.io/migrated-plugins";
/// Former in-tree volume plugins that are served by CSI drivers.
const MIGRATED_PLUGINS: &str = "kubernetes.io/aws-ebs,kubernetes.io/azure-disk,kubernetes.io/azure-file,\
                                kubernetes.io/cinder,kubernetes.io/gce-pd,kubernetes.io/portworx-volume,\
                                kubernetes.io/vsphere-volume";

/// The API does not limit the period; a larger one would overflow when added to an instant.
const MAX_REFRESH_PERIOD: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// The answer of a driver to `NodeGetInfo`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverOnNode {
    pub name: String,
    /// The driver's ID for the node.
    pub node_id: String,
    /// 0 means no limit.
    pub max_volumes: i64,
    pub topology: BTreeMap<String, String>,
}

/// The highest supported CSI version among those that a driver offers.
///
/// # Errors
/// When none is supported.
pub fn supported_version(driver: &str, versions: &[String]) -> Result<(u32, u32, u32), String> {
    if versions.is_empty() {
        return Err(format!(
            "kubernetes.io/csi: ValidatePlugin for CSI driver {driver:?} failed. Plugin returned an empty list for \
             supported versions"
        ));
    }
    let supported = versions.iter().filter_map(|text| parse_version(text)).filter(|(major, ..)| *major == 1);
    supported.max().ok_or_else(|| {
        format!(
            "kubernetes.io/csi: ValidatePlugin for CSI driver {driver:?} failed. None of the versions specified \
             {versions:?} are supported"
        )
    })
}

/// A CSINode without drivers.
pub fn new_csi_node(node: &str, uid: &str) -> CSINode {
    CSINode {
        metadata: ObjectMeta {
            name: Some(node.to_owned()),
            annotations: Some([(MIGRATED_ANNOTATION.to_owned(), MIGRATED_PLUGINS.to_owned())].into()),
            owner_references: Some(vec![node_owner(node, uid)]),
            ..ObjectMeta::default()
        },
        spec: CSINodeSpec { drivers: Vec::new() },
    }
}

/// Whether the CSINode belongs to the Node with this UID and not to an earlier one of the same name.
pub fn is_owned_by(object: &CSINode, node: &str, uid: &str) -> bool {
    let mut owners = object.metadata.owner_references.iter().flatten();
    owners.any(|owner| owner.kind == "Node" && owner.name == node && owner.uid == uid)
}

/// The CSINode with the driver and the current list of migrated plugins; `None` if it has both already.
pub fn with_driver(object: &CSINode, driver: &DriverOnNode) -> Option<CSINode> {
    let entry = CSINodeDriver {
        name: driver.name.clone(),
        node_id: driver.node_id.clone(),
        topology_keys: Some(driver.topology.keys().cloned().collect()),
        allocatable: allocatable(driver.max_volumes),
    };
    let existing = object.spec.drivers.iter().find(|existing| existing.name == driver.name);
    if existing.is_some_and(|existing| is_same_driver(existing, &entry)) && lists_migrated_plugins(object) {
        return None;
    }
    let mut changed = object.clone();
    // An older agent may have written a shorter list.
    let annotations = changed.metadata.annotations.get_or_insert_default();
    annotations.insert(MIGRATED_ANNOTATION.to_owned(), MIGRATED_PLUGINS.to_owned());
    changed.spec.drivers.retain(|existing| existing.name != driver.name);
    changed.spec.drivers.push(entry);
    Some(changed)
}

/// The period of `NodeGetInfo` calls that update the driver's volume limit; `None` if it is read only at registration.
pub fn refresh_period(driver: &CSIDriver) -> Option<Duration> {
    let seconds = driver.spec.node_allocatable_update_period_seconds?;
    let seconds = u64::try_from(seconds).ok().filter(|seconds| *seconds > 0)?;
    Some(Duration::from_secs(seconds).min(MAX_REFRESH_PERIOD))
}

/// The CSINode without the driver; `None` if it does not have it.
pub fn without_driver(object: &CSINode, name: &str) -> Option<CSINode> {
    let mut changed = object.clone();
    changed.spec.drivers.retain(|existing| existing.name != name);
    (changed.spec.drivers.len() != object.spec.drivers.len()).then_some(changed)
}

/// The Node patch that adds the node ID annotation and the topology labels of a driver; `None` if nothing changes.
///
/// # Errors
/// When a topology label has another value, or the annotation cannot be parsed.
pub fn node_patch(node: &Node, driver: &DriverOnNode) -> Result<Option<Value>, String> {
    let labels = node.metadata.labels.as_ref();
    for (key, value) in &driver.topology {
        if let Some(other) = labels.and_then(|labels| labels.get(key)).filter(|other| *other != value) {
            return Err(format!(
                "detected topology value collision: driver reported {key:?}:{value:?} but existing label is \
                 {key:?}:{other:?}"
            ));
        }
    }
    let mut ids = node_ids(node)?;
    let has_id = ids.insert(driver.name.clone(), driver.node_id.clone()) == Some(driver.node_id.clone());
    let has_labels = driver.topology.keys().all(|key| labels.is_some_and(|labels| labels.contains_key(key)));
    if has_id && has_labels {
        return Ok(None);
    }
    Ok(Some(
        json!({"metadata": {"annotations": {NODE_ID_ANNOTATION: json!(ids).to_string()}, "labels": driver.topology}}),
    ))
}

/// The Node patch that removes a driver's node ID; `None` if it has none. Topology labels stay, because pods were
/// scheduled by them.
///
/// # Errors
/// When the annotation cannot be parsed.
pub fn node_patch_without(node: &Node, name: &str) -> Result<Option<Value>, String> {
    let mut ids = node_ids(node)?;
    if ids.remove(name).is_none() {
        return Ok(None);
    }
    let value = if ids.is_empty() { Value::Null } else { json!(json!(ids).to_string()) };
    Ok(Some(json!({"metadata": {"annotations": {NODE_ID_ANNOTATION: value}}})))
}

fn node_ids(node: &Node) -> Result<BTreeMap<String, String>, String> {
    let annotation =
        node.metadata.annotations.as_ref().and_then(|annotations| annotations.get(NODE_ID_ANNOTATION));
    match annotation.filter(|text| !text.is_empty()) {
        Some(text) => serde_json::from_str(text).map_err(|error| {
            format!("failed to parse node's {NODE_ID_ANNOTATION:?} annotation value ({text:?}) err={error}")
        }),
        None => Ok(BTreeMap::new()),
    }
}

/// Whether the annotation lists all migrated plugins.
fn lists_migrated_plugins(object: &CSINode) -> bool {
    let annotation =
        object.metadata.annotations.as_ref().and_then(|annotations| annotations.get(MIGRATED_ANNOTATION));
    let set = |text: &str| -> BTreeSet<String> { text.split(',').map(str::to_owned).collect() };
    annotation.is_some_and(|text| set(text) == set(MIGRATED_PLUGINS))
}

fn allocatable(max_volumes: i64) -> Option<VolumeNodeResources> {
    let count = i32::try_from(max_volumes).unwrap_or(i32::MAX);
    (count > 0).then_some(VolumeNodeResources { count: Some(count) })
}

fn is_same_driver(one: &CSINodeDriver, other: &CSINodeDriver) -> bool {
    let keys = |driver: &CSINodeDriver| -> BTreeSet<String> {
        driver.topology_keys.iter().flatten().cloned().collect()
    };
    let count = |driver: &CSINodeDriver| driver.allocatable.as_ref().and_then(|found| found.count);
    one.node_id == other.node_id && keys(one) == keys(other) && count(one) == count(other)
}

fn parse_version(text: &str) -> Option<(u32, u32, u32)> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let plain = text.split(['-', '+']).next().unwrap_or(text);
    let mut parts = plain.split('.').map(|part| part.parse::<u32>().ok());
    Some((parts.next()??, parts.next().unwrap_or(Some(0))?, parts.next().unwrap_or(Some(0))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn driver(name: &str, max_volumes: i64, topology: &[(&str, &str)]) -> DriverOnNode {
        let topology = topology.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        DriverOnNode { name: name.into(), node_id: "id".into(), max_volumes, topology: topology.collect() }
    }

    #[test]
    fn supports_only_csi_version_1() {
        for (versions, expected) in [
            (&["1.0.0"][..], Some((1, 0, 0))),
            (&["v1.9.0", "1.10", "0.3.0"], Some((1, 10, 0))),
            (&["1.2.0-rc1"], Some((1, 2, 0))),
            (&["2.0.0", "0.9.0"], None),
            (&["x"], None),
            (&[], None),
        ] {
            let versions: Vec<String> = versions.iter().map(|text| (*text).to_owned()).collect();
            assert_eq!(supported_version("d", &versions).ok(), expected, "{versions:?}");
        }
    }

    #[test]
    fn adds_updates_and_removes_drivers() {
        let empty = new_csi_node("n", "uid");
        assert!(is_owned_by(&empty, "n", "uid") && !is_owned_by(&empty, "n", "older"));
        let one = with_driver(&empty, &driver("a", 3, &[("zone", "z")])).unwrap();
        assert_eq!(one.spec.drivers[0].topology_keys.as_deref().unwrap(), ["zone"]);
        assert_eq!(one.spec.drivers[0].allocatable.as_ref().unwrap().count, Some(3));
        assert_eq!(with_driver(&one, &driver("a", 3, &[("zone", "other")])), None);
        for changed in [driver("a", 0, &[("zone", "z")]), driver("a", 3, &[])] {
            assert_eq!(with_driver(&one, &changed).unwrap().spec.drivers.len(), 1);
        }
        let two = with_driver(&one, &driver("b", 0, &[])).unwrap();
        assert_eq!(two.spec.drivers.len(), 2);
        assert_eq!(without_driver(&two, "a").unwrap().spec.drivers[0].name, "b");
        assert_eq!(without_driver(&two, "c"), None);
    }

    #[test]
    fn updates_migrated_plugins_of_older_agent() {
        let there = with_driver(&new_csi_node("n", "uid"), &driver("a", 0, &[])).unwrap();
        let mut reordered: Vec<&str> = MIGRATED_PLUGINS.split(',').collect();
        reordered.reverse();
        for (annotation, is_kept) in [
            (None, false),
            (Some(String::new()), false),
            (Some("kubernetes.io/cinder".to_owned()), false),
            (Some(reordered.join(",")), true),
        ] {
            let mut older = there.clone();
            older.metadata.annotations =
                annotation.clone().map(|text| [(MIGRATED_ANNOTATION.to_owned(), text)].into());
            let changed = with_driver(&older, &driver("a", 0, &[]));
            assert_eq!(changed.is_none(), is_kept, "{annotation:?}");
            assert!(is_kept || changed.unwrap() == there, "{annotation:?}");
        }
    }

    fn node(ids: Option<&str>, labels: &[(&str, &str)]) -> Node {
        let metadata = json!({
            "annotations": ids.map(|ids| json!({NODE_ID_ANNOTATION: ids})),
            "labels": labels.iter().copied().collect::<BTreeMap<_, _>>(),
        });
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    #[test]
    fn patches_node_ids_and_topology_labels() {
        let zoned = driver("a", 0, &[("zone", "z")]);
        let patch = node_patch(&node(None, &[]), &zoned).unwrap().unwrap();
        let expected = json!({"metadata": {
            "annotations": {NODE_ID_ANNOTATION: "{\"a\":\"id\"}"}, "labels": {"zone": "z"},
        }});
        assert_eq!(patch, expected);
        let both = node(Some("{\"a\":\"id\",\"b\":\"x\"}"), &[("zone", "z")]);
        assert_eq!(node_patch(&both, &zoned), Ok(None));
        assert_eq!(
            node_patch(&node(None, &[("zone", "y")]), &zoned).unwrap_err(),
            "detected topology value collision: driver reported \"zone\":\"z\" but existing label is \"zone\":\"y\""
        );
        assert!(node_patch(&node(Some("x"), &[]), &zoned).is_err());
        let patch = node_patch_without(&both, "a").unwrap().unwrap();
        assert_eq!(patch, json!({"metadata": {"annotations": {NODE_ID_ANNOTATION: "{\"b\":\"x\"}"}}}));
        let last = node_patch_without(&node(Some("{\"a\":\"id\"}"), &[]), "a").unwrap().unwrap();
        assert_eq!(last, json!({"metadata": {"annotations": {NODE_ID_ANNOTATION: null}}}));
        assert_eq!(node_patch_without(&both, "c"), Ok(None));
    }

    #[test]
    fn reads_refresh_period_from_csi_driver() {
        let longest = Some(MAX_REFRESH_PERIOD.as_secs());
        let cases = [
            (None, None),
            (Some(0), None),
            (Some(-1), None),
            (Some(10), Some(10)),
            (Some(i64::MAX), longest),
        ];
        for (seconds, expected) in cases {
            let spec = json!({"nodeAllocatableUpdatePeriodSeconds": seconds});
            let object = serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap();
            assert_eq!(refresh_period(&object), expected.map(Duration::from_secs), "{seconds:?}");
        }
    }
}
