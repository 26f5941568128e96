//! The only operation on btrfs that a removal needs besides those of all file systems.

use std::os::fd::AsFd;

use rustix::ioctl::{Setter, ioctl, opcode};

/// `BTRFS_IOC_SUBVOL_SETFLAGS`, whose argument are the flags.
const SET_FLAGS: rustix::ioctl::Opcode = opcode::write::<u64>(0x94, 26);

/// Clears the read-only flag of a subvolume. A failure shows when its content cannot be removed.
#[expect(unsafe_code, reason = "there is no safe wrapper for this request")]
pub(super) fn make_writable(subvolume: impl AsFd) {
    // SAFETY: the request reads a u64 from its argument and writes nothing. File systems that do not know it return ENOTTY.
    let cleared = unsafe { ioctl(&subvolume, Setter::<SET_FLAGS, u64>::new(0)) };
    if let Err(error) = cleared {
        tracing::debug!(%error, "failed to make a subvolume writable");
    }
}
