use parking_lot::Mutex as StdMutex;

use async_trait::async_trait;
use model::{CredentialOrigin, ImageAuth, ImageFilesystems, ImageSpec, SandboxSpec};
use ports::clock::SystemClock;
use ports::runtime::RuntimeError;

use super::*;

const IMAGE: &str = "registry.local/app:1";
const REFERENCE: &str = "sha256:1";

/// Records that several ledgers share, like a disk over a restart.
#[derive(Default)]
struct Disk(StdMutex<BTreeMap<(bool, String), Vec<u8>>>);

impl Disk {
    fn count(&self, kind: PullRecordKind) -> usize {
        self.0.lock().keys().filter(|(pulled, _)| *pulled == (kind == PullRecordKind::Pulled)).count()
    }
}

#[async_trait]
impl PullRecords for Disk {
    async fn list(&self, kind: PullRecordKind) -> Result<Vec<(String, Vec<u8>)>, FileError> {
        let files = self.0.lock();
        let of_kind = files.iter().filter(|((pulled, _), _)| *pulled == (kind == PullRecordKind::Pulled));
        Ok(of_kind.map(|((_, name), content)| (name.clone(), content.clone())).collect())
    }

    async fn save(&self, kind: PullRecordKind, name: String, content: Vec<u8>) -> Result<(), FileError> {
        self.0.lock().insert((kind == PullRecordKind::Pulled, name), content);
        Ok(())
    }

    async fn remove(&self, kind: PullRecordKind, name: String) -> Result<(), FileError> {
        self.0.lock().remove(&(kind == PullRecordKind::Pulled, name));
        Ok(())
    }
}

struct OneImage;

#[async_trait]
impl Images for OneImage {
    async fn image_status(&self, _: &ImageSpec) -> Result<Option<ImageStatus>, RuntimeError> {
        Ok(None)
    }

    async fn pull_image(
        &self,
        _: &ImageSpec,
        _: Option<&ImageAuth>,
        _: &SandboxSpec,
    ) -> Result<String, RuntimeError> {
        Ok(REFERENCE.to_owned())
    }

    async fn list_images(&self) -> Result<Vec<ImageStatus>, RuntimeError> {
        Ok(vec![image()])
    }

    async fn remove_image(&self, _: &ImageSpec) -> Result<(), RuntimeError> {
        Ok(())
    }

    async fn image_filesystems(&self) -> Result<ImageFilesystems, RuntimeError> {
        Ok(ImageFilesystems::default())
    }
}

fn image() -> ImageStatus {
    ImageStatus { id: REFERENCE.to_owned(), repo_tags: vec![IMAGE.to_owned()], ..ImageStatus::default() }
}

fn ledger(disk: &Arc<Disk>, policy: Verification) -> PullLedger {
    PullLedger::new(PullLedgerDeps {
        records: disk.clone(),
        runtime: Arc::new(OneImage),
        clock: Arc::new(SystemClock),
        metrics: Arc::default(),
        policy,
    })
}

fn credential(secret: &str, password: &str) -> RegistryCredential {
    RegistryCredential {
        location: "registry.local".to_owned(),
        username: "me".to_owned(),
        password: password.to_owned(),
        email: String::new(),
        origin: CredentialOrigin::Secret {
            uid: String::new(),
            namespace: "default".to_owned(),
            name: secret.to_owned(),
        },
    }
}

async fn may_use(ledger: &PullLedger, credential: Option<&RegistryCredential>) -> bool {
    let credentials = Shown::of(&credential.into_iter().cloned().collect::<Vec<_>>());
    ledger.may_use(IMAGE, REFERENCE, async { credentials }).await
}

#[tokio::test]
async fn image_pulled_with_secret_requires_that_secret_after_restart() {
    let disk = Arc::new(Disk::default());
    let first = ledger(&disk, Verification::UnlessPreloaded);
    assert!(may_use(&first, None).await, "the image is preloaded");
    let mine = credential("mine", "right");
    let intent = first.begin(IMAGE).await.unwrap();
    assert!(!may_use(&first, None).await, "it is being pulled");
    first.pulled(intent, REFERENCE, Some(&mine)).await;
    assert_eq!((disk.count(PullRecordKind::Pulling), disk.count(PullRecordKind::Pulled)), (0, 1));
    let second = ledger(&disk, Verification::UnlessPreloaded);
    for ledger in [&first, &second] {
        assert!(!may_use(ledger, None).await);
        assert!(!may_use(ledger, Some(&credential("other", "wrong"))).await);
        assert!(may_use(ledger, Some(&mine)).await);
    }
    // Another secret with the same content is accepted and recorded.
    assert!(may_use(&second, Some(&credential("other", "right"))).await);
    assert!(may_use(&ledger(&disk, Verification::Always), Some(&credential("other", "changed"))).await);
}

#[tokio::test]
async fn interrupted_pull_leaves_image_that_requires_credentials() {
    let disk = Arc::new(Disk::default());
    drop(ledger(&disk, Verification::UnlessPreloaded).begin(IMAGE).await.unwrap());
    assert_eq!((disk.count(PullRecordKind::Pulling), disk.count(PullRecordKind::Pulled)), (1, 0));
    let next = ledger(&disk, Verification::UnlessPreloaded);
    assert!(!may_use(&next, None).await);
    assert_eq!((disk.count(PullRecordKind::Pulling), disk.count(PullRecordKind::Pulled)), (0, 1));
    let intent = next.begin(IMAGE).await.unwrap();
    next.pulled(intent, REFERENCE, None).await;
    assert!(may_use(&next, None).await, "the image was pulled anonymously");
}

#[tokio::test]
async fn keeps_intent_until_last_concurrent_pull_ends() {
    let disk = Arc::new(Disk::default());
    let ledger = ledger(&disk, Verification::UnlessPreloaded);
    let (one, two) = (ledger.begin(IMAGE).await.unwrap(), ledger.begin(IMAGE).await.unwrap());
    ledger.failed(one).await;
    assert_eq!(disk.count(PullRecordKind::Pulling), 1);
    ledger.failed(two).await;
    assert_eq!(disk.count(PullRecordKind::Pulling), 0);
    assert!(may_use(&ledger, None).await);
}

#[tokio::test]
async fn damaged_record_requires_pull_and_is_replaced() {
    let disk = Arc::new(Disk::default());
    disk.save(PullRecordKind::Pulled, file_name(REFERENCE), b"{".to_vec()).await.unwrap();
    let ledger = ledger(&disk, Verification::Never);
    assert!(!may_use(&ledger, None).await);
    let intent = ledger.begin(IMAGE).await.unwrap();
    ledger.pulled(intent, REFERENCE, None).await;
    assert!(may_use(&ledger, None).await);
    assert_eq!(disk.count(PullRecordKind::Pulled), 1);
}

#[tokio::test]
async fn prunes_records_of_removed_images() {
    let disk = Arc::new(Disk::default());
    let ledger = ledger(&disk, Verification::UnlessPreloaded);
    let intent = ledger.begin(IMAGE).await.unwrap();
    ledger.pulled(intent, REFERENCE, None).await;
    let later = SystemClock.now().after(std::time::Duration::from_secs(60));
    ledger.prune(&[image()], later).await;
    ledger.prune(&[], Timestamp::ZERO).await;
    assert_eq!(disk.count(PullRecordKind::Pulled), 1);
    ledger.prune(&[], later).await;
    assert_eq!(disk.count(PullRecordKind::Pulled), 0);
}

#[tokio::test]
async fn counts_access_checks_by_result() {
    let disk = Arc::new(Disk::default());
    let ledger = ledger(&disk, Verification::UnlessPreloaded);
    may_use(&ledger, None).await;
    let mine = credential("mine", "right");
    let intent = ledger.begin(IMAGE).await.unwrap();
    ledger.pulled(intent, REFERENCE, Some(&mine)).await;
    may_use(&ledger, None).await;
    may_use(&ledger, Some(&mine)).await;
    let text = ledger.deps.metrics.encode(crate::metrics::Format::Text);
    for result in ["credentialPolicyAllowed", "mustAuthenticate", "credentialRecordFound"] {
        let line = format!("kubelet_imagemanager_image_mustpull_checks_total{{result=\"{result}\"}} 1\n");
        assert!(text.contains(&line), "{line} in {text}");
    }
}
