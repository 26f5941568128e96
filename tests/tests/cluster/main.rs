//! A node of a real cluster: the control plane's programs, containerd and one agent.

mod launcher;
