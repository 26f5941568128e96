use std::sync::atomic::Ordering;

use serde_json::json;

use super::*;
use crate::images::test_archive::layer;
use server::{Options, TestRegistry};

mod debian_registry;
mod server;

fn require_root() {
    assert!(rustix::process::geteuid().is_root(), "this test mounts: run it as root");
}

struct Scratch {
    folder: tempfile::TempDir,
    store: ImageStore,
}

impl Scratch {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = ImageStore::open(&folder.path().join("store"), Vec::new()).unwrap();
        Self { folder, store }
    }

    /// Writes a `hosts.toml` for all registries.
    fn hosts(&self, text: &str) -> PathBuf {
        let folder = self.folder.path().join("hosts/_default");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("hosts.toml"), text).unwrap();
        self.folder.path().join("hosts")
    }

    async fn pull(&self, image: &str) -> Result<StoredImage, PullError> {
        self.pull_with(image, None, None).await
    }

    async fn pull_with(
        &self,
        image: &str,
        hosts: Option<PathBuf>,
        auth: Option<&AuthConfig>,
    ) -> Result<StoredImage, PullError> {
        let (progress, _) = watch::channel(PullProgress::default());
        Puller::new(self.store.clone(), hosts).pull(image, auth, progress).await
    }

    fn check_empty(&self) {
        assert!(self.store.list().unwrap().is_empty());
        self.store.collect().unwrap();
        for folder in ["layers", "blobs", "staging"] {
            let left = std::fs::read_dir(self.store.folder().join(folder)).unwrap().count();
            assert_eq!(left, 0, "{folder}");
        }
    }
}

fn layers() -> Vec<Vec<u8>> {
    (0..5)
        .map(|number| {
            layer(&[(&format!("f{number}"), &"x".repeat(3000 * number)), ("last", &number.to_string())])
        })
        .collect()
}

fn password() -> AuthConfig {
    AuthConfig { username: "ann".into(), password: "secret".into(), ..AuthConfig::default() }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root"]
async fn pulled_image_has_all_layers_and_names() {
    require_root();
    let registry = TestRegistry::start(Options::default(), &layers()).await;
    let scratch = Scratch::new();
    let name = format!("{}/team/app:1", registry.host());
    let (progress, watched) = watch::channel(PullProgress::default());
    let image = Puller::new(scratch.store.clone(), None).pull(&name, None, progress).await.unwrap();
    assert_eq!(image.tags, [name.as_str()]);
    assert_eq!(image.digests, [format!("{}/team/app@{}", registry.host(), registry.top())]);
    let progress = watched.borrow().clone();
    assert_eq!(progress.layers.len(), 5);
    assert!(progress.layers.iter().all(|layer| layer.unpacked && layer.fetched == layer.size));
    let root = scratch.store.mount_root(image.id.as_str(), "c").unwrap();
    assert_eq!(std::fs::read_to_string(root.join("last")).unwrap(), "4");
    scratch.store.unmount_root("c").unwrap();
    let by_digest = scratch.pull(&image.digests[0]).await.unwrap();
    assert_eq!(by_digest.id, image.id);
    let blobs = std::fs::read_dir(scratch.store.folder().join("blobs")).unwrap().count();
    assert_eq!(blobs, 2, "compressed layers are removed");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root"]
async fn index_gives_the_manifest_of_this_machine() {
    require_root();
    let registry = TestRegistry::start(Options { is_index: true, ..Options::default() }, &layers()).await;
    let scratch = Scratch::new();
    let image = scratch.pull(&format!("{}/app", registry.host())).await.unwrap();
    assert_eq!(image.digests, [format!("{}/app@{}", registry.host(), registry.top())]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root"]
async fn token_is_fetched_with_the_password_and_not_sent_to_the_redirect() {
    require_root();
    let options = Options { needs_token: true, redirects_blobs: true, ..Options::default() };
    let registry = TestRegistry::start(options, &layers()).await;
    let scratch = Scratch::new();
    let name = format!("{}/app", registry.host());
    let refused = scratch.pull(&name).await.unwrap_err();
    assert!(matches!(refused, PullError::Registry(RegistryError::Denied { .. })), "{refused}");
    let wrong = AuthConfig { password: "wrong".into(), ..password() };
    let refused = scratch.pull_with(&name, None, Some(&wrong)).await.unwrap_err();
    assert!(refused.to_string().contains("authorization failed: no such user"), "{refused}");
    scratch.check_empty();
    scratch.pull_with(&name, None, Some(&password())).await.unwrap();
    assert_eq!(registry.leaked_authorizations(), 0);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root"]
async fn interrupted_blob_is_continued_by_range() {
    require_root();
    let registry = TestRegistry::start(Options { cuts_blobs: true, ..Options::default() }, &layers()).await;
    let scratch = Scratch::new();
    scratch.pull(&format!("{}/app", registry.host())).await.unwrap();
    assert!(registry.ranges.load(Ordering::Relaxed) > 0);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root"]
async fn wrong_digests_end_the_pull_and_leave_nothing() {
    require_root();
    for options in [
        Options { damages_blobs: true, ..Options::default() },
        Options { damages_manifest: true, ..Options::default() },
    ] {
        let registry = TestRegistry::start(options, &layers()).await;
        let scratch = Scratch::new();
        let error = scratch.pull(&format!("{}/app", registry.host())).await.unwrap_err();
        assert!(error.to_string().contains("has the digest sha256:"), "{error}");
        scratch.check_empty();
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root"]
async fn mirror_is_used_first_and_gets_no_credentials() {
    require_root();
    let mirror = TestRegistry::start(Options::default(), &layers()).await;
    let origin = TestRegistry::start(Options { needs_token: true, ..Options::default() }, &layers()).await;
    let scratch = Scratch::new();
    let hosts = scratch.hosts(&format!(
        "server = \"http://{}\"\n[host.\"http://127.0.0.1:1\"]\n[host.\"http://{}\"]\n",
        origin.host(),
        mirror.host()
    ));
    scratch.pull_with("registry.example/app:1", Some(hosts), Some(&password())).await.unwrap();
    assert_eq!((mirror.authorizations(), origin.requests()), (0, 0));
    assert!(mirror.requests() > 0);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs root"]
async fn missing_images_and_registries_have_clear_errors() {
    require_root();
    let registry = TestRegistry::start(Options::default(), &layers()).await;
    let scratch = Scratch::new();
    let missing = scratch.pull(&format!("{}/missing", registry.host())).await.unwrap_err();
    assert!(matches!(missing, PullError::Registry(RegistryError::NotFound { .. })), "{missing}");
    let unreachable = scratch.pull("127.0.0.1:1/app").await.unwrap_err();
    assert!(unreachable.to_string().starts_with("RegistryUnavailable: "), "{unreachable}");
    scratch.check_empty();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Debian packages"]
async fn pulls_what_a_real_registry_serves() {
    let scratch = Scratch::new();
    let registry = debian_registry::Registry::start(scratch.folder.path()).await;
    let first = layer(&[("etc/", ""), ("etc/release", "1")]);
    let config = json!({"Env": ["A=b"]});
    registry.push("team/app", "1", &[first], &config).await;
    let name = format!("{}/team/app:1", registry.host());
    let pulled = scratch.pull(&name).await.unwrap();
    assert_eq!(
        (pulled.tags.as_slice(), pulled.config.env.as_slice()),
        (&[name][..], &["A=b".to_owned()][..])
    );
    let root = scratch.store.mount_root(pulled.id.as_str(), "c").unwrap();
    assert_eq!(std::fs::read_to_string(root.join("etc/release")).unwrap(), "1");
    scratch.store.unmount_root("c").unwrap();
}
