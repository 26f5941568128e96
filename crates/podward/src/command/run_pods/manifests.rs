//! The manifests of a run: read and checked before anything starts, and then copied to the folder that the agent reads.

use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use agent::pipeline::sources::ManifestReader;
use anyhow::{Context, bail};
use manifest::{ManifestLocation, ManifestRules, ObjectSource};

use crate::check::manifest_files;

/// Far above any manifest, and far below the memory of a machine.
const MAX_BYTES: u64 = 16 << 20;
const STDIN: &str = "-";

/// Valid manifests with at least one pod.
#[derive(Debug)]
pub(super) struct Manifests {
    files: Vec<ManifestFile>,
    pub(super) pods: usize,
    pub(super) warnings: Vec<String>,
}

#[derive(Debug)]
struct ManifestFile {
    /// As the user typed it.
    name: String,
    text: Vec<u8>,
}

/// Reads files, the manifests of folders, and standard input for `-`.
pub(super) fn read(paths: &[PathBuf], stdin: impl Read) -> anyhow::Result<Manifests> {
    let mut stdin = Some(stdin);
    let mut files = Vec::new();
    for path in paths {
        if path.as_os_str() == STDIN {
            let Some(stdin) = stdin.take() else { bail!("standard input (-) is given twice") };
            files.push(bounded("standard input", stdin)?);
            continue;
        }
        for file in manifest_files(path)? {
            let name = file.display().to_string();
            let opened = std::fs::File::open(&file).with_context(|| format!("open {name}"))?;
            files.push(bounded(&name, opened)?);
        }
    }
    check(files)
}

fn bounded(name: &str, from: impl Read) -> anyhow::Result<ManifestFile> {
    let mut text = Vec::new();
    from.take(MAX_BYTES + 1).read_to_end(&mut text).with_context(|| format!("read {name}"))?;
    if text.len() as u64 > MAX_BYTES {
        bail!("{name}: has more than {} MiB", MAX_BYTES >> 20);
    }
    Ok(ManifestFile { name: name.to_owned(), text })
}

fn check(files: Vec<ManifestFile>) -> anyhow::Result<Manifests> {
    let reader = ManifestReader {
        node: host::hostname().unwrap_or_else(|_| "node".to_owned()),
        rules: ManifestRules { objects: ObjectSource::Manifests, ..ManifestRules::default() },
    };
    let (mut problems, mut warnings, mut seen) = (Vec::new(), Vec::new(), HashMap::new());
    let mut pods = 0;
    for file in &files {
        match reader.read(&file.text, ManifestLocation::File(&file.name)) {
            Err(lines) => problems.extend(lines.iter().map(|line| format!("{}: {line}", file.name))),
            Ok(reading) => {
                warnings.extend(reading.warnings.iter().map(|line| format!("{}: {line}", file.name)));
                pods += reading.pods.len();
                let names = reading.pods.iter().map(|pod| format!("pod {}", pod.full_name));
                let objects = reading.objects.iter().map(|object| object.key.to_string());
                for name in names.chain(objects) {
                    if let Some(earlier) = seen.insert(name.clone(), file.name.clone()) {
                        problems.push(format!("{}: {name} is also in {earlier}", file.name));
                    }
                }
            }
        }
    }
    if !problems.is_empty() {
        bail!("{}", problems.join("\n"));
    }
    if pods == 0 {
        let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
        bail!("no pod in {}", if names.is_empty() { "an empty folder".to_owned() } else { names.join(", ") });
    }
    Ok(Manifests { files, pods, warnings })
}

impl Manifests {
    /// Copies the manifests to a folder that exists. The order of the names is that of the command line.
    pub(super) fn stage(&self, folder: &Path) -> anyhow::Result<()> {
        for (number, file) in self.files.iter().enumerate() {
            let path = folder.join(format!("{number:04}.yaml"));
            std::fs::write(&path, &file.text).with_context(|| format!("write {}", path.display()))?;
        }
        Ok(())
    }
}

/// Removes the manifests, so that the agent ends their pods.
pub(super) fn withdraw(folder: &Path) -> anyhow::Result<()> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("list {}", folder.display()))?;
    for entry in entries {
        let path = entry.with_context(|| format!("list {}", folder.display()))?.path();
        std::fs::remove_file(&path).with_context(|| format!("remove {}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str =
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers: [{name: c, image: i}]\n";

    fn read_files(files: &[(&str, &str)]) -> Result<Manifests, String> {
        let folder = tempfile::tempdir().unwrap();
        let paths: Vec<PathBuf> = files
            .iter()
            .map(|(name, text)| {
                let path = folder.path().join(name);
                std::fs::write(&path, text).unwrap();
                path
            })
            .collect();
        let prefix = format!("{}/", folder.path().display());
        read(&paths, std::io::empty()).map_err(|error| error.to_string().replace(&prefix, ""))
    }

    #[test]
    fn problems_name_file_line_and_field() {
        let bad = POD.replace("name: c, image: i", "name: c");
        let error = read_files(&[("good.yaml", POD), ("bad.yaml", &bad)]).unwrap_err();
        assert!(error.starts_with("bad.yaml: line 5: spec.containers[0].image: Required value"), "{error}");
    }

    #[test]
    fn the_same_pod_in_two_files_is_refused() {
        let error = read_files(&[("one.yaml", POD), ("two.yaml", POD)]).unwrap_err();
        assert!(error.starts_with("two.yaml: pod default/a-"), "{error}");
        assert!(error.ends_with("is also in one.yaml"), "{error}");
    }

    #[test]
    fn objects_alone_are_no_run() {
        let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {a: b}\n";
        assert_eq!(read_files(&[("map.yaml", map)]).unwrap_err(), "no pod in map.yaml");
        assert_eq!(read_files(&[("map.yaml", map), ("pod.yaml", POD)]).unwrap().pods, 1);
    }

    #[test]
    fn standard_input_can_be_given_once() {
        let stdin = || PathBuf::from("-");
        assert_eq!(read(&[stdin()], POD.as_bytes()).unwrap().pods, 1);
        let error = read(&[stdin(), stdin()], POD.as_bytes()).unwrap_err().to_string();
        assert_eq!(error, "standard input (-) is given twice");
    }

    #[test]
    fn staged_manifests_are_withdrawn() {
        let folder = tempfile::tempdir().unwrap();
        read_files(&[("a.yaml", POD)]).unwrap().stage(folder.path()).unwrap();
        assert_eq!(std::fs::read_to_string(folder.path().join("0000.yaml")).unwrap(), POD);
        withdraw(folder.path()).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
