use model::{ConfigObject, ObjectKind, PodSource};
use serde_json::json;

use super::*;
use crate::cluster::objects::LocalObjects;
use crate::pipeline::requeues::requeues;
use crate::pipeline::tables::table;

fn pod(uid: &str, config_map: &str) -> Arc<Pod> {
    let spec = json!({"containers": [{"name": "c", "envFrom": [{"configMapRef": {"name": config_map}}]}]});
    Arc::new(testkit::builders::pod(uid, PodSource::File, spec))
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
async fn object_change_requeues_the_pods_that_use_it() {
    let (sender, changed_pods) = timing::key_channel();
    let (writer, desired) = table(vec![sender]);
    let (requeues, mut requeued) = requeues();
    let objects = Arc::new(LocalObjects::new([PodSource::File]));
    let cancel = CancellationToken::new();
    let deps = ObjectHintsDeps { objects: objects.clone(), changed_pods, desired, requeues };
    let stage = tokio::spawn(run(deps, cancel.clone()));
    for (uid, name) in [("one", "a"), ("two", "a"), ("three", "b")] {
        writer.set(&uid.into(), pod(uid, name));
    }
    tokio::time::sleep(Duration::from_millis(1)).await;
    objects.set(PodSource::File, vec![object("a")]);
    tokio::time::sleep(Duration::from_millis(1)).await;
    let mut uids: Vec<PodUid> = requeued.recv().await.into_keys().collect();
    uids.sort();
    assert_eq!(uids, ["one".into(), "two".into()]);

    writer.set(&"one".into(), pod("one", "b"));
    writer.remove(&"three".into());
    tokio::time::sleep(Duration::from_millis(1)).await;
    objects.set(PodSource::File, vec![object("a"), object("b")]);
    tokio::time::sleep(Duration::from_millis(1)).await;
    let uids: Vec<PodUid> = requeued.recv().await.into_keys().collect();
    assert_eq!(uids, ["one".into()], "no other pod uses b");
    cancel.cancel();
    stage.await.unwrap();
}
