//! The command line: one table of flags, read the way the upstream kubelet reads it.

mod command_line;
mod help;
mod kind;
mod own;
mod table;
mod values;

pub(crate) use command_line::CommandLine;
pub use command_line::FlagError;
pub use help::{CalledAs, help_text, version_text};
pub(crate) use kind::FlagKind;
pub use own::Flags;
use table::Status;
pub(crate) use table::Target;
pub use table::flag_names;
pub(crate) use values::flag_values;

#[cfg(test)]
mod tests;
