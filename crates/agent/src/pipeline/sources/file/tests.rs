use ports::host::folder_watch::ChangeHints;
use testkit::fake_clock::FakeClock;

use super::*;

struct NoHints;

impl FolderWatch for NoHints {
    fn watch(&self, _: &Path) -> ChangeHints {
        futures::stream::pending().boxed()
    }
}

struct Fixture {
    folder: tempfile::TempDir,
    source: FileSource,
    snapshots: mpsc::Receiver<Snapshot>,
    reports: watch::Receiver<Vec<FileReport>>,
}

impl Fixture {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (sender, snapshots) = mpsc::channel(8);
        let (report, reports) = watch::channel(Vec::new());
        let objects = Arc::new(LocalObjects::new([PodSource::File]));
        let rules =
            manifest::ManifestRules { objects: manifest::ObjectSource::Manifests, ..Default::default() };
        let deps = FileSourceDeps {
            path: folder.path().to_owned(),
            check_frequency: Duration::from_secs(20),
            reader: ManifestReader { node: "node".into(), rules },
            objects: Arc::clone(&objects),
            watch: Arc::new(NoHints),
            snapshots: sender,
            reports: report,
            report: Arc::new(SourceReports::new(Arc::new(FakeClock::fixed(1)))),
            clock: Arc::new(FakeClock::fixed(1)),
            metrics: Arc::new(Metrics::new()),
        };
        let source = FileSource::new(deps);
        Self { folder, source, snapshots, reports }
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).unwrap();
    }

    async fn images(&mut self) -> Vec<String> {
        assert!(self.source.refresh().await);
        let snapshot = self.snapshots.recv().await.unwrap();
        snapshot.pods.iter().map(|pod| pod.spec.containers[0].image.clone().unwrap()).collect()
    }

    fn state(&self) -> Vec<FileState> {
        self.reports.borrow().iter().map(|report| report.state).collect()
    }
}

fn pod(name: &str, image: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\nspec:\n  containers:\n  - name: c\n    image: {image}\n"
    )
}

#[tokio::test]
async fn ignores_hidden_and_temporary_files() {
    let mut fixture = Fixture::new();
    fixture.write("a.yaml", &pod("a", "x"));
    for leftover in
        [".a.yaml", "a.yaml~", "a.yaml.swp", "a.yaml.bak", "a.yaml.tmp", "a.yaml.orig", "#a.yaml#"]
    {
        fixture.write(leftover, &pod("other", "bad"));
    }
    std::fs::create_dir(fixture.folder.path().join("sub")).unwrap();
    assert_eq!(fixture.images().await, ["x"]);
}

#[tokio::test]
async fn reads_all_documents_of_a_file() {
    let mut fixture = Fixture::new();
    fixture.write("all.yaml", &format!("{}---\n{}", pod("a", "x"), pod("b", "w")));
    assert_eq!(fixture.images().await, ["x", "w"]);
}

#[tokio::test]
async fn invalid_file_keeps_its_last_valid_pods_until_it_is_removed() {
    let mut fixture = Fixture::new();
    fixture.write("a.yaml", &pod("a", "x"));
    fixture.write("b.yaml", &pod("b", "w"));
    assert_eq!(fixture.images().await, ["x", "w"]);
    fixture.write("a.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: []}\n");
    assert_eq!(fixture.images().await, ["x", "w"]);
    assert_eq!(fixture.state(), [FileState::LastGoodVersion, FileState::Accepted]);
    assert!(fixture.reports.borrow()[0].problems[0].contains("spec.containers"));
    fixture.write("a.yaml", &pod("a", "z"));
    assert_eq!(fixture.images().await, ["z", "w"]);
    assert_eq!(fixture.state(), [FileState::Accepted, FileState::Accepted]);
    std::fs::remove_file(fixture.folder.path().join("a.yaml")).unwrap();
    assert_eq!(fixture.images().await, ["w"]);
}

#[tokio::test]
async fn invalid_new_file_has_no_pods_and_reports_its_problems() {
    let mut fixture = Fixture::new();
    fixture.write("a.yaml", "kind: Pod\n  broken: [");
    assert!(fixture.images().await.is_empty());
    assert_eq!(fixture.state(), [FileState::Rejected]);
    assert!(fixture.reports.borrow()[0].problems[0].contains("line"), "{:?}", fixture.reports.borrow());
}

#[tokio::test(start_paused = true)]
async fn file_that_looks_cut_off_is_reported_after_a_second() {
    let mut fixture = Fixture::new();
    fixture.write("a.yaml", &pod("a", "x"));
    assert_eq!(fixture.images().await, ["x"]);
    for content in ["", "apiVersion: v1\nkind: Pod\nmeta"] {
        fixture.write("a.yaml", content);
        for _ in 0..2 {
            assert_eq!(fixture.images().await, ["x"]);
            assert_eq!(fixture.state(), [FileState::Accepted], "{content:?}");
            assert_eq!(fixture.source.next_check(), INCOMPLETE_FILE_DELAY);
        }
    }
    tokio::time::advance(INCOMPLETE_FILE_DELAY).await;
    assert_eq!(fixture.images().await, ["x"]);
    assert_eq!(fixture.state(), [FileState::LastGoodVersion]);
    assert_eq!(fixture.source.next_check(), Duration::from_secs(20));
    fixture.write("a.yaml", "kind: Po");
    fixture.images().await;
    fixture.write("a.yaml", &pod("a", "w"));
    assert_eq!(fixture.images().await, ["w"]);
    assert_eq!(fixture.source.next_check(), Duration::from_secs(20));
}

#[tokio::test]
async fn removed_file_that_is_back_at_once_counts_as_removed() {
    let mut fixture = Fixture::new();
    fixture.write("a.yaml", &pod("a", "x"));
    fixture.write("b.yaml", &pod("b", "w"));
    fixture.images().await;
    assert!(fixture.source.remove(&["a.yaml".into(), "other".into()].into()).await);
    let snapshot = fixture.snapshots.recv().await.unwrap();
    assert_eq!(snapshot.pods.len(), 1);
    assert_eq!(fixture.images().await, ["x", "w"]);
    assert!(fixture.source.remove(&["other".into()].into()).await);
    assert!(fixture.snapshots.try_recv().is_err(), "no snapshot without a change");
}

#[tokio::test]
async fn missing_folder_sends_an_empty_snapshot() {
    let mut fixture = Fixture::new();
    fixture.source.deps.path = fixture.folder.path().join("later");
    assert!(fixture.images().await.is_empty());
    std::fs::create_dir(fixture.folder.path().join("later")).unwrap();
    fixture.write("later/a.yaml", &pod("a", "x"));
    assert_eq!(fixture.images().await, ["x"]);
}

#[tokio::test]
async fn reads_a_single_file_and_follows_symbolic_links() {
    let mut fixture = Fixture::new();
    fixture.write("one.yaml", &pod("a", "x"));
    fixture.write("two.yaml", &pod("a", "w"));
    let link = fixture.folder.path().join("link.yaml");
    std::os::unix::fs::symlink("one.yaml", &link).unwrap();
    fixture.source.deps.path = link.clone();
    assert_eq!(fixture.images().await, ["x"]);
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink("two.yaml", &link).unwrap();
    assert_eq!(fixture.images().await, ["w"]);
}

fn config_map(name: &str, value: &str, more: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\ndata:\n  k: {value}\n{more}")
}

impl Fixture {
    /// The value of key `k` of a ConfigMap after reading the folder again.
    async fn value(&mut self, name: &str) -> Option<String> {
        self.images().await;
        let key = model::ObjectKey {
            kind: model::ObjectKind::ConfigMap,
            namespace: "default".to_owned(),
            name: name.to_owned(),
        };
        let object = ports::served::objects::Objects::get(&*self.source.deps.objects, &key).await.ok()?;
        String::from_utf8(object.data["k"].clone()).ok()
    }
}

#[tokio::test]
async fn objects_of_an_invalid_file_stay_until_it_is_corrected_or_removed() {
    let mut fixture = Fixture::new();
    fixture.write("a.yaml", &config_map("a", "one", ""));
    assert_eq!(fixture.value("a").await.as_deref(), Some("one"));
    assert_eq!(fixture.reports.borrow()[0].objects, ["configmap default/a"]);
    fixture.write("a.yaml", &config_map("a", "[not, a, string]", ""));
    assert_eq!(fixture.value("a").await.as_deref(), Some("one"));
    assert_eq!(fixture.state(), [FileState::LastGoodVersion]);
    assert_eq!(fixture.reports.borrow()[0].problems, ["line 6: data.k: must be a string; quote the value"]);
    fixture.write("a.yaml", &config_map("a", "two", ""));
    assert_eq!(fixture.value("a").await.as_deref(), Some("two"));
    std::fs::remove_file(fixture.folder.path().join("a.yaml")).unwrap();
    assert_eq!(fixture.value("a").await, None);
}

#[tokio::test]
async fn immutable_object_cannot_change_but_can_be_recreated() {
    let mut fixture = Fixture::new();
    fixture.write("a.yaml", &config_map("a", "one", "immutable: true\n"));
    assert_eq!(fixture.value("a").await.as_deref(), Some("one"));
    fixture.write("a.yaml", &config_map("a", "two", "immutable: true\n"));
    assert_eq!(fixture.value("a").await.as_deref(), Some("one"));
    let problem = fixture.reports.borrow()[0].problems[0].clone();
    assert!(
        problem.starts_with("configmap default/a: data: Forbidden: field is immutable when"),
        "{problem}"
    );
    std::fs::remove_file(fixture.folder.path().join("a.yaml")).unwrap();
    assert_eq!(fixture.value("a").await, None);
    fixture.write("a.yaml", &config_map("a", "two", "immutable: true\n"));
    assert_eq!(fixture.value("a").await.as_deref(), Some("two"));
}

#[tokio::test]
async fn object_in_two_files_is_taken_from_the_first_file() {
    let mut fixture = Fixture::new();
    fixture.write("b.yaml", &config_map("a", "second", ""));
    assert_eq!(fixture.value("a").await.as_deref(), Some("second"));
    fixture.write("a.yaml", &config_map("a", "first", ""));
    assert_eq!(fixture.value("a").await.as_deref(), Some("first"));
}
