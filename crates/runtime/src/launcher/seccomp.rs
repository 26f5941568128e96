//! Seccomp filters: profiles in, programs for the kernel out.
//!
//! A profile that cannot be enforced completely is an error. Names of system calls that this machine does not have are
//! skipped, because profiles list the names of all architectures.

mod action;
mod architecture;
mod compile;
mod condition;
mod conditional_code;
mod default_profile;
mod instruction;
mod profile;
#[cfg(test)]
mod tests;

pub use action::{Action, ActionError};
pub use architecture::Architecture;
pub use compile::CompileError;
pub use condition::{ArgumentWidth, Comparison, Condition, ConditionError};
pub use default_profile::default_profile;
pub use instruction::Instruction;
pub use profile::{FilterFlags, MAX_PROFILE_BYTES, Profile, ProfileError, Rule};

use serde::{Deserialize, Serialize};

/// A compiled filter, in the form that the launcher receives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    pub(crate) flags: u32,
    /// Code, jump distances and operand of each instruction.
    pub(crate) program: Vec<(u16, u8, u8, u32)>,
}

impl Filter {
    /// Compiles `profile` for the architectures of this machine.
    ///
    /// # Errors
    /// If the program is too long for the kernel, or the processor is not supported.
    pub fn compile(profile: &Profile) -> Result<Self, CompileError> {
        let program = compile::compile(profile, Architecture::of_this_machine())?;
        let row = |instruction: Instruction| {
            (instruction.code, instruction.if_true, instruction.if_false, instruction.operand)
        };
        Ok(Self { flags: profile.flags.bits(), program: program.into_iter().map(row).collect() })
    }

    /// The program, one instruction after the other.
    #[must_use]
    pub fn instructions(&self) -> Vec<Instruction> {
        let instruction =
            |&(code, if_true, if_false, operand)| Instruction { code, if_true, if_false, operand };
        self.program.iter().map(instruction).collect()
    }
}
