//! Images: a store on disk, pulls from registries, imports of archives, root file systems of containers.
//!
//! [`ImageStore`] is the entrance. Content comes from outside and is hostile: documents are bounded, blobs are
//! verified by size and digest before they are used, and layers cannot leave the folder that they are unpacked into.

mod decompress;
mod digest;
mod extract;
mod manifest;
mod platform;
mod pull;
mod pull_table;
mod reference;
mod registry;
mod service;
mod store;
mod tar;

pub use digest::{Digest, InvalidDigest};
pub use extract::{ExtractError, Extracted, Limits, extract};
pub use manifest::{ConfigFile, Descriptor, Document, ImageConfig, Manifest, ManifestError};
pub use manifest::{parse_config, parse_document};
pub use platform::Platform;
pub use pull::{LayerProgress, PullError, PullProgress, Puller};
pub use pull_table::PullTable;
pub use reference::ReferenceError;
pub use registry::{BearerChallenge, Challenge, Endpoint, HostsError, InvalidCredentials, RegistryError};
pub use registry::{choose_challenge, parse_hosts};
pub use service::{Images, Now};
pub use store::{DiskUsage, ImageStore, Imported, StoreError, StoredImage};
pub use tar::TarError;

#[cfg(test)]
mod test_archive;
