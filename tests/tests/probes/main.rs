//! Probes of every kind and mechanism, on real containerd.

mod health;
mod life;
mod server_health;
