//! Files in a tmpfs.

use super::*;

#[tokio::test]
#[ignore = "needs root"]
async fn replaces_and_removes_files_in_memory() {
    require_root();
    let host = Host::new();
    for content in ["one", "one", "two"] {
        host.set_up_for(secret(&host, content), Some(4321)).await.unwrap();
        let folder = host.pod("volumes/kubernetes.io~secret/v");
        let token = folder.join("dir/token");
        assert_eq!(fs::read_to_string(&token).unwrap(), content);
        assert_eq!(
            (fs::metadata(&token).unwrap().gid(), fs::metadata(&token).unwrap().mode() & 0o7777),
            (4321, 0o440)
        );
        assert_eq!(mode(&folder), 0o3777);
        assert!(folder.join("nested/deep").is_dir());
        assert_eq!(host.mounts().len(), 1, "one tmpfs");
    }
    assert!(host.pod("plugins/kubernetes.io~empty-dir/wrapped_v/ready").is_file());
    host.volumes.tear_down(&host.uid).await.unwrap();
    assert_eq!(host.mounts(), []);
    assert!(!host.pod("volumes/kubernetes.io~secret").exists());
    assert!(!host.pod("plugins/kubernetes.io~empty-dir").exists());
}
