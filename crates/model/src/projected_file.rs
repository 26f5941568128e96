use std::path::PathBuf;

/// One file of a configMap, secret, downwardAPI or projected volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectedFile {
    /// Where it stands, relative to the volume.
    pub path: PathBuf,
    /// What it holds.
    pub content: Vec<u8>,
    /// Its permission bits.
    pub mode: u32,
    /// Who owns it; root when unset.
    pub owner: Option<u32>,
}
