use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

const MAX_MANIFEST_BYTES: u64 = 10 * 1024 * 1024;

/// A file of the folder with its content, or the reason why it could not be read.
#[derive(Debug)]
pub(super) struct FoundFile {
    pub(super) path: PathBuf,
    pub(super) content: Result<Vec<u8>, String>,
}

/// Content of the manifest path.
#[derive(Debug)]
pub(super) enum Listing {
    Missing,
    /// Sorted by path.
    Files(Vec<FoundFile>),
}

/// Reads the files of a folder, or the file at the path.
pub(super) fn list(path: &Path) -> io::Result<Listing> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Listing::Missing),
        Err(error) => return Err(error),
    };
    if metadata.is_file() {
        return Ok(Listing::Files(vec![FoundFile { path: path.to_owned(), content: read(path) }]));
    }
    if !metadata.is_dir() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "neither a folder nor a file"));
    }
    let mut paths: Vec<PathBuf> =
        fs::read_dir(path)?.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<_>>()?;
    paths.retain(|path| super::is_manifest_name(path));
    paths.sort();
    let mut files = Vec::new();
    for path in paths {
        match fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() => {
                files.push(FoundFile { content: read(&path), path });
            }
            // Skips subfolders, sockets and other non-files.
            Ok(_) => {}
            // Removed meanwhile, or a dangling symbolic link.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => files.push(FoundFile { path, content: Err(error.to_string()) }),
        }
    }
    Ok(Listing::Files(files))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let file = File::open(path).map_err(|error| format!("cannot be opened: {error}"))?;
    let mut content = Vec::new();
    file.take(MAX_MANIFEST_BYTES + 1)
        .read_to_end(&mut content)
        .map_err(|error| format!("cannot be read: {error}"))?;
    if u64::try_from(content.len()).unwrap_or(u64::MAX) > MAX_MANIFEST_BYTES {
        return Err(format!("is larger than {} MiB", MAX_MANIFEST_BYTES / 1024 / 1024));
    }
    Ok(content)
}
