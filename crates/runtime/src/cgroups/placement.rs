//! Where a container's cgroup belongs.

use std::path::PathBuf;

use thiserror::Error;

/// Parent of containers whose pod names none.
const DEFAULT_PARENT: &str = "/k8s.io";

/// The place of a cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// A path in each hierarchy.
    Directory(PathBuf),
    /// A unit of systemd, and where its cgroup is.
    Scope { slice: String, scope: String, path: PathBuf },
}

#[derive(Debug, Error, PartialEq, Eq)]
pub enum PlacementError {
    #[error("cgroup parent {0:?} is not a plain path")]
    Path(String),
    #[error("{0:?} is not the name of a systemd slice")]
    Slice(String),
}

/// The place of the container `id` below the pod's cgroup, by the rules and names of containerd, which other programs know.
///
/// # Errors
/// If the parent could lead somewhere else.
pub fn placement(parent: &str, id: &str) -> Result<Placement, PlacementError> {
    let name = parent.rsplit('/').next().unwrap_or_default();
    if name.ends_with(".slice") {
        let scope = format!("cri-containerd-{id}.scope");
        let path = slice_path(name)?.join(&scope);
        return Ok(Placement::Scope { slice: name.to_owned(), scope, path });
    }
    let parent = if parent.is_empty() { DEFAULT_PARENT } else { parent };
    let plain = |part: &str| part != "." && part != ".." && !part.contains('\0');
    if !parent.split('/').all(plain) {
        return Err(PlacementError::Path(parent.to_owned()));
    }
    Ok(Placement::Directory(PathBuf::from(parent.trim_matches('/')).join(id)))
}

/// Slices nest by the dashes in their names: `a-b.slice` is inside `a.slice`.
fn slice_path(name: &str) -> Result<PathBuf, PlacementError> {
    let invalid = || PlacementError::Slice(name.to_owned());
    let stem = name.strip_suffix(".slice").filter(|stem| !stem.is_empty()).ok_or_else(invalid)?;
    if stem == "-" {
        return Ok(PathBuf::new());
    }
    let mut path = PathBuf::new();
    let mut nested = String::new();
    for part in stem.split('-') {
        if part.is_empty() || part.contains(['/', '\0']) {
            return Err(invalid());
        }
        if !nested.is_empty() {
            nested.push('-');
        }
        nested.push_str(part);
        path.push(format!("{nested}.slice"));
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_parent_contains_the_container() {
        for (parent, expected) in [("/kubepods/pod1", "kubepods/pod1/c"), ("", "k8s.io/c"), ("a", "a/c")] {
            assert_eq!(placement(parent, "c"), Ok(Placement::Directory(expected.into())));
        }
    }

    #[test]
    fn slice_contains_a_scope() {
        assert_eq!(
            placement("/kubepods.slice/kubepods-pod1.slice", "c"),
            Ok(Placement::Scope {
                slice: "kubepods-pod1.slice".to_owned(),
                scope: "cri-containerd-c.scope".to_owned(),
                path: "kubepods.slice/kubepods-pod1.slice/cri-containerd-c.scope".into(),
            })
        );
    }

    #[test]
    fn parent_that_leads_elsewhere_is_refused() {
        assert!(placement("/a/../../etc", "c").is_err());
        assert!(placement("a--b.slice", "c").is_err());
        assert!(placement("/.slice", "c").is_err());
    }
}
