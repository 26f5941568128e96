use std::path::PathBuf;

/// One file of a configMap, secret, downwardAPI or projected volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectedFile {
    /// Where it stands, relative to the volume.
    pub path: PathBuf,
    pub content: Vec<u8>,
    pub mode: u32,
    /// Owner; root when unset.
    pub owner: Option<u32>,
}
