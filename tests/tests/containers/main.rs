//! Init containers, sidecars, restart rules, hooks, deadlines and termination order, on real containerd.

mod deadline;
mod diary;
mod hooks;
mod init;
mod kills;
mod rules;
mod sidecars;
