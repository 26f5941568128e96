//! The UID of a static pod, bit for bit as upstream computes it.
//!
//! Upstream hashes (FNV-1a, 128 bits) the output of a Go debug printer for its internal pod type, followed by the
//! source. The internal type is not an API, so `schema.txt` lists every type with the Go name, Go type and JSON name of
//! its fields, as `tools/podschema` finds them. [`dump`] walks that schema over the pod's JSON and streams the text into
//! the hash. An upstream release that adds a field to its pod changes every UID; then the schema and the golden data in
//! `testdata/static_uid` must be generated again.

mod convert;
mod dump;
mod quantity;
mod schema;
mod sum_text;

use std::fmt::Write as _;

use serde_json::Value;
use values::fnv::Fnv128a;

use crate::{ManifestLocation, ManifestSource};

pub(crate) use sum_text::text_of_sum;

/// The UID could not be computed, so the pod cannot run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StaticUidError {
    #[error("hash the pod: field {field} is no {expected}")]
    Shape {
        /// The Go name of the field.
        field: &'static str,
        /// The Go type of the field.
        expected: &'static str,
    },
    /// Not a quantity, or one that would take too long to compute.
    #[error("hash the pod: field {field} is no quantity: {text:?}")]
    Quantity {
        /// The Go name of the field.
        field: &'static str,
        text: String,
    },
    /// The schema uses a type that it does not declare.
    #[error("hash the pod: the schema does not declare {0}")]
    Undeclared(&'static str),
    /// Never happens, because a hash accepts every text.
    #[error("hash the pod: write its text")]
    Write(#[from] std::fmt::Error),
}

/// Computes the UID that upstream gives this pod.
///
/// `pod` is a v1 pod as JSON with v1 defaults, without the name, namespace and annotations that make a static pod.
/// Upstream's hash depends on two details of the manifest: the text of a quantity (`0.5` and `500m` give different UIDs;
/// this function rounds up to thousandths), and whether an empty list or map is written or absent.
pub(crate) fn static_uid(pod: &Value, source: &ManifestSource<'_>) -> Result<String, StaticUidError> {
    let mut hash = Fnv128a::new();
    dump::write_pod(&convert::to_internal(pod), &mut hash)?;
    match source.location {
        ManifestLocation::File(path) => write!(hash, "host:{}file:{path}", source.node)?,
        ManifestLocation::Url(url) => write!(hash, "url:{url}")?,
    }
    Ok(format!("{:032x}", hash.finish()))
}

#[cfg(test)]
mod tests;
