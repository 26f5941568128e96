//! Paths of the host.

use super::*;

#[tokio::test]
async fn host_paths_are_checked_by_type() {
    let host = Host::new();
    let (folder, file, socket) = (host.at("folder"), host.at("file"), host.at("socket"));
    fs::create_dir(&folder).unwrap();
    fs::write(&file, "x").unwrap();
    let _listener = UnixListener::bind(&socket).unwrap();
    let (device, missing) = (PathBuf::from("/dev/null"), host.at("missing"));
    let link = host.at("link");
    symlink(&folder, &link).unwrap();
    let all = [&folder, &link, &file, &socket, &device, &missing];
    for (kind, good, words) in [
        (HostPathKind::Any, &all[..], ""),
        (HostPathKind::Directory, &[&folder, &link], "is not a directory"),
        (HostPathKind::File, &[&file], "is not a file"),
        (HostPathKind::Socket, &[&socket], "is not a socket file"),
        (HostPathKind::CharDevice, &[&device], "is not a character device"),
        (HostPathKind::BlockDevice, &[], "is not a block device"),
    ] {
        for path in all {
            match host.host_path(path, kind).await {
                Ok(()) => assert!(good.contains(&path), "{kind:?} took {}", path.display()),
                Err(error) => {
                    assert!(!good.contains(&path), "{kind:?} refused {}", path.display());
                    assert_eq!(
                        error.to_string(),
                        format!("hostPath type check failed: {} {words}", path.display())
                    );
                }
            }
        }
    }
    assert!(!missing.exists());
}

#[tokio::test]
async fn host_paths_are_made_only_when_asked() {
    let host = Host::new();
    let folder = host.at("a/b");
    let file = host.at("a/file");
    assert!(host.host_path(&file, HostPathKind::FileOrCreate).await.is_err(), "parents are not made");
    for _ in 0..2 {
        host.host_path(&folder, HostPathKind::DirectoryOrCreate).await.unwrap();
        host.host_path(&file, HostPathKind::FileOrCreate).await.unwrap();
    }
    assert!(host.host_path(&file, HostPathKind::DirectoryOrCreate).await.is_err());
    assert!(host.host_path(&folder, HostPathKind::FileOrCreate).await.is_err());
    assert_eq!((mode(&folder), mode(&file)), (0o755, 0o644));
}
