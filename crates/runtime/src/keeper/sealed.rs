//! A copy of this program that nothing can change, from which keepers run.
//!
//! A process in a container can open `/proc/<pid>/exe` of a process that enters it. If that were the program on the host, root in the
//! container could overwrite it.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use thiserror::Error;

#[derive(Debug, Error)]
pub enum SealError {
    #[error("open program {path:?}")]
    Open { path: PathBuf, source: io::Error },
    #[error("copy program {path:?} to memory")]
    Copy { path: PathBuf, source: io::Error },
    #[error("seal the copy of the program")]
    Seal { source: io::Error },
}

/// The sealed copy.
#[derive(Debug)]
pub struct SealedProgram(OwnedFd);

impl SealedProgram {
    /// Copies a program to memory.
    ///
    /// # Errors
    /// If it cannot be copied or sealed.
    pub fn copy_of(path: &Path) -> Result<Self, SealError> {
        let mut program =
            File::open(path).map_err(|source| SealError::Open { path: path.to_owned(), source })?;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | MemfdFlags::EXEC;
        let sealing = |errno: rustix::io::Errno| SealError::Seal { source: errno.into() };
        let copy = memfd_create(super::KEEPER_ARGUMENT, flags).map_err(sealing)?;
        let mut copy = File::from(copy);
        io::copy(&mut program, &mut copy)
            .map_err(|source| SealError::Copy { path: path.to_owned(), source })?;
        let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
        fcntl_add_seals(&copy, seals).map_err(sealing)?;
        Ok(Self(copy.into()))
    }

    /// A path that this process can execute.
    pub(super) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.0.as_raw_fd()))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write;

    use super::*;

    #[test]
    fn sealed_program_cannot_be_changed() {
        let program = SealedProgram::copy_of(Path::new("/bin/true")).unwrap();
        let written =
            OpenOptions::new().write(true).open(program.path()).and_then(|mut file| file.write_all(b"x"));
        assert_eq!(written.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert!(std::process::Command::new(program.path()).status().unwrap().success());
    }
}
