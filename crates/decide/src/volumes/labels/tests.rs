#![expect(clippy::needless_pass_by_value, reason = "json literals are passed as they are written")]

use serde_json::{Value, json};

use super::*;
use crate::runtime_spec::pod_paths::tests::settings;
use crate::test_objects::pod;

const FILE: &str = "system_u:object_r:container_file_t";

fn policy(process: &str, file: &str) -> ContainerLabels {
    ContainerLabels { process: process.to_owned(), file: file.to_owned() }
}

#[test]
fn options_and_policy_become_file_label() {
    let fedora = policy("system_u:system_r:container_t:s0", "system_u:object_r:container_file_t:s0");
    let plain = policy("system_u:system_r:container_t", "system_u:object_r:container_file_t");
    let half = policy("system_u:system_r:container_t", "system_u:object_r:container_file_t:s3");
    for (policy, options, expected) in [
        (&fedora, json!({"level": "s0:c1,c2"}), Ok(format!("{FILE}:s0:c1,c2"))),
        // As the pod writes it.
        (&fedora, json!({"level": "s0:c26,c5"}), Ok(format!("{FILE}:s0:c26,c5"))),
        // Type and role are those of the process alone.
        (&fedora, json!({"type": "spc_t", "role": "r", "level": "s0:c9"}), Ok(format!("{FILE}:s0:c9"))),
        (
            &fedora,
            json!({"user": "own_u", "level": "s0"}),
            Ok("own_u:object_r:container_file_t:s0".to_owned()),
        ),
        // Which level it will be is up to the runtime.
        (&fedora, json!({"type": "spc_t"}), Ok(String::new())),
        (&fedora, json!({"user": "own_u", "level": ""}), Ok(String::new())),
        (&fedora, json!({}), Ok(String::new())),
        (&fedora, json!({"user": "", "role": "", "type": "", "level": ""}), Ok(String::new())),
        // A policy without levels.
        (&plain, json!({"type": "spc_t"}), Ok(FILE.to_owned())),
        (&plain, json!({"level": "s0"}), Ok(format!("{FILE}:s0"))),
        (&half, json!({"type": "spc_t"}), Ok(format!("{FILE}:s3"))),
        // A policy that knows nothing of containers.
        (&policy("", "a:b:c:s0"), json!({"level": "s1"}), Ok("a:b:c:s0".to_owned())),
        (&policy("a:b:c", ""), json!({"level": "s1"}), Ok(String::new())),
        (&policy("", ""), json!({"level": "s1"}), Ok(String::new())),
        (&policy("a:b", "a:b:c"), json!({"level": "s1"}), Err("the policy's label \"a:b\" is invalid")),
        (&policy("a:b:c", "x"), json!({"level": "s1"}), Err("the policy's label \"x\" is invalid")),
        // Nothing gets out of its quotes.
        (
            &fedora,
            json!({"level": "s0\",suid,dev,\""}),
            Err("\"s0\\\",suid,dev,\\\"\" cannot be part of a label"),
        ),
        (&fedora, json!({"user": "a\\", "level": "s0"}), Err("\"a\\\\\" cannot be part of a label")),
        (&fedora, json!({"level": "s0 s1"}), Err("\"s0 s1\" cannot be part of a label")),
    ] {
        let given = serde_json::from_value(options.clone()).unwrap();
        let expected = expected.map_err(str::to_owned);
        assert_eq!(file_label(policy, &given), expected, "{policy:?} {options}");
    }
}

/// The wish of a pod of the volume `v`, which `modes` says are the access modes of; null for a pod's own.
fn wished(spec: Value, modes: Value, gate: bool) -> LabelRequest {
    let mut settings = settings();
    settings.gates.selinux_mount = gate;
    let claimed = (!modes.is_null()).then(|| ClaimedVolume {
        claim: Default::default(),
        volume: serde_json::from_value(json!({"metadata": {"name": "pv"}, "spec": {"accessModes": modes}}))
            .unwrap(),
    });
    let plan = VolumePlan::EmptyDir { path: "/v".into() };
    match wish(&pod(spec), "v", &plan, claimed.as_ref(), &settings) {
        VolumeLabel::Requested(wish) => *wish,
        other => panic!("{other:?}"),
    }
}

fn one(level: &str) -> Value {
    json!({"name": level, "securityContext": {"seLinuxOptions": {"level": level}},
           "volumeMounts": [{"name": "v", "mountPath": "/v"}]})
}

#[test]
fn no_labels_without_selinux() {
    let mut settings = settings();
    settings.capabilities.selinux = None;
    let pod = pod(json!({"containers": [one("s0:c1")]}));
    let plan = VolumePlan::EmptyDir { path: "/v".into() };
    assert_eq!(wish(&pod, "v", &plan, None, &settings), VolumeLabel::None);
}

#[test]
fn all_mounting_containers_count_for_the_label() {
    let mount = json!([{"name": "v", "mountPath": "/v"}]);
    let labels = |levels: &[&str]| -> BTreeSet<String> {
        levels
            .iter()
            .map(|level| if level.is_empty() { String::new() } else { format!("{FILE}:{level}") })
            .collect()
    };
    for (spec, expected) in [
        (json!({"containers": [one("s0:c1")]}), labels(&["s0:c1"])),
        (json!({"containers": [one("s0:c1"), one("s0:c2")]}), labels(&["s0:c1", "s0:c2"])),
        // In two spellings it is still one; the first counts.
        (json!({"containers": [one("s0:c26,c5"), one("s0:c5,c26")]}), labels(&["s0:c26,c5"])),
        (
            json!({"initContainers": [one("s0:c1")], "containers": [one("s0:c2")]}),
            labels(&["s0:c1", "s0:c2"]),
        ),
        // The pod's options are for containers without their own.
        (
            json!({"securityContext": {"seLinuxOptions": {"level": "s0:c7"}},
                   "containers": [{"name": "c", "volumeMounts": mount}, one("s0:c8")]}),
            labels(&["s0:c7", "s0:c8"]),
        ),
        // A container without options, one without the volume and one that has it as a device do not.
        (json!({"containers": [{"name": "c", "volumeMounts": mount}, one("s0:c1")]}), labels(&["s0:c1"])),
        (
            json!({"containers": [one("s0:c1"), {"name": "c",
                   "securityContext": {"seLinuxOptions": {"level": "s0:c2"}},
                   "volumeDevices": [{"name": "v", "devicePath": "/dev/x"}]}]}),
            labels(&["s0:c1"]),
        ),
        (json!({"containers": []}), labels(&[])),
        // A privileged container counts by its options, as any other.
        (
            json!({"containers": [one("s0:c1"), {"name": "c", "volumeMounts": mount,
                   "securityContext": {"privileged": true}}]}),
            labels(&["s0:c1"]),
        ),
        (
            json!({"containers": [one("s0:c1"), {"name": "c", "volumeMounts": mount,
                   "securityContext": {"privileged": true, "seLinuxOptions": {"level": "s0:c2"}}}]}),
            labels(&["s0:c1", "s0:c2"]),
        ),
        // A label that is known only later is another one.
        (
            json!({"containers": [one("s0:c1"), {"name": "c", "volumeMounts": mount,
                   "securityContext": {"seLinuxOptions": {"type": "spc_t"}}}]}),
            labels(&["", "s0:c1"]),
        ),
    ] {
        assert_eq!(wished(spec.clone(), json!(null), false).labels, Ok(expected), "{spec}");
    }
    let odd = wished(json!({"containers": [one("s0\"")]}), json!(null), false);
    let error =
        "failed to construct SELinux label from context \":::s0\\\"\": \"s0\\\"\" cannot be part of a label";
    assert_eq!(odd.labels, Err(error.to_owned()));
}

#[test]
fn feature_applies_to_rwop_volumes_or_all_with_the_gate() {
    use LabelReach::{Counted, Mounted};
    for (modes, name, expected, with_gate) in [
        (json!(null), "inline", Counted, Counted),
        (json!(["ReadWriteOncePod"]), "RWOP", Mounted, Mounted),
        (json!(["ReadWriteOnce"]), "RWO", Counted, Mounted),
        (json!(["ReadOnlyMany"]), "ROX", Counted, Mounted),
        (json!(["ReadWriteOnce", "ReadOnlyMany"]), "ROX", Counted, Mounted),
        (json!(["ReadWriteOnce", "ReadWriteMany"]), "RWX", Counted, Mounted),
        (json!(["ReadWriteOncePod", "ReadWriteOnce"]), "RWO", Counted, Mounted),
        (json!([]), "", Counted, Mounted),
    ] {
        for (gate, expected) in [(false, expected), (true, with_gate)] {
            let wish = wished(json!({"containers": []}), modes.clone(), gate);
            assert_eq!((wish.reach, wish.access_mode), (expected, name), "{modes} {gate}");
        }
    }
}

#[test]
fn settles_label_requests() {
    use LabelReach::{Counted, Mounted};
    use Plugin::{Ignores, Supports};
    let wish = |labels: Result<&[&str], &str>, change, reach| LabelRequest {
        volume: "pv".to_owned(),
        labels: labels
            .map(|labels| labels.iter().map(|label| (*label).to_owned()).collect())
            .map_err(str::to_owned),
        change,
        reach,
        access_mode: "RWOP",
    };
    let fine = |label: &str, mount: bool, is_compared| {
        Ok(Settled {
            label: label.to_owned(),
            mount: mount.then(|| label.to_owned()),
            is_compared,
            warning: None,
        })
    };
    let odd = |class, message: &str| LabelConflict { class, message: message.to_owned() };
    let warned = |class, message: &str, is_compared| {
        Ok(Settled { label: String::new(), mount: None, is_compared, warning: Some(odd(class, message)) })
    };
    let (mount, recursive) = (LabelChange::Mount, LabelChange::Recursive);
    let several = "multiple SELinux labels found: a,b";
    for (labels, change, reach, plugin, expected) in [
        (Ok(&["a"][..]), mount, Mounted, Supports, fine("a", true, true)),
        (Ok(&["a"][..]), mount, Counted, Supports, fine("a", false, true)),
        (Ok(&["a"][..]), mount, Mounted, Ignores, fine("", false, false)),
        (Ok(&["a"][..]), mount, Counted, Ignores, fine("", false, false)),
        (Ok(&["a"][..]), recursive, Mounted, Supports, fine("", false, true)),
        (Ok(&["a"][..]), recursive, Counted, Supports, fine("", false, true)),
        (Ok(&[][..]), mount, Mounted, Supports, fine("", false, true)),
        (Ok(&[""][..]), mount, Mounted, Supports, fine("", false, true)),
        (Ok(&["a", "b"][..]), mount, Mounted, Supports, Err(odd(LabelConflictKind::Pod, several))),
        (Ok(&["a", "b"][..]), recursive, Mounted, Supports, Err(odd(LabelConflictKind::Pod, several))),
        (Ok(&["a", "b"][..]), mount, Mounted, Ignores, Err(odd(LabelConflictKind::Pod, several))),
        (Ok(&["a", "b"][..]), mount, Counted, Supports, warned(LabelConflictKind::Pod, several, false)),
        (Ok(&["a", "b"][..]), mount, Counted, Ignores, warned(LabelConflictKind::Pod, several, false)),
        (Err("no"), mount, Mounted, Supports, Err(odd(LabelConflictKind::Container, "no"))),
        (Err("no"), mount, Counted, Supports, warned(LabelConflictKind::Container, "no", true)),
        (Err("no"), mount, Counted, Ignores, warned(LabelConflictKind::Container, "no", false)),
    ] {
        let given = wish(labels, change, reach);
        assert_eq!(settle(&given, plugin), expected, "{given:?} {plugin:?}");
    }
}

#[test]
fn pods_of_one_volume_need_equal_labels() {
    use LabelReach::{Counted, Mounted};
    let conflict = |own: &str, first: &str| LabelConflict {
        class: LabelConflictKind::Volume,
        message: format!("conflicting SELinux labels of volume pv: {first:?} and {own:?}"),
    };
    for (own, first, is_compared, reach, expected) in [
        ("a", "a", true, Mounted, Ok(None)),
        ("u:r:t:s0:c2,c1", "u:r:t:s0:c1,c2", true, Mounted, Ok(None)),
        ("", "", true, Mounted, Ok(None)),
        ("a", "b", true, Mounted, Err(conflict("a", "b"))),
        ("", "b", true, Mounted, Err(conflict("", "b"))),
        ("a", "", true, Mounted, Err(conflict("a", ""))),
        ("a", "b", true, Counted, Ok(Some(conflict("a", "b")))),
        ("", "b", false, Counted, Ok(None)),
    ] {
        let wish = LabelRequest {
            volume: "pv".to_owned(),
            labels: Ok(BTreeSet::new()),
            change: LabelChange::Mount,
            reach,
            access_mode: "RWO",
        };
        let settled = Settled { label: own.to_owned(), mount: None, is_compared, warning: None };
        assert_eq!(join(&wish, &settled, first), expected, "{own:?} {first:?} {reach:?}");
    }
}

#[test]
fn restages_volume_only_when_unused() {
    use StagedLabel::{Known, NotStaged, Unknown};
    use Way::{Free, Held, Unstage};
    let (own, same, other) = ("u:r:t:s0:c26,c5", "u:r:t:s0:c5,c26", "u:r:t:s0:c1");
    let unused = (vec![], false);
    // By a pod whose record cannot be read.
    let perhaps_used = (vec![], true);
    for ((others, is_used), staged, expected) in [
        (unused.clone(), NotStaged, Free),
        (unused.clone(), Known(same), Free),
        (unused.clone(), Known(other), Unstage),
        (unused.clone(), Known(""), Unstage),
        (unused, Unknown, Unstage),
        (perhaps_used.clone(), NotStaged, Free),
        (perhaps_used.clone(), Known(same), Free),
        (perhaps_used.clone(), Known(other), Held),
        (perhaps_used.clone(), Known(""), Held),
        // Two such pods would wait for each other.
        (perhaps_used, Unknown, Free),
        ((vec![same], true), NotStaged, Free),
        ((vec![same], true), Known(same), Free),
        ((vec![same], true), Known(other), Free),
        ((vec![same], true), Unknown, Free),
        ((vec![other], true), NotStaged, Held),
        ((vec![same, other], true), Known(same), Held),
        ((vec![""], true), Unknown, Held),
    ] {
        let found = Holding { others, is_used, staged };
        assert_eq!(way(own, &found), expected, "{found:?}");
    }
    let without = |staged| way("", &Holding { others: vec![""], is_used: true, staged });
    assert_eq!([without(NotStaged), without(Known(""))], [Free, Free]);
}

#[test]
fn label_request_has_policy_and_volume_name() {
    for (policy, expected) in [
        (json!(null), LabelChange::Mount),
        (json!("MountOption"), LabelChange::Mount),
        (json!("Recursive"), LabelChange::Recursive),
    ] {
        let spec = json!({"securityContext": {"seLinuxChangePolicy": policy}, "containers": []});
        assert_eq!(wished(spec.clone(), json!(["ReadWriteOnce"]), false).change, expected);
        assert_eq!(wished(spec.clone(), json!(["ReadWriteOnce"]), false).volume, "pv");
        assert_eq!(wished(spec, json!(null), false).volume, "v");
    }
}
