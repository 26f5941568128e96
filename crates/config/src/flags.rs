//! The command line: one table of flags, parsed like the upstream kubelet parses it.

mod command_line;
mod flag_only;
mod help;
mod kind;
mod reference;
mod table;
mod values;

pub(crate) use command_line::CommandLine;
pub use command_line::FlagError;
pub use flag_only::Flags;
pub use help::{ProgramName, help_text, version_text};
pub(crate) use kind::{FlagKind, parse_boolean};
pub use reference::flag_reference;
use table::Status;
pub(crate) use table::Target;
pub use table::flag_names;
pub(crate) use values::flag_values;

#[cfg(test)]
mod tests;
