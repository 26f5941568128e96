//! The node's `config.json` and `.dockercfg`.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use model::{CredentialFile, CredentialFileForm};
use ports::credential_sources::CredentialFiles;

/// No credential file is larger.
const LARGEST: u64 = 10 << 20;

/// Reads the credential files of the node, anew each time: a pull is rare, and a changed password counts at once.
#[derive(Clone, Debug)]
pub struct NodeCredentialFiles {
    places: Vec<(CredentialFileForm, PathBuf)>,
}

impl NodeCredentialFiles {
    /// Looks where upstream looks: the agent's root folder, its working directory, the home folder and `/`.
    #[must_use]
    pub fn new(root_dir: &Path, working_directory: &Path, home: Option<&Path>) -> Self {
        let top = Path::new("/");
        // A process without a home looks in its working directory instead.
        let home = home.unwrap_or(working_directory);
        let new = [root_dir, working_directory, &home.join(".docker"), &top.join(".docker")]
            .map(|folder| (CredentialFileForm::ConfigJson, folder.join("config.json")));
        let old = [root_dir, working_directory, home, top]
            .map(|folder| (CredentialFileForm::Dockercfg, folder.join(".dockercfg")));
        Self { places: new.into_iter().chain(old).collect() }
    }
}

#[async_trait]
impl CredentialFiles for NodeCredentialFiles {
    async fn read(&self) -> Vec<CredentialFile> {
        let places = self.places.clone();
        let read = move || {
            let read = |(form, path): (CredentialFileForm, PathBuf)| {
                let mut content = Vec::new();
                let size = File::open(&path).ok()?.take(LARGEST + 1).read_to_end(&mut content).ok()?;
                (size as u64 <= LARGEST).then_some(CredentialFile { path, form, content })
            };
            places.into_iter().filter_map(read).collect()
        };
        tokio::task::spawn_blocking(read).await.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn finds_files_in_upstreams_order() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        for file in ["root/config.json", "home/.docker/config.json", "cwd/.dockercfg"] {
            std::fs::create_dir_all(at(file).parent().unwrap()).unwrap();
            std::fs::write(at(file), file).unwrap();
        }
        std::fs::create_dir_all(at("cwd/config.json")).unwrap();
        let files = NodeCredentialFiles::new(&at("root"), &at("cwd"), Some(&at("home")));
        let found = files.read().await;
        let ours = found.iter().filter(|file| file.path.starts_with(scratch.path()));
        let ours: Vec<_> = ours.map(|file| String::from_utf8(file.content.clone()).unwrap()).collect();
        assert_eq!(ours, ["root/config.json", "home/.docker/config.json", "cwd/.dockercfg"]);
    }
}
