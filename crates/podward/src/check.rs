//! `podward check`: validates manifests without an agent.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use agent::pipeline::sources::ManifestReader;
use agent::pipeline::sources::file::is_manifest_name;
use anyhow::{Context, bail};
use manifest::{ManifestLocation, ManifestRules, ObjectSource};

/// Checks files and folders.
///
/// # Errors
/// When no path is given or a path cannot be read.
pub fn run(arguments: &[String]) -> anyhow::Result<ExitCode> {
    if arguments.is_empty() {
        bail!("usage: podward check FILE...");
    }
    let node = host::hostname().unwrap_or_else(|_| "node".to_owned());
    let reader = ManifestReader {
        node,
        rules: ManifestRules { objects: ObjectSource::Manifests, ..ManifestRules::default() },
    };
    let mut invalid = 0;
    for argument in arguments {
        for file in manifest_files(Path::new(argument))? {
            invalid += usize::from(!is_valid(&reader, &file)?);
        }
    }
    Ok(if invalid == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A file itself, or the manifests of a folder.
pub(crate) fn manifest_files(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = std::fs::read_dir(path).with_context(|| format!("list {}", path.display()))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    files.retain(|file| file.is_file() && is_manifest_name(file));
    files.sort();
    Ok(files)
}

/// Prints the findings.
fn is_valid(reader: &ManifestReader, file: &Path) -> anyhow::Result<bool> {
    let text = std::fs::read(file).with_context(|| format!("read {}", file.display()))?;
    let name = file.display().to_string();
    match reader.read(&text, ManifestLocation::File(&name)) {
        Ok(manifest) => {
            for warning in &manifest.warnings {
                println!("{name}: warning: {warning}");
            }
            for pod in &manifest.pods {
                println!("{name}: pod {} is valid", pod.full_name);
            }
            for object in &manifest.objects {
                println!("{name}: {} is valid", object.key);
            }
            Ok(true)
        }
        Err(problems) => {
            for problem in problems {
                println!("{name}: {problem}");
            }
            Ok(false)
        }
    }
}
