//! Configuration files: bounded reading, and the walk through a drop-in directory.

use std::{
    fs,
    io::Read,
    path::{Component, Path, PathBuf},
};

use crate::problem::LoadError;

/// The largest configuration file that is read.
pub(crate) const MAX_FILE: u64 = 10 << 20;
/// How deep a drop-in directory may nest.
const MAX_DEPTH: usize = 32;

/// Reads a whole file, if it is not unreasonably large.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, LoadError> {
    let failed = |source| LoadError::Read { path: path.to_owned(), source };
    let mut text = Vec::new();
    fs::File::open(path).map_err(failed)?.take(MAX_FILE + 1).read_to_end(&mut text).map_err(failed)?;
    if text.len() as u64 > MAX_FILE {
        return Err(LoadError::TooLarge { path: path.to_owned(), limit: MAX_FILE });
    }
    Ok(text)
}

/// The files of a drop-in directory.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct DropIns {
    /// Files that end in `.conf`, in the order they are applied.
    pub(crate) applied: Vec<PathBuf>,
    /// All others.
    pub(crate) skipped: Vec<PathBuf>,
}

/// Lists a directory and those below it in lexical order; links to directories are not followed.
pub(crate) fn drop_ins(directory: &Path) -> Result<DropIns, LoadError> {
    let mut found = DropIns::default();
    walk(directory, 0, &mut found)?;
    Ok(found)
}

fn walk(directory: &Path, depth: usize, found: &mut DropIns) -> Result<(), LoadError> {
    let failed = |source| LoadError::Read { path: directory.to_owned(), source };
    if depth > MAX_DEPTH {
        return Err(failed(std::io::Error::other("nested too deep")));
    }
    let entries = fs::read_dir(directory).map_err(failed)?;
    let mut entries: Vec<fs::DirEntry> = entries.collect::<Result<_, _>>().map_err(failed)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if entry.file_type().map_err(failed)?.is_dir() {
            walk(&path, depth + 1, found)?;
        } else if entry.file_name().as_encoded_bytes().ends_with(b".conf") {
            found.applied.push(path);
        } else {
            found.skipped.push(path);
        }
    }
    Ok(())
}

/// `path` below `directory` unless it is absolute, without `.` and `..`.
pub(crate) fn resolve(directory: &Path, path: &str) -> String {
    let mut whole = PathBuf::new();
    for component in directory.join(path).components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                whole.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => whole.push(component),
        }
    }
    whole.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_in_lexical_order_and_skips_other_files() {
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
    fn large_files_are_refused() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("large");
        fs::File::create(&path).unwrap().set_len(MAX_FILE + 1).unwrap();
        assert!(matches!(read(&path), Err(LoadError::TooLarge { .. })));
        assert!(matches!(read(&root.path().join("none")), Err(LoadError::Read { .. })));
    }

    #[test]
    fn relative_paths_are_resolved() {
        let resolve = |path| resolve(Path::new("/etc/kubernetes"), path);
        assert_eq!(resolve("pki/ca.crt"), "/etc/kubernetes/pki/ca.crt");
        assert_eq!(resolve("../x/./y"), "/etc/x/y");
        assert_eq!(resolve("/abs"), "/abs");
    }
}
