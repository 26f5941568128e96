//! Namespaces of a pod that need no process: network, IPC and UTS, kept by bind mounts of their files.
//!
//! A thread of this process enters new namespaces, sets them up and ends. Namespaces of these kinds belong to a thread, so nothing
//! else of the process is affected.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::fs::CWD;
use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_bind, mount_change, unmount};
use rustix::thread::{UnshareFlags, move_into_link_name_space};

use super::sysctls::{OwnNamespaces, Sysctl};
use crate::errors::ServiceError;
use crate::records::{OnFile, make_folder};

/// The namespaces that a pod needs.
#[derive(Clone, Debug)]
pub(crate) struct NamespaceRequest {
    pub(crate) own: OwnNamespaces,
    pub(crate) hostname: String,
    pub(crate) sysctls: Vec<Sysctl>,
    /// The namespaces exist: the keeper has made them in the pod's user namespace.
    pub(crate) exist: bool,
}

/// Files of the namespaces in a pod's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamespaceFiles(PathBuf);

impl NamespaceFiles {
    pub(crate) fn in_folder(folder: &Path) -> Self {
        Self(folder.join("ns"))
    }

    pub(crate) fn network(&self) -> PathBuf {
        self.0.join("net")
    }

    pub(crate) fn ipc(&self) -> PathBuf {
        self.0.join("ipc")
    }

    pub(crate) fn uts(&self) -> PathBuf {
        self.0.join("uts")
    }

    pub(crate) fn user(&self) -> PathBuf {
        self.0.join("user")
    }

    pub(crate) fn pid(&self) -> PathBuf {
        self.0.join("pid")
    }

    /// Makes the folder. Its mounts stay in this mount namespace: a copy in another one would keep a namespace alive.
    pub(crate) fn make_folder(&self) -> Result<(), ServiceError> {
        make_folder(&self.0)?;
        let folder = &self.0;
        mount_bind(folder, folder).on_file("bind", folder)?;
        mount_change(folder, MountPropagationFlags::PRIVATE).on_file("set propagation of", folder)?;
        Ok(())
    }

    /// Makes and keeps the namespaces, or enters existing ones, and sets them up. Blocks.
    pub(crate) fn make(&self, request: NamespaceRequest) -> Result<(), ServiceError> {
        let files = self.clone();
        let thread = std::thread::Builder::new().name("namespaces".to_owned());
        let thread = thread.spawn(move || files.make_in_thread(&request));
        let thread = thread.map_err(|source| ServiceError::io("start a thread for namespaces", source))?;
        thread.join().map_err(|_| ServiceError::Panicked)?
    }

    fn make_in_thread(&self, request: &NamespaceRequest) -> Result<(), ServiceError> {
        let own = request.own;
        let wanted = [
            (own.network, UnshareFlags::NEWNET, "net", self.network()),
            (own.ipc, UnshareFlags::NEWIPC, "ipc", self.ipc()),
            (own.uts, UnshareFlags::NEWUTS, "uts", self.uts()),
        ];
        let wanted: Vec<_> = wanted.into_iter().filter(|(own, ..)| *own).collect();
        if request.exist {
            for (.., file) in &wanted {
                let namespace = File::open(file).on_file("open namespace", file)?;
                move_into_link_name_space(namespace.as_fd(), None).on_file("enter namespace", file)?;
            }
        } else {
            let flags = wanted.iter().fold(UnshareFlags::empty(), |flags, (_, flag, ..)| flags | *flag);
            enter_new(flags).map_err(|source| ServiceError::io("make namespaces", source))?;
        }
        if own.uts {
            let set = rustix::system::sethostname(request.hostname.as_bytes());
            set.map_err(|source| ServiceError::io("set the hostname", source))?;
        }
        if own.network {
            bring_up_loopback().map_err(|source| ServiceError::io("set lo up", source))?;
        }
        for sysctl in &request.sysctls {
            let path = Path::new("/proc/sys").join(&sysctl.path);
            let problem =
                |error: io::Error| format!("write {:?} to {}: {error}", sysctl.value, path.display());
            fs::write(&path, &sysctl.value)
                .map_err(|error| ServiceError::setting("sysctls", problem(error)))?;
        }
        for (_, _, name, file) in wanted.into_iter().filter(|_| !request.exist) {
            keep(&Path::new("/proc/thread-self/ns").join(name), &file)?;
        }
        Ok(())
    }

    /// Releases the namespaces. What is missing already is no error.
    pub(crate) fn remove(&self) -> Result<(), ServiceError> {
        for file in [self.network(), self.ipc(), self.uts(), self.pid(), self.user()] {
            unmount_all(&file)?;
        }
        unmount_all(&self.0)?;
        match fs::remove_dir_all(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => Ok(result.on_file("remove", &self.0)?),
        }
    }
}

/// Keeps a namespace by a bind mount of its file.
pub(crate) fn keep(namespace: &Path, file: &Path) -> Result<(), ServiceError> {
    File::create(file).on_file("make", file)?;
    mount_bind(namespace, file).on_file("keep namespace", file)?;
    Ok(())
}

/// Unmounts everything that is mounted on a path.
pub(crate) fn unmount_all(path: &Path) -> Result<(), ServiceError> {
    while is_mount(path)? {
        let flags = UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
        unmount(path, flags).on_file("unmount", path)?;
    }
    Ok(())
}

pub(crate) fn is_mount(path: &Path) -> Result<bool, ServiceError> {
    use rustix::fs::{AtFlags, StatxAttributes, StatxFlags, statx};
    match statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::empty()) {
        Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR) => Ok(false),
        status => Ok(status.on_file("read", path)?.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)),
    }
}

/// Sets `lo` up in the network namespace of this thread.
fn bring_up_loopback() -> rustix::io::Result<()> {
    use rustix::net::netlink::SocketAddrNetlink;
    use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, sendto, socket_with};
    const RTM_NEWLINK: u16 = 16;
    const NLM_F_REQUEST: u16 = 1;
    const IFF_UP: u32 = 1;
    const LOOPBACK_INDEX: i32 = 1;
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    let mut message = 32_u32.to_ne_bytes().to_vec();
    message.extend(RTM_NEWLINK.to_ne_bytes());
    message.extend(NLM_F_REQUEST.to_ne_bytes());
    // Sequence, port; then family, padding and kind.
    message.extend([0; 12]);
    message.extend(LOOPBACK_INDEX.to_ne_bytes());
    message.extend(IFF_UP.to_ne_bytes());
    message.extend(IFF_UP.to_ne_bytes());
    sendto(&socket, &message, SendFlags::empty(), &SocketAddrNetlink::new(0, 0)).map(drop)
}

#[expect(unsafe_code, reason = "unshare has no safe wrapper")]
fn enter_new(flags: UnshareFlags) -> rustix::io::Result<()> {
    // SAFETY: only namespaces change, and only those of this thread; it shares no file system state with other threads.
    unsafe { rustix::thread::unshare_unsafe(flags) }
}
