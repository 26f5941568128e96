use std::os::unix::fs::PermissionsExt;
use std::sync::Mutex;

use super::*;
use crate::dial;
use proto::registration_client::RegistrationClient;

#[derive(Default)]
struct RecordedRegistry(Mutex<Vec<DeviceRegistration>>);

#[tonic::async_trait]
impl DeviceRegistry for RecordedRegistry {
    async fn register(&self, registration: DeviceRegistration) -> Result<(), String> {
        self.0.lock().unwrap().push(registration.clone());
        if registration.version == "v1beta1" { Ok(()) } else { Err("no such version".to_owned()) }
    }
}

/// Serves until the returned set is dropped.
async fn serve(socket: &Path, registry: Arc<RecordedRegistry>) -> tokio::task::JoinSet<()> {
    let mut server = tokio::task::JoinSet::new();
    let path = socket.to_path_buf();
    server.spawn(async move {
        serve_device_registration(&path, registry, std::future::pending()).await.unwrap();
    });
    while !socket.exists() {
        tokio::task::yield_now().await;
    }
    server
}

#[tokio::test]
async fn plugins_register_and_receive_the_error_text() {
    let scratch = tempfile::tempdir().unwrap();
    let socket = scratch.path().join("device-plugins/kubelet.sock");
    let registry = Arc::new(RecordedRegistry::default());
    let _server = serve(&socket, registry.clone()).await;
    let folder = socket.parent().unwrap();
    assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o777, 0o750);
    let mut client = RegistrationClient::new(dial(&socket).await.unwrap());
    let request = |version: &str| proto::RegisterRequest {
        version: version.to_owned(),
        endpoint: "x.sock".to_owned(),
        resource_name: "vendor.com/x".to_owned(),
        options: None,
    };
    client.register(request("v1beta1")).await.unwrap();
    assert_eq!(client.register(request("v0")).await.unwrap_err().message(), "no such version");
    let expected = DeviceRegistration {
        version: "v1beta1".to_owned(),
        endpoint: "x.sock".to_owned(),
        resource: "vendor.com/x".to_owned(),
    };
    assert_eq!(registry.0.lock().unwrap().first(), Some(&expected));
}

#[tokio::test]
async fn start_removes_sockets_and_keeps_files_and_folders() {
    let scratch = tempfile::tempdir().unwrap();
    let folder = scratch.path();
    let _old = std::os::unix::net::UnixListener::bind(folder.join("old.sock")).unwrap();
    std::fs::write(folder.join("kubelet_internal_checkpoint"), "{}").unwrap();
    std::fs::create_dir(folder.join("below")).unwrap();
    let registry = Arc::new(RecordedRegistry::default());
    let socket = folder.join("kubelet.sock");
    let _server = serve(&socket, registry).await;
    let mut names: Vec<_> = folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["below", "kubelet.sock", "kubelet_internal_checkpoint"]);
}
