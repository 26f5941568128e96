//! systemd and logind over D-Bus.

mod dbus;
mod logind;
mod slices;

pub use logind::HostLogind;
pub(crate) use slices::Systemd;
