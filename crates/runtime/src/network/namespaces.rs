//! Network namespaces: they exist without a process, pinned by a bind mount.
//!
//! A namespace belongs to a thread. Every function enters it in a thread that ends with the function, because a thread of
//! the async runtime would continue to work for other callers in the wrong namespace.

use std::fs::{File, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::{fs, io, thread};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use rustix::thread::{LinkNameSpaceType, UnshareFlags};

use super::errors::{During, NetworkError, NetworkFailure};
use super::route_socket::RouteSocket;

/// The namespace of the calling thread.
const OWN_NAMESPACE: &str = "/proc/thread-self/ns/net";
/// File system type of namespaces, in `statfs`.
const NSFS_MAGIC: rustix::fs::FsWord = 0x6e73_6673;

/// Creates a network namespace whose `lo` is up, and pins it at `pin`, which must not exist. The folder must.
pub async fn create_pinned_namespace(pin: &Path) -> Result<(), NetworkError> {
    let pin = pin.to_owned();
    blocking("creating a namespace", move || create(&pin)).await
}

/// Removes the pin; the kernel removes the namespace after its last process. A missing pin is success.
pub async fn remove_pinned_namespace(pin: &Path) -> Result<(), NetworkError> {
    let pin = pin.to_owned();
    blocking("removing a namespace", move || remove(&pin)).await
}

/// Brings `lo` up in the namespace that is pinned at `pin`.
pub async fn bring_up_loopback(pin: &Path) -> Result<(), NetworkError> {
    let pin = pin.to_owned();
    blocking("bringing lo up", move || bring_up_loopback_at(&pin)).await
}

pub(super) fn bring_up_loopback_at(pin: &Path) -> Result<(), NetworkFailure> {
    in_namespace(&open_namespace(pin)?, || RouteSocket::open()?.bring_up_loopback())
}

async fn blocking(
    what: &'static str,
    work: impl FnOnce() -> Result<(), NetworkFailure> + Send + 'static,
) -> Result<(), NetworkError> {
    let result = tokio::task::spawn_blocking(work).await;
    result.unwrap_or(Err(NetworkFailure::Panicked(what))).map_err(NetworkError::Namespace)
}

pub(super) fn create(pin: &Path) -> Result<(), NetworkFailure> {
    OpenOptions::new().write(true).create_new(true).mode(0o444).open(pin).on_path("create pin", pin)?;
    let result = in_thread("creating a namespace", || {
        #[expect(unsafe_code, reason = "rustix marks all kinds of unshare as unsafe")]
        // SAFETY: without UnshareFlags::FILES, the descriptors of this thread stay those of the process.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }.on_path("create namespace", pin)?;
        rustix::mount::mount_bind(OWN_NAMESPACE, pin).on_path("pin namespace", pin)?;
        RouteSocket::open()?.bring_up_loopback()
    });
    if result.is_err() {
        // The error of the creation counts.
        let _ = remove(pin);
    }
    result
}

pub(super) fn remove(pin: &Path) -> Result<(), NetworkFailure> {
    match rustix::mount::unmount(pin, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW) {
        // Not there, or not a mount point.
        Ok(()) | Err(Errno::NOENT | Errno::INVAL) => {}
        Err(errno) => return Err(errno).on_path("unmount", pin),
    }
    match fs::remove_file(pin) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result.on_path("remove pin", pin),
    }
}

/// Opens a pin, after checking that it is one: after a reboot it is an empty file, or missing.
pub(super) fn open_namespace(pin: &Path) -> Result<File, NetworkFailure> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = rustix::fs::open(pin, flags, Mode::empty()).on_path("open network namespace", pin)?;
    let kind = rustix::fs::fstatfs(&file).on_path("examine network namespace", pin)?.f_type;
    if kind != NSFS_MAGIC {
        return Err(Errno::INVAL).on_path("open network namespace", pin);
    }
    Ok(file.into())
}

/// Runs `work` in a thread that has entered `namespace`. Sockets that it opens stay in the namespace.
pub(super) fn in_namespace<T: Send>(
    namespace: &File,
    work: impl FnOnce() -> Result<T, NetworkFailure> + Send,
) -> Result<T, NetworkFailure> {
    in_thread("a network namespace", || {
        rustix::thread::move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
            .during("enter", "network namespace")?;
        work()
    })
}

fn in_thread<T: Send>(
    what: &'static str,
    work: impl FnOnce() -> Result<T, NetworkFailure> + Send,
) -> Result<T, NetworkFailure> {
    thread::scope(|scope| {
        let thread = thread::Builder::new().name("network namespace".to_owned()).spawn_scoped(scope, work);
        thread.during("start a thread for", what)?.join().unwrap_or(Err(NetworkFailure::Panicked(what)))
    })
}

/// Writes a setting below `/proc/sys/net`, of the namespace of the calling thread, unless it has that value already.
pub(super) fn write_network_setting(name: &str, value: &str) -> Result<(), NetworkFailure> {
    let path = PathBuf::from("/proc/sys/net").join(name);
    if fs::read_to_string(&path).is_ok_and(|current| current.trim() == value) {
        return Ok(());
    }
    fs::write(&path, value).on_path("write", &path)
}
