//! Reads configuration files with a size limit, and lists drop-in directories.

use std::{
    fs,
    io::Read,
    path::{Component, Path, PathBuf},
};

use crate::problem::LoadError;

/// Maximum size of a configuration file in bytes.
pub(crate) const MAX_FILE_BYTES: u64 = 10 << 20;
/// Maximum depth of subdirectories below a drop-in directory.
const MAX_DEPTH: usize = 32;

/// Reads a file of at most [`MAX_FILE_BYTES`].
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, LoadError> {
    let read_error = |source| LoadError::Read { path: path.to_owned(), source };
    let mut text = Vec::new();
    fs::File::open(path)
        .map_err(read_error)?
        .take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut text)
        .map_err(read_error)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        return Err(LoadError::TooLarge { path: path.to_owned(), limit: MAX_FILE_BYTES });
    }
    Ok(text)
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct DropIns {
    /// Files with the suffix `.conf`, in the order in which they are applied.
    pub(crate) applied: Vec<PathBuf>,
    /// All other files.
    pub(crate) skipped: Vec<PathBuf>,
}

/// Lists a directory recursively in lexical order; symbolic links to directories are not followed.
pub(crate) fn drop_ins(directory: &Path) -> Result<DropIns, LoadError> {
    let mut found = DropIns::default();
    walk(directory, 0, &mut found)?;
    Ok(found)
}

fn walk(directory: &Path, depth: usize, found: &mut DropIns) -> Result<(), LoadError> {
    let read_error = |source| LoadError::Read { path: directory.to_owned(), source };
    if depth > MAX_DEPTH {
        return Err(read_error(std::io::Error::other("directories are nested too deeply")));
    }
    let entries = fs::read_dir(directory).map_err(read_error)?;
    let mut entries: Vec<fs::DirEntry> = entries.collect::<Result<_, _>>().map_err(read_error)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if entry.file_type().map_err(read_error)?.is_dir() {
            walk(&path, depth + 1, found)?;
        } else if entry.file_name().as_encoded_bytes().ends_with(b".conf") {
            found.applied.push(path);
        } else {
            found.skipped.push(path);
        }
    }
    Ok(())
}

/// Joins a relative `path` to `directory` and removes `.` and `..`.
pub(crate) fn resolve(directory: &Path, path: &str) -> String {
    let mut resolved = PathBuf::new();
    for component in directory.join(path).components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                resolved.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => resolved.push(component),
        }
    }
    resolved.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_drop_ins_in_lexical_order_and_skips_other_files() {
        let root = tempfile::tempdir().unwrap();
        for name in ["20.conf", "10.conf", "15-more/b.conf", "15-more/a.conf", "readme.md", "15-more/x.yaml"]
        {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let found = drop_ins(root.path()).unwrap();
        let names = |paths: &[PathBuf]| -> Vec<String> {
            paths.iter().map(|path| path.strip_prefix(root.path()).unwrap().display().to_string()).collect()
        };
        assert_eq!(names(&found.applied), ["10.conf", "15-more/a.conf", "15-more/b.conf", "20.conf"]);
        assert_eq!(names(&found.skipped), ["15-more/x.yaml", "readme.md"]);
        assert!(drop_ins(&root.path().join("none")).is_err());
    }

    #[test]
    fn rejects_files_over_the_size_limit() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("large");
        fs::File::create(&path).unwrap().set_len(MAX_FILE_BYTES + 1).unwrap();
        assert!(matches!(read(&path), Err(LoadError::TooLarge { .. })));
        assert!(matches!(read(&root.path().join("none")), Err(LoadError::Read { .. })));
    }

    #[test]
    fn resolves_relative_paths() {
        let resolve = |path| resolve(Path::new("/etc/kubernetes"), path);
        assert_eq!(resolve("pki/ca.crt"), "/etc/kubernetes/pki/ca.crt");
        assert_eq!(resolve("../x/./y"), "/etc/x/y");
        assert_eq!(resolve("/abs"), "/abs");
    }
}
