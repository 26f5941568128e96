//! From manifests to running containers, on Debian's containerd.

mod content;
mod interruptions;
mod lifecycle;
mod restarts;
mod sources;
mod volumes;
