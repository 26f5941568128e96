//! `podward check`: says what is wrong with manifests before an agent does.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use agent::sources::ManifestReader;
use agent::sources::file::is_manifest_name;
use anyhow::{Context, bail};
use manifest::{ObjectPlace, Place, Rules};

/// Checks the named files and folders.
///
/// # Errors
/// When nothing was named or a path cannot be read.
pub fn run(arguments: &[String]) -> anyhow::Result<ExitCode> {
    if arguments.is_empty() {
        bail!("usage: podward check FILE...");
    }
    let node = host::hostname().unwrap_or_else(|_| "node".to_owned());
    let reader =
        ManifestReader { node, rules: Rules { objects: ObjectPlace::Manifests, ..Rules::default() } };
    let mut bad = 0;
    for argument in arguments {
        for file in files(Path::new(argument))? {
            bad += usize::from(!check(&reader, &file)?);
        }
    }
    Ok(if bad == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn files(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = std::fs::read_dir(path).with_context(|| format!("list {}", path.display()))?;
    let mut files: Vec<PathBuf> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    files.retain(|file| file.is_file() && is_manifest_name(file));
    files.sort();
    Ok(files)
}

fn check(reader: &ManifestReader, file: &Path) -> anyhow::Result<bool> {
    let text = std::fs::read(file).with_context(|| format!("read {}", file.display()))?;
    let name = file.display().to_string();
    match reader.read(&text, Place::File(&name)) {
        Ok(reading) => {
            for warning in &reading.warnings {
                println!("{name}: warning: {warning}");
            }
            for pod in &reading.pods {
                println!("{name}: pod {} is fine", pod.full_name);
            }
            for object in &reading.objects {
                println!("{name}: {} is fine", object.key);
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
