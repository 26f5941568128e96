//! Value formats that Kubernetes and Go define: resource quantities, Go durations, FNV and CRC-32 hashes, names of images
//! and sysctls, lists of CPUs, the proxy variables, and the versions of our own files.
//!
//! Input: text or bytes from manifests, configuration, API objects and plugins. Output: exact numbers, and text that is
//! identical to what upstream prints.
//!
//! Invariants: no IO, no clock, no dependency on another crate of the workspace, and no `unsafe`. Each format exists
//! once; `crates/testkit/tests/layers/one_place.rs` fails when another crate parses one of them.

#![forbid(unsafe_code)]

pub mod cpu_set;
pub mod crc32;
pub mod duration;
pub mod fnv;
pub mod format_version;
pub mod image_name;
pub mod proxies;
pub mod quantity;
pub mod sysctl;
