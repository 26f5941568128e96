//! Agents that start on the state of earlier releases. `tests/state` has that state, as recorded from runs of real pods.

use std::fs;
use std::path::{Path, PathBuf};

use crate::node::VirtualNode;

/// The folders of all releases.
fn recorded() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/state");
    let releases: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!releases.is_empty());
    releases
}

/// Copies the files of a folder, but not its folders.
fn copy_files(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        if entry.path().is_file() {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

fn uid(release: &Path, pod: &str) -> String {
    let text = fs::read_to_string(release.join("podward/desired_pods")).unwrap();
    let (_header, content) = text.split_once('\n').unwrap();
    let content: serde_json::Value = serde_json::from_str(content).unwrap();
    let pods = content["sources"]["file"].as_array().unwrap();
    let found = pods.iter().find(|found| found["metadata"]["name"] == pod);
    found.unwrap()["metadata"]["uid"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn runs_pods_from_the_state_of_every_earlier_release() {
    for release in recorded() {
        let mut node = VirtualNode::new();
        "node-a".clone_into(&mut node.name);
        copy_files(&release.join("podward"), &node.path("state"));
        copy_files(&release, &node.path("root"));
        // The manifest folder cannot be read, so only the checkpoints have the pods and their objects.
        fs::remove_dir(node.path("manifests")).unwrap();
        std::os::unix::fs::symlink(node.path("manifests"), node.path("manifests")).unwrap();
        node.runtime.set_exec(|_, _| testkit::fake_runtime::ExecOutcome::exits(0));
        node.start_agent();
        node.until_running(&uid(&release, "web-node-a")).await;
        let configured = uid(&release, "configured-node-a");
        node.until_running(&configured).await;
        let environment = &node.containers(&configured)[0].config.envs;
        for (name, value) in [("PASSWORD", "change-me"), ("GREETING", "hello")] {
            let found = environment.iter().find(|variable| variable.key == name);
            assert_eq!(
                found.map(|variable| &variable.value[..]),
                Some(value.as_bytes()),
                "{}",
                release.display()
            );
        }
        let names: Vec<_> =
            fs::read_dir(node.path("state")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(!names.iter().any(|name| name.to_string_lossy().ends_with(".corrupt")), "{names:?}");
        node.assert_no_violations();
    }
}
