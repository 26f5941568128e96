//! Settings that every container has without a request.

mod default_mounts;

pub use default_mounts::default_mounts;
