//! From manifests to running containers, on Debian's containerd.

mod content;
mod images;
mod interruptions;
mod lifecycle;
mod packet_filter;
mod resources;
mod restarts;
mod sandboxes;
mod sources;
mod volumes;
