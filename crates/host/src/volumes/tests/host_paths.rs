//! hostPath volumes.

use super::*;

#[tokio::test]
async fn checks_the_type_of_host_paths() {
    let host = Host::new();
    let (folder, file, socket) = (host.path_of("folder"), host.path_of("file"), host.path_of("socket"));
    fs::create_dir(&folder).unwrap();
    fs::write(&file, "x").unwrap();
    let _listener = UnixListener::bind(&socket).unwrap();
    let (device, missing) = (PathBuf::from("/dev/null"), host.path_of("missing"));
    let link = host.path_of("link");
    symlink(&folder, &link).unwrap();
    let all = [&folder, &link, &file, &socket, &device, &missing];
    for (kind, good, text) in [
        (HostPathKind::Any, &all[..], ""),
        (HostPathKind::Directory, &[&folder, &link], "is not a directory"),
        (HostPathKind::File, &[&file], "is not a file"),
        (HostPathKind::Socket, &[&socket], "is not a socket file"),
        (HostPathKind::CharDevice, &[&device], "is not a character device"),
        (HostPathKind::BlockDevice, &[], "is not a block device"),
    ] {
        for path in all {
            match host.host_path(path, kind).await {
                Ok(()) => assert!(good.contains(&path), "{kind:?} accepted {}", path.display()),
                Err(error) => {
                    assert!(!good.contains(&path), "{kind:?} rejected {}", path.display());
                    assert_eq!(
                        error.to_string(),
                        format!("hostPath type check failed: {} {text}", path.display())
                    );
                }
            }
        }
    }
    assert!(!missing.exists());
}

#[tokio::test]
async fn creates_host_paths_only_if_requested() {
    let host = Host::new();
    let folder = host.path_of("a/b");
    let file = host.path_of("a/file");
    assert!(host.host_path(&file, HostPathKind::FileOrCreate).await.is_err(), "parents are not created");
    for _ in 0..2 {
        host.host_path(&folder, HostPathKind::DirectoryOrCreate).await.unwrap();
        host.host_path(&file, HostPathKind::FileOrCreate).await.unwrap();
    }
    assert!(host.host_path(&file, HostPathKind::DirectoryOrCreate).await.is_err());
    assert!(host.host_path(&folder, HostPathKind::FileOrCreate).await.is_err());
    assert_eq!((mode(&folder), mode(&file)), (0o755, 0o644));
}
