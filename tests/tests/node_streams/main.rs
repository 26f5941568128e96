//! What kubectl does with a running pod: logs, exec, attach, cp, port-forward, debug.
//!
//! kubectl v1.36 speaks to the real API server, which speaks to the node. `make cluster` runs these on podward and on
//! the upstream kubelet.

mod exec;
mod forward;
mod logs;
mod support;
