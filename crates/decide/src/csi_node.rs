//! What drivers make the cluster know about this node.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, CSINodeDriver, CSINodeSpec, VolumeNodeResources};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::{Value, json};

const NODE_IDS: &str = "csi.volume.kubernetes.io/nodeid";
const MIGRATED: &str = "storage.alpha.kubernetes.io/migrated-plugins";
/// Kinds of volumes that were built in once and are drivers now.
const MIGRATED_PLUGINS: &str = "kubernetes.io/aws-ebs,kubernetes.io/azure-disk,kubernetes.io/azure-file,\
                                kubernetes.io/cinder,kubernetes.io/gce-pd,kubernetes.io/portworx-volume,\
                                kubernetes.io/vsphere-volume";

/// The cluster sets no bound, and a time too far away cannot be reckoned with.
const LONGEST_REFRESH: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// A driver as it knows the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverOnNode {
    /// The driver's name.
    pub name: String,
    /// Its name for the node.
    pub node_id: String,
    /// How many volumes it can have; 0 is no limit.
    pub most_volumes: i64,
    /// Where the node is.
    pub topology: BTreeMap<String, String>,
}

/// The highest version of CSI among those a driver offers that we speak.
///
/// # Errors
/// When there is none.
pub fn supported_version(driver: &str, versions: &[String]) -> Result<(u32, u32, u32), String> {
    if versions.is_empty() {
        return Err(format!(
            "kubernetes.io/csi: ValidatePlugin for CSI driver {driver:?} failed. Plugin returned an empty list for \
             supported versions"
        ));
    }
    let known = versions.iter().filter_map(|text| version(text)).filter(|(major, ..)| *major == 1);
    known.max().ok_or_else(|| {
        format!(
            "kubernetes.io/csi: ValidatePlugin for CSI driver {driver:?} failed. None of the versions specified \
             {versions:?} are supported"
        )
    })
}

/// The CSINode that a node begins with.
#[must_use]
pub fn new_csi_node(node: &str, uid: &str) -> CSINode {
    CSINode {
        metadata: ObjectMeta {
            name: Some(node.to_owned()),
            annotations: Some([(MIGRATED.to_owned(), MIGRATED_PLUGINS.to_owned())].into()),
            owner_references: Some(vec![OwnerReference {
                api_version: "v1".to_owned(),
                kind: "Node".to_owned(),
                name: node.to_owned(),
                uid: uid.to_owned(),
                ..OwnerReference::default()
            }]),
            ..ObjectMeta::default()
        },
        spec: CSINodeSpec { drivers: Vec::new() },
    }
}

/// Whether a CSINode belongs to the node with that UID, not to one of the same name that was there before.
#[must_use]
pub fn is_owned_by(object: &CSINode, node: &str, uid: &str) -> bool {
    let mut owners = object.metadata.owner_references.iter().flatten();
    owners.any(|owner| owner.kind == "Node" && owner.name == node && owner.uid == uid)
}

/// The CSINode with a driver and with what is served by drivers, `None` if it has both already.
#[must_use]
pub fn with_driver(object: &CSINode, driver: &DriverOnNode) -> Option<CSINode> {
    let entry = CSINodeDriver {
        name: driver.name.clone(),
        node_id: driver.node_id.clone(),
        topology_keys: Some(driver.topology.keys().cloned().collect()),
        allocatable: allocatable(driver.most_volumes),
    };
    let known = object.spec.drivers.iter().find(|known| known.name == driver.name);
    if known.is_some_and(|known| is_same(known, &entry)) && names_migrated(object) {
        return None;
    }
    let mut changed = object.clone();
    // An older agent may have left a shorter list.
    let annotations = changed.metadata.annotations.get_or_insert_default();
    annotations.insert(MIGRATED.to_owned(), MIGRATED_PLUGINS.to_owned());
    changed.spec.drivers.retain(|known| known.name != driver.name);
    changed.spec.drivers.push(entry);
    Some(changed)
}

/// How often a driver is asked anew how many volumes the node can have; `None` if its registration settles that.
#[must_use]
pub fn refresh_period(driver: &CSIDriver) -> Option<Duration> {
    let seconds = driver.spec.node_allocatable_update_period_seconds?;
    let seconds = u64::try_from(seconds).ok().filter(|seconds| *seconds > 0)?;
    Some(Duration::from_secs(seconds).min(LONGEST_REFRESH))
}

/// The CSINode without a driver, `None` if it does not have it.
#[must_use]
pub fn without_driver(object: &CSINode, name: &str) -> Option<CSINode> {
    let mut changed = object.clone();
    changed.spec.drivers.retain(|known| known.name != name);
    (changed.spec.drivers.len() != object.spec.drivers.len()).then_some(changed)
}

/// The patch that tells of a driver on the Node: its name for it and where it is; `None` if nothing changes.
///
/// # Errors
/// When the node is said to be somewhere else, or its annotation cannot be read.
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
    let named = ids.insert(driver.name.clone(), driver.node_id.clone()) == Some(driver.node_id.clone());
    let placed = driver.topology.keys().all(|key| labels.is_some_and(|labels| labels.contains_key(key)));
    if named && placed {
        return Ok(None);
    }
    Ok(Some(
        json!({"metadata": {"annotations": {NODE_IDS: json!(ids).to_string()}, "labels": driver.topology}}),
    ))
}

/// The patch that takes a driver's name for the node back; `None` if there is none. Labels stay: pods were placed by
/// them.
///
/// # Errors
/// When the annotation cannot be read.
pub fn node_patch_without(node: &Node, name: &str) -> Result<Option<Value>, String> {
    let mut ids = node_ids(node)?;
    if ids.remove(name).is_none() {
        return Ok(None);
    }
    let value = if ids.is_empty() { Value::Null } else { json!(json!(ids).to_string()) };
    Ok(Some(json!({"metadata": {"annotations": {NODE_IDS: value}}})))
}

fn node_ids(node: &Node) -> Result<BTreeMap<String, String>, String> {
    let annotation = node.metadata.annotations.as_ref().and_then(|annotations| annotations.get(NODE_IDS));
    match annotation.filter(|text| !text.is_empty()) {
        Some(text) => serde_json::from_str(text).map_err(|error| {
            format!("failed to parse node's {NODE_IDS:?} annotation value ({text:?}) err={error}")
        }),
        None => Ok(BTreeMap::new()),
    }
}

/// Whether the scheduler is told of all kinds of volumes that were built in once.
fn names_migrated(object: &CSINode) -> bool {
    let told = object.metadata.annotations.as_ref().and_then(|annotations| annotations.get(MIGRATED));
    let set = |text: &str| -> BTreeSet<String> { text.split(',').map(str::to_owned).collect() };
    told.is_some_and(|text| set(text) == set(MIGRATED_PLUGINS))
}

fn allocatable(most: i64) -> Option<VolumeNodeResources> {
    let count = i32::try_from(most).unwrap_or(i32::MAX);
    (count > 0).then_some(VolumeNodeResources { count: Some(count) })
}

fn is_same(one: &CSINodeDriver, other: &CSINodeDriver) -> bool {
    let keys = |driver: &CSINodeDriver| -> BTreeSet<String> {
        driver.topology_keys.iter().flatten().cloned().collect()
    };
    let count = |driver: &CSINodeDriver| driver.allocatable.as_ref().and_then(|found| found.count);
    one.node_id == other.node_id && keys(one) == keys(other) && count(one) == count(other)
}

fn version(text: &str) -> Option<(u32, u32, u32)> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let plain = text.split(['-', '+']).next().unwrap_or(text);
    let mut parts = plain.split('.').map(|part| part.parse::<u32>().ok());
    Some((parts.next()??, parts.next().unwrap_or(Some(0))?, parts.next().unwrap_or(Some(0))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn driver(name: &str, most_volumes: i64, topology: &[(&str, &str)]) -> DriverOnNode {
        let topology = topology.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        DriverOnNode { name: name.into(), node_id: "id".into(), most_volumes, topology: topology.collect() }
    }

    #[test]
    fn versions_of_csi_1_are_spoken() {
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
    fn drivers_come_change_and_go() {
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
    fn a_csi_node_of_an_older_agent_gets_todays_migrated_plugins() {
        let there = with_driver(&new_csi_node("n", "uid"), &driver("a", 0, &[])).unwrap();
        let mut reordered: Vec<&str> = MIGRATED_PLUGINS.split(',').collect();
        reordered.reverse();
        for (told, is_kept) in [
            (None, false),
            (Some(String::new()), false),
            (Some("kubernetes.io/cinder".to_owned()), false),
            (Some(reordered.join(",")), true),
        ] {
            let mut older = there.clone();
            older.metadata.annotations = told.clone().map(|text| [(MIGRATED.to_owned(), text)].into());
            let changed = with_driver(&older, &driver("a", 0, &[]));
            assert_eq!(changed.is_none(), is_kept, "{told:?}");
            assert!(is_kept || changed.unwrap() == there, "{told:?}");
        }
    }

    fn node(ids: Option<&str>, labels: &[(&str, &str)]) -> Node {
        let metadata = json!({
            "annotations": ids.map(|ids| json!({NODE_IDS: ids})),
            "labels": labels.iter().copied().collect::<BTreeMap<_, _>>(),
        });
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    #[test]
    fn the_node_carries_the_drivers_names_for_it_and_its_place() {
        let placed = driver("a", 0, &[("zone", "z")]);
        let patch = node_patch(&node(None, &[]), &placed).unwrap().unwrap();
        let expected = json!({"metadata": {
            "annotations": {NODE_IDS: "{\"a\":\"id\"}"}, "labels": {"zone": "z"},
        }});
        assert_eq!(patch, expected);
        let both = node(Some("{\"a\":\"id\",\"b\":\"x\"}"), &[("zone", "z")]);
        assert_eq!(node_patch(&both, &placed), Ok(None));
        assert_eq!(
            node_patch(&node(None, &[("zone", "y")]), &placed).unwrap_err(),
            "detected topology value collision: driver reported \"zone\":\"z\" but existing label is \"zone\":\"y\""
        );
        assert!(node_patch(&node(Some("x"), &[]), &placed).is_err());
        let patch = node_patch_without(&both, "a").unwrap().unwrap();
        assert_eq!(patch, json!({"metadata": {"annotations": {NODE_IDS: "{\"b\":\"x\"}"}}}));
        let last = node_patch_without(&node(Some("{\"a\":\"id\"}"), &[]), "a").unwrap().unwrap();
        assert_eq!(last, json!({"metadata": {"annotations": {NODE_IDS: null}}}));
        assert_eq!(node_patch_without(&both, "c"), Ok(None));
    }

    #[test]
    fn the_cluster_says_how_often_a_driver_is_asked_again() {
        let longest = Some(LONGEST_REFRESH.as_secs());
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
