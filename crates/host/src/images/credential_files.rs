//! Reads the node's `config.json` and `.dockercfg`.

use std::fs::File;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use model::{CredentialFile, CredentialFileForm};
use ports::host::credential_sources::CredentialFiles;

use crate::errors::read_at_most;

const MAX_FILE_BYTES: u64 = 10 << 20;

/// Reads the node's credential files on every call: pulls are rare, and a changed password takes effect at once.
#[derive(Clone, Debug)]
pub struct NodeCredentialFiles {
    candidates: Vec<(CredentialFileForm, PathBuf)>,
}

impl NodeCredentialFiles {
    /// Searches upstream's folders: the agent's root folder, its working directory, the home folder and `/`.
    #[must_use]
    pub fn new(root_dir: &Path, working_directory: &Path, home: Option<&Path>) -> Self {
        let top = Path::new("/");
        // Without a home folder upstream uses the working directory instead.
        let home = home.unwrap_or(working_directory);
        let new = [root_dir, working_directory, &home.join(".docker"), &top.join(".docker")]
            .map(|folder| (CredentialFileForm::ConfigJson, folder.join("config.json")));
        let old = [root_dir, working_directory, home, top]
            .map(|folder| (CredentialFileForm::Dockercfg, folder.join(".dockercfg")));
        Self { candidates: new.into_iter().chain(old).collect() }
    }
}

#[async_trait]
impl CredentialFiles for NodeCredentialFiles {
    async fn read(&self) -> Vec<CredentialFile> {
        let candidates = self.candidates.clone();
        let read = move || {
            let read = |(form, path): (CredentialFileForm, PathBuf)| {
                let content = read_at_most(File::open(&path).ok()?, MAX_FILE_BYTES).ok()?;
                Some(CredentialFile { path, form, content })
            };
            candidates.into_iter().filter_map(read).collect()
        };
        tokio::task::spawn_blocking(read).await.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn finds_files_in_upstream_order() {
        let scratch = tempfile::tempdir().unwrap();
        let path_of = |name: &str| scratch.path().join(name);
        for file in ["root/config.json", "home/.docker/config.json", "cwd/.dockercfg"] {
            std::fs::create_dir_all(path_of(file).parent().unwrap()).unwrap();
            std::fs::write(path_of(file), file).unwrap();
        }
        std::fs::create_dir_all(path_of("cwd/config.json")).unwrap();
        let files = NodeCredentialFiles::new(&path_of("root"), &path_of("cwd"), Some(&path_of("home")));
        let found = files.read().await;
        let ours = found.iter().filter(|file| file.path.starts_with(scratch.path()));
        let ours: Vec<_> = ours.map(|file| String::from_utf8(file.content.clone()).unwrap()).collect();
        assert_eq!(ours, ["root/config.json", "home/.docker/config.json", "cwd/.dockercfg"]);
    }
}
