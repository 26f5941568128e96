use model::ObjectKind;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::test_checkpoints::Files;

fn key(name: &str) -> ObjectKey {
    ObjectKey { kind: ObjectKind::ConfigMap, namespace: "default".into(), name: name.into() }
}

fn object(name: &str, value: &str) -> Arc<ConfigObject> {
    Arc::new(ConfigObject {
        key: key(name),
        uid: String::new(),
        data: [("k".to_owned(), value.as_bytes().to_vec())].into(),
        binary_data: BTreeMap::new(),
        secret_type: String::new(),
        immutable: false,
    })
}

async fn value(store: &LocalObjects, name: &str) -> Option<String> {
    let object = store.get(&key(name)).await.ok()?;
    String::from_utf8(object.data["k"].clone()).ok()
}

#[tokio::test(start_paused = true)]
async fn sends_hints_only_for_added_changed_and_removed_objects() {
    let store = LocalObjects::new([PodSource::File]);
    let mut changes = store.changes();
    let mut hints_after = async |objects: Vec<Arc<ConfigObject>>| {
        store.set(PodSource::File, objects);
        let mut names = Vec::new();
        while let Some(Some(key)) = futures::FutureExt::now_or_never(changes.next()) {
            names.push(key.name);
        }
        names
    };
    assert_eq!(hints_after(vec![object("a", "1"), object("b", "1")]).await, ["a", "b"]);
    assert!(hints_after(vec![object("a", "1"), object("b", "1")]).await.is_empty());
    assert_eq!(hints_after(vec![object("a", "2"), object("b", "1")]).await, ["a"]);
    assert_eq!(hints_after(vec![object("a", "2")]).await, ["b"]);
    assert_eq!(value(&store, "a").await.as_deref(), Some("2"));
    assert_eq!(store.get(&key("b")).await, Err(ObjectError::NotFound(key("b"))));
}

#[tokio::test(start_paused = true)]
async fn object_from_file_takes_precedence_over_url() {
    let store = LocalObjects::new([PodSource::File, PodSource::Http]);
    store.set(PodSource::Http, vec![object("a", "url")]);
    store.set(PodSource::File, vec![object("a", "file")]);
    assert_eq!(value(&store, "a").await.as_deref(), Some("file"));
    store.set(PodSource::File, Vec::new());
    assert_eq!(value(&store, "a").await.as_deref(), Some("url"));
}

#[tokio::test(start_paused = true)]
async fn get_waits_for_pending_sources_until_timeout() {
    let store = Arc::new(LocalObjects::new([PodSource::File]));
    let reader = Arc::clone(&store);
    let waiting = tokio::spawn(async move { value(&reader, "a").await });
    tokio::time::sleep(Duration::from_secs(1)).await;
    store.set(PodSource::File, vec![object("a", "1")]);
    assert_eq!(waiting.await.unwrap().as_deref(), Some("1"));

    let pending = LocalObjects::new([PodSource::Http]);
    let start = Instant::now();
    assert_eq!(value(&pending, "a").await, None);
    assert_eq!(start.elapsed(), SOURCES_TIMEOUT);
    assert_eq!(value(&pending, "a").await, None);
    assert_eq!(start.elapsed(), SOURCES_TIMEOUT, "readers wait only once");
}

#[test]
fn not_found_error_matches_upstream() {
    assert_eq!(ObjectError::NotFound(key("x")).to_string(), "configmap \"x\" not found");
    let secret = ObjectKey { kind: ObjectKind::Secret, ..key("x") };
    assert_eq!(ObjectError::NotFound(secret).to_string(), "secret \"x\" not found");
}

#[tokio::test(start_paused = true)]
async fn restores_objects_of_sources_that_have_not_delivered() {
    let disk = Arc::new(Files::default());
    let mut saves = disk.writes();
    let cancel = CancellationToken::new();
    let first = Arc::new(LocalObjects::new([PodSource::File, PodSource::Http]));
    let stage = tokio::spawn(persist(first.clone(), disk.clone(), cancel.clone()));
    first.set(PodSource::Http, vec![object("a", "url")]);
    first.set(PodSource::File, vec![object("b", "file")]);
    saves.changed().await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    cancel.cancel();
    stage.await.unwrap();

    let cancel = CancellationToken::new();
    let second = Arc::new(LocalObjects::new([PodSource::File, PodSource::Http]));
    second.set(PodSource::File, vec![object("b", "newer")]);
    let stage = tokio::spawn(persist(second.clone(), disk, cancel.clone()));
    assert_eq!(value(&second, "a").await.as_deref(), Some("url"));
    assert_eq!(
        value(&second, "b").await.as_deref(),
        Some("newer"),
        "the checkpoint does not replace newer objects"
    );
    second.set(PodSource::Http, Vec::new());
    assert_eq!(value(&second, "a").await, None);
    cancel.cancel();
    stage.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn retries_save_after_disk_errors() {
    let disk = Arc::new(Files::default());
    disk.fail_next_writes(3);
    let cancel = CancellationToken::new();
    let store = Arc::new(LocalObjects::new([PodSource::File]));
    store.set(PodSource::File, vec![object("a", "1")]);
    let test = async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(disk.read("objects").unwrap().0, 1);
        cancel.cancel();
    };
    tokio::join!(persist(store, disk.clone(), cancel.clone()), test);
}
