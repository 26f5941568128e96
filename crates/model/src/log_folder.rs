use crate::{PodFullName, PodUid};

/// A folder below the pod log folder, named `<namespace>_<name>_<uid>`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LogFolder {
    /// Pod UID.
    pub uid: PodUid,
    pub full_name: PodFullName,
}

impl LogFolder {
    /// The folder's name.
    pub fn file_name(&self) -> String {
        format!("{}_{}_{}", self.full_name.namespace, self.full_name.name, self.uid)
    }

    /// Reads a folder's name back.
    pub fn parse(file_name: &str) -> Option<Self> {
        // Namespaces and names are DNS names and hold no underscore; a UID may.
        let (namespace, rest) = file_name.split_once('_')?;
        let (name, uid) = rest.split_once('_')?;
        Some(Self {
            uid: uid.into(),
            full_name: PodFullName { namespace: namespace.to_owned(), name: name.to_owned() },
        })
    }
}
