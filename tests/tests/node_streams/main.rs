//! kubectl with a running pod: logs, exec, attach, cp, port-forward, debug.
//!
//! kubectl v1.36 connects to the real API server, which connects to the node. `make cluster` runs these on podward and
//! on the upstream kubelet.

mod exec;
mod forward;
mod logs;
mod support;
