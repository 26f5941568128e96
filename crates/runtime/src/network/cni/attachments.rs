//! Records of attachments, in the format of libcni's cache: what is needed to delete them, also after a restart and with another
//! configuration.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::config::{self, NetworkConfig, record_error};
use crate::network::errors::{During, NetworkFailure};
use crate::network::pod_links::POD_LINK;
use crate::network::ranges::replace_file;
use crate::network::request::PodNetworkRequest;

const KIND: &str = "cniCacheV1";
/// A configuration and a result.
const MAX_RECORD_BYTES: u64 = 8 * 1024 * 1024;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct AttachmentRecord {
    kind: String,
    pub(super) container_id: String,
    /// In base64.
    config: String,
    pub(super) if_name: String,
    pub(super) network_name: String,
    pub(super) netns: PathBuf,
    /// Names and values of `CNI_ARGS`.
    pub(super) cni_args: Vec<(String, String)>,
    pub(super) capability_args: Value,
    /// Of the last plugin; missing until all plugins have succeeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) result: Option<Value>,
}

impl AttachmentRecord {
    pub(super) fn new(network: &NetworkConfig, request: &PodNetworkRequest, capability_args: Value) -> Self {
        let arguments = [
            ("IgnoreUnknown", "1"),
            ("K8S_POD_NAMESPACE", &request.namespace),
            ("K8S_POD_NAME", &request.name),
            ("K8S_POD_INFRA_CONTAINER_ID", &request.sandbox_id),
            ("K8S_POD_UID", &request.uid),
        ];
        Self {
            kind: KIND.to_owned(),
            container_id: request.sandbox_id.clone(),
            config: STANDARD.encode(&network.text),
            if_name: POD_LINK.to_owned(),
            network_name: network.name.clone(),
            netns: request.netns.clone(),
            cni_args: arguments.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
            capability_args,
            result: None,
        }
    }

    /// The configuration that the attachment was made with.
    pub(super) fn network(&self) -> Result<NetworkConfig, NetworkFailure> {
        let error = |reason: String| record_error(PathBuf::from(self.file_name()), &reason);
        let text = STANDARD.decode(&self.config).map_err(|reason| error(reason.to_string()))?;
        let text = String::from_utf8(text).map_err(|reason| error(reason.to_string()))?;
        config::parse(&text).map_err(error)
    }

    fn file_name(&self) -> String {
        format!("{}-{}-{}", self.network_name, self.container_id, self.if_name)
    }
}

#[derive(Debug)]
pub(super) struct AttachmentRecords(PathBuf);

impl AttachmentRecords {
    pub(super) fn open(state_folder: &Path) -> Result<Self, NetworkFailure> {
        let folder = state_folder.join("cni-results");
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.on_path("create folder", &folder).map(|()| Self(folder))
    }

    pub(super) fn save(&self, record: &AttachmentRecord) -> Result<(), NetworkFailure> {
        let path = self.0.join(record.file_name());
        let text = serde_json::to_vec(record).map_err(|error| record_error(path.clone(), &error))?;
        replace_file(&path, &text)
    }

    pub(super) fn remove(&self, record: &AttachmentRecord) -> Result<(), NetworkFailure> {
        let path = self.0.join(record.file_name());
        match fs::remove_file(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result.on_path("remove", &path),
        }
    }

    pub(super) fn of_sandbox(&self, sandbox_id: &str) -> Result<Vec<AttachmentRecord>, NetworkFailure> {
        let suffix = format!("-{sandbox_id}-{POD_LINK}");
        let mut records = self.read(|name| name.ends_with(&suffix))?;
        records.retain(|record| record.container_id == sandbox_id);
        Ok(records)
    }

    pub(super) fn all(&self) -> Result<Vec<AttachmentRecord>, NetworkFailure> {
        self.read(|_| true)
    }

    /// A file that a crash left half-written has another name and is removed; a record that cannot be read is an error.
    fn read(&self, is_wanted: impl Fn(&str) -> bool) -> Result<Vec<AttachmentRecord>, NetworkFailure> {
        let mut records = Vec::new();
        for entry in fs::read_dir(&self.0).on_path("read", &self.0)? {
            let path = entry.on_path("read", &self.0)?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if name.ends_with(&format!("-{POD_LINK}")) && is_wanted(name) {
                records.extend(read_record(&path)?);
            }
        }
        Ok(records)
    }
}

/// `None` if it was removed meanwhile.
fn read_record(path: &Path) -> Result<Option<AttachmentRecord>, NetworkFailure> {
    let file = match fs::File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        result => result.on_path("open", path)?,
    };
    let mut text = Vec::new();
    file.take(MAX_RECORD_BYTES).read_to_end(&mut text).on_path("read", path)?;
    serde_json::from_slice(&text).map(Some).map_err(|error| record_error(path.to_owned(), &error))
}
