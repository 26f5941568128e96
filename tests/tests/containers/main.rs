//! Init containers, sidecars, restart rules, hooks, deadlines and the order of the end, on real containerd.

mod deadline;
mod diary;
mod hooks;
mod init;
mod kills;
mod rules;
mod sidecars;
