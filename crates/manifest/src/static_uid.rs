//! The UID of a static pod, bit for bit as upstream computes it.
//!
//! Upstream hashes (FNV-1a, 128 bits) the text that a Go debug printer makes of its internal pod type, then the origin.
//! The internal type is no API, so `schema.txt` holds what `tools/podschema` finds in it: every type, and per field its
//! Go name, Go type and JSON name. [`dump`] walks that schema over the pod's JSON and streams the text into the hash.
//! An upstream release that adds a field to its pod changes every UID; then the schema and the golden data in
//! `testdata/static_uid` are generated anew.

mod amount;
mod convert;
mod decimal;
mod dump;
mod fnv;
mod schema;

use std::fmt::Write as _;

use serde_json::Value;

use crate::{Origin, Place};

/// Computing a static pod's UID failed; the pod cannot run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StaticUidError {
    /// The JSON does not have the shape of a pod.
    #[error("hash the pod: field {field} is no {wanted}")]
    Shape {
        /// The Go name of the field.
        field: &'static str,
        /// The Go type that the schema gives it.
        wanted: &'static str,
    },
    /// The text is no quantity, or one too long to be meant.
    #[error("hash the pod: field {field} is no quantity: {text:?}")]
    Quantity {
        /// The Go name of the field.
        field: &'static str,
        /// The text.
        text: String,
    },
    /// The schema uses a type that it does not declare.
    #[error("hash the pod: the schema does not declare {0}")]
    Undeclared(&'static str),
    /// The receiver of the text refused it; a hash never does.
    #[error("hash the pod: write its text")]
    Write(#[from] std::fmt::Error),
}

/// The UID that upstream gives this pod.
///
/// `pod` is a v1 pod as JSON with v1 defaults, before anything of a static pod's identity is added to it. Two things
/// must be as in the manifest, because upstream's hash can tell: a quantity has the text that was written (`0.5` is not
/// `500m`, and a fine one is not yet rounded up; that is done here), and an empty list or map is not an absent one.
pub(crate) fn static_uid(pod: &Value, origin: &Origin<'_>) -> Result<String, StaticUidError> {
    let mut hash = fnv::Fnv128a::new();
    dump::write_pod(&convert::to_internal(pod), &mut hash)?;
    match origin.place {
        Place::File(path) => write!(hash, "host:{}file:{path}", origin.node)?,
        Place::Url(url) => write!(hash, "url:{url}")?,
    }
    Ok(hash.to_hex())
}

#[cfg(test)]
mod tests;
