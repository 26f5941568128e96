//! The file `cpu_manager_state`, in upstream's format, so that a node can switch between this agent and the kubelet.

use std::collections::BTreeMap;

use model::{PodLevelManagement, PodUid};
use serde_json::{Map, Value};
use values::cpu_set::{CpuSet, InvalidCpuSet};
use values::fnv::Fnv32a;

use super::CpuAssignments;
use crate::go_text::{JsonObject, json_string, quoted};

/// Older kubelets know the layout under the first name, so upstream hashes it; 1.36 accepts both.
const TYPE_NAMES: [&str; 2] = ["CPUManagerCheckpoint", "CPUManagerCheckpointV2"];

type Entries = BTreeMap<String, BTreeMap<String, String>>;
/// CPUs of whole pods, in version 3 of the layout.
type PodEntries = BTreeMap<String, CpuSet>;

/// Why a state file cannot be used. The texts are upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateFileError {
    #[error("checkpoint is corrupted")]
    Checksum,
    /// Upstream reports the failure of its last attempt, to read the file as one of Kubernetes 1.17.
    #[error(
        "json: cannot unmarshal object into Go struct field CPUManagerCheckpointV1.entries of type string"
    )]
    ChecksumWithEntries,
    #[error("{0}")]
    Unreadable(String),
    #[error(
        "failed to migrate checkpoint from v1 to v2: containerID '{0}' not found in initial containers list"
    )]
    Version1(String),
    #[error("configured policy {} differs from state checkpoint policy {}", quoted(.configured), quoted(.stored))]
    OtherPolicy { configured: String, stored: String },
    #[error("could not parse default cpu set {}: {problem}", quoted(.text))]
    SharedPool { text: String, problem: InvalidCpuSet },
    #[error("could not parse cpuset {} for container {} in pod {}: {problem}", quoted(.text), quoted(.container), quoted(.pod))]
    Entry { text: String, container: String, pod: String, problem: InvalidCpuSet },
}

/// In version 3 of the layout if the gate `PodLevelResourceManagers` is on, else in version 2.
pub fn encode(policy: &str, management: PodLevelManagement, assignments: &CpuAssignments) -> Vec<u8> {
    let texts = |containers: &BTreeMap<String, CpuSet>| {
        containers.iter().map(|(name, cpus)| (name.clone(), cpus.to_string())).collect()
    };
    let entries: Entries =
        assignments.exclusive.iter().map(|(pod, own)| (pod.as_str().to_owned(), texts(own))).collect();
    let shared = assignments.shared.to_string();
    let [name, _] = TYPE_NAMES;
    let pods: PodEntries =
        assignments.pods.iter().map(|(pod, own)| (pod.as_str().to_owned(), own.clone())).collect();
    let dumped_pods = management.is_managed().then(|| dump_pods(Some(&pods)));
    let dumped = dump(name, policy, &shared, &dump_entries(Some(&entries)), dumped_pods.as_deref());
    let checksum = Fnv32a::hash(dumped.as_bytes());
    let pod = |containers: &BTreeMap<String, String>| {
        JsonObject::of(containers.iter().map(|(name, cpus)| (name.as_str(), json_string(cpus))))
    };
    let mut file = JsonObject::default();
    file.value("policyName", &json_string(policy)).value("defaultCpuSet", &json_string(&shared));
    if !entries.is_empty() {
        let pods = entries.iter().map(|(uid, containers)| (uid.as_str(), pod(containers)));
        file.value("entries", &JsonObject::of(pods));
    }
    if management.is_managed() && !pods.is_empty() {
        let own = |cpus: &CpuSet| JsonObject::of([("cpuSet", json_string(&cpus.to_string()))].into_iter());
        file.value("podEntries", &JsonObject::of(pods.iter().map(|(uid, cpus)| (uid.as_str(), own(cpus)))));
    }
    file.value("checksum", &checksum.to_string()).finish().into_bytes()
}

/// # Errors
/// When the file is damaged or belongs to another policy.
pub fn decode(
    policy: &str,
    management: PodLevelManagement,
    content: &[u8],
) -> Result<CpuAssignments, StateFileError> {
    let file: Map<String, Value> =
        serde_json::from_slice(content).map_err(|error| StateFileError::Unreadable(error.to_string()))?;
    let text = |name: &str| file.get(name).and_then(Value::as_str).unwrap_or_default();
    let (stored_policy, shared) = (text("policyName"), text("defaultCpuSet"));
    let checksum = file.get("checksum").and_then(Value::as_u64).unwrap_or_default();
    let entries = read_entries(file.get("entries"))?;
    let dumped = dump_entries(entries.as_ref());
    let is_valid = |name: &str, pods: Option<&str>| {
        u64::from(Fnv32a::hash(dump(name, stored_policy, shared, &dumped, pods).as_bytes())) == checksum
    };
    let [name, other_name] = TYPE_NAMES;
    let pods = if management.is_managed() { read_pods(file.get("podEntries"))? } else { None };
    let is_version_3 = management.is_managed() && is_valid(name, Some(&dump_pods(pods.as_ref())));
    // Upstream accepts a file of version 2 without a checksum.
    let is_version_2 = || {
        let has_pods = management.is_managed() && pods.as_ref().is_some_and(|pods| !pods.is_empty());
        let is_known =
            checksum == 0 || is_valid(name, None) || (!management.is_managed() && is_valid(other_name, None));
        is_known && !has_pods
    };
    if !(is_version_3 || is_version_2()) {
        let has_entries = entries.is_some_and(|entries| !entries.is_empty());
        return Err(if has_entries { StateFileError::ChecksumWithEntries } else { StateFileError::Checksum });
    }
    if stored_policy != policy {
        let (configured, stored) = (policy.to_owned(), stored_policy.to_owned());
        return Err(StateFileError::OtherPolicy { configured, stored });
    }
    let parsed = |text: &str| text.parse::<CpuSet>();
    let mut assignments = CpuAssignments {
        shared: parsed(shared)
            .map_err(|problem| StateFileError::SharedPool { text: shared.to_owned(), problem })?,
        exclusive: BTreeMap::new(),
        pods: BTreeMap::new(),
    };
    for (pod, cpus) in pods.unwrap_or_default() {
        assignments.pods.insert(PodUid::from(pod.as_str()), cpus);
    }
    for (pod, containers) in entries.unwrap_or_default() {
        let own = assignments.exclusive.entry(PodUid::from(pod.as_str())).or_default();
        for (container, text) in containers {
            let cpus = parsed(&text).map_err(|problem| StateFileError::Entry {
                text,
                container: container.clone(),
                pod: pod.clone(),
                problem,
            })?;
            own.insert(container, cpus);
        }
    }
    Ok(assignments)
}

/// `None` for `null`, which has a separate dump.
fn read_entries(entries: Option<&Value>) -> Result<Option<Entries>, StateFileError> {
    let entries = match entries {
        None => return Ok(Some(Entries::new())),
        Some(Value::Null) => return Ok(None),
        Some(entries) => entries,
    };
    // Kubernetes 1.17 stored the CPUs by container id. Its containers have all been replaced since.
    let is_version_1 = |(_, entry): &(&String, &Value)| entry.is_string();
    if let Some((id, _)) = entries.as_object().and_then(|pods| pods.iter().find(is_version_1)) {
        return Err(StateFileError::Version1(id.clone()));
    }
    let entries = serde_json::from_value(entries.clone());
    entries.map(Some).map_err(|error| StateFileError::Unreadable(error.to_string()))
}

/// `None` for `null`, which has a separate dump.
fn read_pods(entries: Option<&Value>) -> Result<Option<PodEntries>, StateFileError> {
    let entries = match entries {
        None => return Ok(Some(PodEntries::new())),
        Some(Value::Null) => return Ok(None),
        Some(entries) => entries,
    };
    let unreadable = |problem: String| StateFileError::Unreadable(problem);
    let pods: BTreeMap<String, BTreeMap<String, String>> =
        serde_json::from_value(entries.clone()).map_err(|error| unreadable(error.to_string()))?;
    let mut found = PodEntries::new();
    for (pod, own) in pods {
        let text = own.get("cpuSet").map(String::as_str).unwrap_or_default();
        let cpus = text.parse().map_err(|problem| {
            unreadable(format!("could not parse cpuset {} of pod {}: {problem}", quoted(text), quoted(&pod)))
        })?;
        found.insert(pod, cpus);
    }
    Ok(Some(found))
}

/// The text that upstream hashes: the structure as Go's `spew` prints it. `pods` belongs to version 3 of the layout.
fn dump(name: &str, policy: &str, shared: &str, entries: &str, pods: Option<&str>) -> String {
    let pods = pods.map(|pods| format!("PodEntries:(state.PodCPUAssignments){pods} ")).unwrap_or_default();
    format!(
        "(*state.{name}){{PolicyName:(string){policy} DefaultCPUSet:(string){shared} \
         Entries:(map[string]map[string]string){entries} {pods}Checksum:(checksum.Checksum)0}}"
    )
}

fn dump_pods(pods: Option<&PodEntries>) -> String {
    let Some(pods) = pods else { return "<nil>".to_owned() };
    let own = |cpus: &CpuSet| {
        let ids: Vec<String> = cpus.iter().map(|cpu| format!("{cpu}:{{}}")).collect();
        format!("{{CPUSet:(cpuset.CPUSet){{elems:(map[int]struct {{}})map[{}]}}}}", ids.join(" "))
    };
    let pods: Vec<String> = pods.iter().map(|(uid, cpus)| format!("{uid}:{}", own(cpus))).collect();
    format!("map[{}]", pods.join(" "))
}

fn dump_entries(entries: Option<&Entries>) -> String {
    let Some(entries) = entries else { return "<nil>".to_owned() };
    let pairs = |map: &BTreeMap<String, String>| {
        let pairs: Vec<String> = map.iter().map(|(key, value)| format!("{key}:{value}")).collect();
        format!("map[{}]", pairs.join(" "))
    };
    pairs(&entries.iter().map(|(pod, containers)| (pod.clone(), pairs(containers))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNMANAGED: PodLevelManagement = PodLevelManagement::Unmanaged;
    /// Written by upstream's code: `cpusets states 40 1`.
    const UPSTREAM: &str = include_str!("../../testdata/cpu_states.txt");

    fn policy_of(file: &str) -> String {
        let file: Value = serde_json::from_str(file).unwrap();
        file["policyName"].as_str().unwrap().to_owned()
    }

    #[test]
    fn reads_and_writes_the_files_of_upstream() {
        assert_eq!(UPSTREAM.lines().count(), 40);
        for file in UPSTREAM.lines() {
            let policy = policy_of(file);
            let assignments = decode(&policy, UNMANAGED, file.as_bytes()).unwrap();
            assert_eq!(String::from_utf8(encode(&policy, UNMANAGED, &assignments)).unwrap(), file);
        }
    }

    #[test]
    fn checksums_equal_known_files() {
        let checksum = |policy: &str, shared: &str, exclusive: &[(&str, &str)]| {
            let own: BTreeMap<String, CpuSet> =
                exclusive.iter().map(|(name, cpus)| ((*name).to_owned(), cpus.parse().unwrap())).collect();
            let exclusive = if own.is_empty() { BTreeMap::new() } else { [("pod".into(), own)].into() };
            let file = encode(
                policy,
                UNMANAGED,
                &CpuAssignments { shared: shared.parse().unwrap(), exclusive, ..CpuAssignments::default() },
            );
            serde_json::from_slice::<Value>(&file).unwrap()["checksum"].as_u64().unwrap()
        };
        assert_eq!(checksum("none", "", &[]), 1_353_318_690);
        assert_eq!(checksum("static", "0-27", &[]), 273_146_150);
        assert_eq!(checksum("none", "1-3", &[("container1", "4-6"), ("container2", "1-3")]), 3_610_638_499);
    }

    #[test]
    fn refuses_files_with_the_texts_of_upstream() {
        let plain = encode(
            "static",
            UNMANAGED,
            &CpuAssignments { shared: "0-3".parse().unwrap(), ..Default::default() },
        );
        let plain = String::from_utf8(plain).unwrap();
        let entry = r#"{"policyName":"static","defaultCpuSet":"0-3","entries":{"u":{"c":"x"}}}"#;
        for (file, policy, text) in [
            (plain.replace("0-3", "0-4"), "static", "checkpoint is corrupted"),
            (
                entry.replace("}}}", "}},\"checksum\":1}"),
                "static",
                "json: cannot unmarshal object into Go struct field CPUManagerCheckpointV1.entries of type string",
            ),
            (plain, "none", "configured policy \"none\" differs from state checkpoint policy \"static\""),
            (
                entry.to_owned(),
                "static",
                "could not parse cpuset \"x\" for container \"c\" in pod \"u\": strconv.Atoi: parsing \"x\": invalid syntax",
            ),
            (
                r#"{"policyName":"static","defaultCpuSet":"3-1"}"#.to_owned(),
                "static",
                "could not parse default cpu set \"3-1\": invalid range \"3-1\" (3 > 1)",
            ),
            (
                r#"{"policyName":"static","defaultCpuSet":"0","entries":{"id":"1"},"checksum":7}"#.to_owned(),
                "static",
                "failed to migrate checkpoint from v1 to v2: containerID 'id' not found in initial containers list",
            ),
        ] {
            assert_eq!(decode(policy, UNMANAGED, file.as_bytes()).unwrap_err().to_string(), text, "{file}");
        }
        for file in ["", "{", "[]", "{\"entries\":7}", "{\"entries\":{\"u\":7}}"] {
            assert!(decode("static", UNMANAGED, file.as_bytes()).is_err(), "{file}");
        }
    }

    #[test]
    fn accepts_a_file_without_checksum_and_both_type_names() {
        let shared: CpuSet = "0-1".parse().unwrap();
        let expected = CpuAssignments { shared, ..CpuAssignments::default() };
        let hash = Fnv32a::hash(dump(TYPE_NAMES[1], "static", "0-1", "map[]", None).as_bytes());
        for checksum in [String::new(), format!(",\"checksum\":{hash}")] {
            let file =
                format!("{{\"policyName\":\"static\",\"defaultCpuSet\":\"0-1\",\"other\":1{checksum}}}");
            assert_eq!(decode("static", UNMANAGED, file.as_bytes()).unwrap(), expected);
        }
    }

    #[test]
    fn version_3_has_the_cpus_of_whole_pods() {
        let managed = PodLevelManagement::PerPod;
        let cpus = |text: &str| text.parse::<CpuSet>().unwrap();
        let containers = [("container1", "4-6"), ("container2", "1-3")];
        let own = containers.map(|(name, text)| (name.to_owned(), cpus(text)));
        let assignments = CpuAssignments {
            shared: cpus("1-3"),
            exclusive: [("pod".into(), own.into())].into(),
            pods: [("pod".into(), cpus("4-6"))].into(),
        };
        let file = String::from_utf8(encode("none", managed, &assignments)).unwrap();
        assert_eq!(
            file,
            r#"{"policyName":"none","defaultCpuSet":"1-3","entries":{"pod":{"container1":"4-6","container2":"1-3"}},"podEntries":{"pod":{"cpuSet":"4-6"}},"checksum":2649431787}"#
        );
        assert_eq!(decode("none", managed, file.as_bytes()).unwrap(), assignments);
        assert!(decode("none", UNMANAGED, file.as_bytes()).is_err(), "version 2 has other checksums");
        let without = file.replace(",\"checksum\":2649431787", "");
        assert!(decode("none", managed, without.as_bytes()).is_err(), "CPUs of pods need a checksum");
        let older = encode("none", UNMANAGED, &assignments);
        let expected = CpuAssignments { pods: BTreeMap::new(), ..assignments };
        assert_eq!(decode("none", managed, &older).unwrap(), expected, "version 2 is read with the gate");
    }
}
