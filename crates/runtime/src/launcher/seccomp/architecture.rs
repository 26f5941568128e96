//! The architectures whose system calls a process can make, and the numbers of their system calls.

use std::collections::HashMap;

/// An entry point of the kernel with its own system call numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Architecture {
    X86_64,
    I386,
    Aarch64,
    Arm,
}

impl Architecture {
    /// All architectures whose programs this machine can run, the native one first. x32 is not one: its calls return
    /// ENOSYS, as on kernels without x32.
    #[must_use]
    pub fn of_this_machine() -> &'static [Self] {
        if cfg!(target_arch = "x86_64") {
            &[Self::X86_64, Self::I386]
        } else if cfg!(target_arch = "aarch64") {
            &[Self::Aarch64, Self::Arm]
        } else {
            &[]
        }
    }

    /// `AUDIT_ARCH_*` of linux/audit.h.
    pub(super) fn audit_number(self) -> u32 {
        match self {
            Self::X86_64 => 0xC000_003E,
            Self::I386 => 0x4000_0003,
            Self::Aarch64 => 0xC000_00B7,
            Self::Arm => 0x4000_0028,
        }
    }

    /// System call names and numbers.
    pub(super) fn system_calls(self) -> HashMap<&'static str, u32> {
        let table = match self {
            Self::X86_64 => include_str!("syscalls/x86_64.tbl"),
            Self::I386 => include_str!("syscalls/i386.tbl"),
            Self::Aarch64 => include_str!("syscalls/aarch64.tbl"),
            Self::Arm => include_str!("syscalls/arm.tbl"),
        };
        let row = |line: &'static str| {
            let (name, number) = line.split_once(' ')?;
            Some((name, number.parse().ok()?))
        };
        table.lines().filter_map(row).collect()
    }
}
