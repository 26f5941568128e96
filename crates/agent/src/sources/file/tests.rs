use model::Timestamp;
use ports::folder_watch::ChangeHints;

use super::*;

struct NoHints;

impl FolderWatch for NoHints {
    fn watch(&self, _: &Path) -> ChangeHints {
        futures::stream::pending().boxed()
    }
}

struct Fixed;

impl Clock for Fixed {
    fn now(&self) -> Timestamp {
        Timestamp::from_secs(1)
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
        let parts = Parts {
            path: folder.path().to_owned(),
            check_frequency: Duration::from_secs(20),
            reader: ManifestReader { node: "node".into(), rules: manifest::Rules::default() },
            watch: Arc::new(NoHints),
            snapshots: sender,
            reports: report,
            clock: Arc::new(Fixed),
            metrics: Arc::new(Metrics::new()),
        };
        let source = FileSource { parts, files: BTreeMap::new(), missing_told: false };
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
async fn a_folder_is_read_without_hidden_files_and_leftovers() {
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
async fn several_documents_of_one_file_are_all_wanted() {
    let mut fixture = Fixture::new();
    fixture.write("all.yaml", &format!("{}---\n{}", pod("a", "x"), pod("b", "w")));
    assert_eq!(fixture.images().await, ["x", "w"]);
}

#[tokio::test]
async fn a_file_that_turns_bad_keeps_its_last_good_pods_until_it_is_removed() {
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
async fn a_bad_file_without_history_wants_nothing_and_says_why() {
    let mut fixture = Fixture::new();
    fixture.write("a.yaml", "kind: Pod\n  broken: [");
    assert!(fixture.images().await.is_empty());
    assert_eq!(fixture.state(), [FileState::Rejected]);
    assert!(fixture.reports.borrow()[0].problems[0].contains("line"), "{:?}", fixture.reports.borrow());
}

#[tokio::test]
async fn a_missing_folder_still_sends_an_empty_set() {
    let mut fixture = Fixture::new();
    fixture.source.parts.path = fixture.folder.path().join("later");
    assert!(fixture.images().await.is_empty());
    std::fs::create_dir(fixture.folder.path().join("later")).unwrap();
    fixture.write("later/a.yaml", &pod("a", "x"));
    assert_eq!(fixture.images().await, ["x"]);
}

#[tokio::test]
async fn one_file_can_be_the_source_and_links_are_followed() {
    let mut fixture = Fixture::new();
    fixture.write("one.yaml", &pod("a", "x"));
    fixture.write("two.yaml", &pod("a", "w"));
    let link = fixture.folder.path().join("link.yaml");
    std::os::unix::fs::symlink("one.yaml", &link).unwrap();
    fixture.source.parts.path = link.clone();
    assert_eq!(fixture.images().await, ["x"]);
    std::fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink("two.yaml", &link).unwrap();
    assert_eq!(fixture.images().await, ["w"]);
}
