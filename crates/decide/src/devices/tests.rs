use std::collections::BTreeMap;

use model::{PluginDevice, ResourceHints};
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::test_objects::pod;

const X: &str = "vendor.com/x";

fn device(id: &str, nodes: &[i64]) -> PluginDevice {
    PluginDevice { id: id.to_owned(), health: "Healthy".to_owned(), nodes: nodes.to_vec() }
}

fn state(devices: &[(&str, &[i64])]) -> DeviceState {
    let mut state = DeviceState::default();
    state.inventory.replace(X, devices.iter().map(|(id, nodes)| device(id, nodes)).collect());
    state
}

fn request<'a>(uid: &'a PodUid, container: &'a str, count: usize) -> DeviceRequest<'a> {
    DeviceRequest { uid, container, resource: X, count }
}

/// Chooses and records; the plugin prefers `preferred`.
fn allocate(
    state: &mut DeviceState,
    uid: &str,
    container: &str,
    count: usize,
    (mask, preferred): (Option<NumaMask>, &[&str]),
) -> Result<Vec<String>, DeviceChoiceError> {
    let uid = PodUid::from(uid);
    let request = request(&uid, container, count);
    let Some(choice) = state.choose(&request, mask)? else { return Ok(Vec::new()) };
    let preferred: Vec<String> = preferred.iter().map(|id| (*id).to_owned()).collect();
    let mut chosen = choice.complete(&preferred);
    state.record(&request, &chosen, AllocatedDevices::default());
    chosen.sort();
    Ok(chosen)
}

const ANY: (Option<NumaMask>, &[&str]) = (None, &[]);

fn error(state: &DeviceState, uid: &str, count: usize) -> String {
    let uid = PodUid::from(uid);
    state.choose(&request(&uid, "c", count), None).unwrap_err().to_string()
}

#[test]
fn devices_are_handed_out_until_none_is_left() {
    let mut state = state(&[("a", &[]), ("b", &[]), ("c", &[])]);
    assert_eq!(allocate(&mut state, "1", "c", 2, ANY).unwrap(), ["a", "b"]);
    let text = "requested number of devices unavailable for vendor.com/x. Requested: 2, Available: 1";
    assert_eq!(error(&state, "2", 2), text);
    assert_eq!(allocate(&mut state, "2", "c", 1, ANY).unwrap(), ["c"]);
    // A second admission of the same container keeps its devices.
    assert!(allocate(&mut state, "1", "c", 2, ANY).unwrap().is_empty());
    let changed = "pod \"1\" container \"c\" changed request for resource \"vendor.com/x\" from 2 to 1";
    assert_eq!(error(&state, "1", 1), changed);
    state.retain(|uid, _| uid.as_str() != "1");
    assert_eq!(allocate(&mut state, "3", "c", 2, ANY).unwrap(), ["a", "b"]);
}

#[test]
fn unusable_resources_are_refused_with_the_texts_of_upstream() {
    let mut state = DeviceState::default();
    assert_eq!(error(&state, "1", 1), "cannot allocate unregistered device vendor.com/x");
    state.inventory.restore(X);
    let none = "no healthy devices present; cannot allocate unhealthy devices vendor.com/x";
    assert_eq!(error(&state, "1", 1), none);
    state.inventory.replace(X, vec![device("a", &[]), device("b", &[])]);
    allocate(&mut state, "1", "c", 1, ANY).unwrap();
    state
        .inventory
        .replace(X, vec![PluginDevice { health: "bad".into(), ..device("a", &[]) }, device("b", &[])]);
    let unhealthy =
        "previously allocated devices are no longer healthy; cannot allocate unhealthy devices vendor.com/x";
    assert_eq!(error(&state, "1", 1), unhealthy);
    state.inventory.disconnect(X);
    assert_eq!(error(&state, "1", 1), none);
    let uid = PodUid::from("1");
    assert_eq!(state.choose(&request(&uid, "other", 0), None), Ok(None));
}

#[test]
fn plugin_chooses_among_aligned_devices_if_there_are_more_than_needed() {
    let devices: [(&str, &[i64]); 5] = [("a", &[0]), ("b", &[1]), ("c", &[1]), ("d", &[0, 1]), ("e", &[])];
    let on_one = Some(NumaMask::of([1]));
    let uid = PodUid::from("1");
    let choice = state(&devices).choose(&request(&uid, "c", 2), on_one).unwrap().unwrap();
    assert_eq!(choice.available().unwrap(), ["b", "c", "d"]);
    assert!(choice.certain().is_empty());
    assert_eq!(choice.complete(&["a".to_owned(), "d".to_owned()]), ["d", "b"]);
    // Exactly as many as needed: there is nothing to prefer.
    let choice = state(&devices).choose(&request(&uid, "c", 3), on_one).unwrap().unwrap();
    assert_eq!(choice.available(), None);
    assert_eq!(choice.complete(&[]), ["b", "c", "d"]);
    // Too few: the rest comes from unaligned devices before those without a node.
    let choice = state(&devices).choose(&request(&uid, "c", 4), on_one).unwrap().unwrap();
    assert_eq!(choice.available().unwrap(), ["a", "b", "c", "d", "e"]);
    assert_eq!(choice.certain(), ["b", "c", "d"]);
    assert_eq!(choice.clone().complete(&[]), ["b", "c", "d", "a"]);
    assert_eq!(choice.complete(&["e".to_owned()]), ["b", "c", "d", "e"]);
}

#[test]
fn app_containers_reuse_devices_of_init_containers_but_not_of_sidecars() {
    let limits = json!({"limits": {X: "1"}});
    let with_init = pod(json!({
        "initContainers": [
            {"name": "init", "resources": limits},
            {"name": "sidecar", "restartPolicy": "Always", "resources": limits},
        ],
        "containers": [{"name": "app", "resources": {"limits": {X: "2"}}}],
    }));
    let mut state = state(&[("a", &[]), ("b", &[]), ("c", &[])]);
    let uid = with_init.uid.as_str().to_owned();
    let run = |state: &mut DeviceState, container: &str, count| {
        let chosen = allocate(state, &uid, container, count, ANY).unwrap();
        state.finish_container(&with_init, container);
        chosen
    };
    assert_eq!(run(&mut state, "init", 1), ["a"]);
    assert_eq!(run(&mut state, "sidecar", 1), ["a"]);
    assert_eq!(run(&mut state, "app", 2), ["b", "c"]);
    assert_eq!(state.records.used(X).count(), 3);
}

#[test]
fn hints_prefer_the_smallest_sets_that_fit() {
    let devices: [(&str, &[i64]); 4] = [("a", &[0]), ("b", &[0]), ("c", &[1]), ("d", &[1])];
    let machine = NumaMask::of([0, 1]);
    let spec = |count: &str| json!({"containers": [{"name": "c", "resources": {"limits": {X: count}}}]});
    let hints = |state: &DeviceState, count: &str| {
        let pod = pod(spec(count));
        let hints = state.container_hints(&pod, &pod.spec.containers[0], machine);
        assert_eq!(hints, state.pod_hints(&pod, machine));
        match hints[X].clone() {
            ResourceHints::NoPreference => None,
            ResourceHints::OneOf(hints) => Some(
                hints.iter().map(|hint| (hint.nodes.unwrap().bits(), hint.preferred)).collect::<Vec<_>>(),
            ),
        }
    };
    let mut state = state(&devices);
    assert_eq!(hints(&state, "1").unwrap(), [(1, true), (2, true), (3, false)]);
    assert_eq!(hints(&state, "3").unwrap(), [(3, true)]);
    assert_eq!(hints(&state, "5").unwrap(), []);
    allocate(&mut state, "other", "c", 1, ANY).unwrap();
    // Two devices could be on one node, which is why both nodes together are not preferred.
    assert_eq!(hints(&state, "2").unwrap(), [(2, true), (3, false)]);
    state.inventory.replace(X, vec![device("a", &[]), device("z", &[])]);
    assert_eq!(hints(&state, "1"), None);
}

#[test]
fn health_changes_name_the_devices_that_changed_or_appeared() {
    let mut state = state(&[("a", &[]), ("b", &[])]);
    let sick = |id: &str| PluginDevice { health: "Unhealthy".to_owned(), ..device(id, &[]) };
    assert!(state.inventory.replace(X, vec![device("a", &[]), device("b", &[])]).is_empty());
    let changed = state.inventory.replace(X, vec![sick("a"), device("c", &[])]);
    assert_eq!(changed, ["a".to_owned(), "c".to_owned()].into());
    let count = DeviceCount { capacity: 2, allocatable: 1 };
    assert_eq!(state.inventory.counts().collect::<Vec<_>>(), [(X, count)]);
    state.inventory.disconnect(X);
    let count = DeviceCount { capacity: 2, allocatable: 0 };
    assert_eq!(state.inventory.counts().collect::<Vec<_>>(), [(X, count)]);
}

#[test]
fn resource_health_shows_what_the_plugin_reported_last() {
    let mut state = state(&[("a", &[])]);
    allocate(&mut state, "p", "main", 1, ANY).unwrap();
    let health = |state: &DeviceState| {
        let all = state.resource_health(&"p".into());
        let resource = &all["main"][0];
        let device = &resource.resources.as_ref().unwrap()[0];
        (resource.name.clone(), device.resource_id.clone(), device.health.clone().unwrap())
    };
    assert_eq!(health(&state), (X.to_owned(), "a".to_owned(), "Healthy".to_owned()));
    state.inventory.replace(X, vec![PluginDevice { health: String::new(), ..device("a", &[]) }]);
    assert_eq!(health(&state).2, "Unhealthy");
    state.inventory.disconnect(X);
    assert_eq!(health(&state).2, "Unhealthy");
    state.inventory.remove(X);
    assert_eq!(health(&state).2, "Healthy");
}

proptest! {
    /// Any sequence of allocations and releases.
    #[test]
    fn two_pods_never_own_the_same_device(
        steps in proptest::collection::vec((0_u8..6, 0_usize..4, proptest::bool::ANY, 0_u64..4), 1..40),
    ) {
        let devices: Vec<PluginDevice> =
            (0..8_i64).map(|number| device(&number.to_string(), &[number % 2])).collect();
        let mut state = DeviceState::default();
        state.inventory.replace(X, devices);
        for (pod, count, is_release, mask) in steps {
            let uid = pod.to_string();
            if is_release {
                state.retain(|other, _| other.as_str() != uid);
            } else {
                let mask = (mask > 0).then(|| NumaMask::of((0..2).filter(|node| mask & (1 << node) != 0)));
                let before = state.clone();
                let had = before.records.get(&uid.as_str().into(), "c", X).is_some();
                if let Ok(chosen) = allocate(&mut state, &uid, "c", count, (mask, &["3", "9"])) {
                    prop_assert!(had || chosen.len() == count);
                    // An allocation and its release restore the state.
                    let mut released = state.clone();
                    released.retain(|other, _| other.as_str() != uid);
                    let mut without = before;
                    without.retain(|other, _| other.as_str() != uid);
                    prop_assert_eq!(released, without);
                }
            }
            let mut owners: BTreeMap<String, PodUid> = BTreeMap::new();
            for (key, record) in state.records.iter() {
                for id in record.devices() {
                    prop_assert_eq!(owners.insert(id, key.uid.clone()), None);
                }
            }
        }
    }
}
