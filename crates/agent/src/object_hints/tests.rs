use model::{ConfigObject, ObjectKind, PodSource};
use serde_json::json;

use super::*;
use crate::objects::LocalObjects;
use crate::published::table;

fn pod(uid: &str, config_map: &str) -> Arc<Pod> {
    let object = json!({
        "metadata": {"name": uid, "namespace": "default", "uid": uid},
        "spec": {"containers": [{"name": "c", "envFrom": [{"configMapRef": {"name": config_map}}]}]},
    });
    Arc::new(Pod::from_object(serde_json::from_value(object).unwrap(), PodSource::File).unwrap())
}

fn object(name: &str) -> Arc<ConfigObject> {
    Arc::new(ConfigObject {
        key: ObjectKey { kind: ObjectKind::ConfigMap, namespace: "default".into(), name: name.into() },
        uid: String::new(),
        data: Default::default(),
        binary_data: Default::default(),
        secret_type: String::new(),
        immutable: false,
    })
}

#[tokio::test(start_paused = true)]
async fn a_change_wakes_the_pods_that_use_the_object() {
    let (sender, changed_pods) = mpsc::unbounded_channel();
    let (writer, desired) = table(vec![sender]);
    let (requeues, mut woken) = mpsc::unbounded_channel();
    let objects = Arc::new(LocalObjects::new([PodSource::File]));
    let cancel = CancellationToken::new();
    let parts = Parts { objects: objects.clone(), changed_pods, desired, requeues };
    let stage = tokio::spawn(run(parts, cancel.clone()));
    for (uid, name) in [("one", "a"), ("two", "a"), ("three", "b")] {
        writer.set(&uid.into(), pod(uid, name));
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    objects.set(PodSource::File, vec![object("a")]);
    let mut uids = vec![woken.recv().await.unwrap().uid, woken.recv().await.unwrap().uid];
    uids.sort();
    assert_eq!(uids, ["one".into(), "two".into()]);

    writer.set(&"one".into(), pod("one", "b"));
    writer.remove(&"three".into());
    tokio::time::sleep(Duration::from_millis(1)).await;
    objects.set(PodSource::File, vec![object("a"), object("b")]);
    assert_eq!(woken.recv().await.unwrap().uid, "one".into());
    assert!(woken.try_recv().is_err(), "nobody else uses it");
    cancel.cancel();
    stage.await.unwrap();
}
