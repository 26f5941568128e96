//! Trace spans of CRI calls.

use ports::runtime::RuntimeError;
use ports::telemetry::trace::TARGET;
use tracing::Span;

/// Creates the span of a call, with the name of its gRPC method.
pub(super) fn call_span(operation: &'static str) -> Span {
    tracing::info_span!(
        target: TARGET,
        "runtime call",
        otel.name = method(operation),
        otel.kind = "client",
        rpc.system = "grpc",
        error = tracing::field::Empty
    )
}

pub(super) fn record_error<T>(span: &Span, result: &Result<T, RuntimeError>) {
    if let Err(error) = result {
        span.record("error", error.message.as_str());
    }
}

/// Returns the full gRPC method name of an operation.
fn method(operation: &'static str) -> &'static str {
    match operation {
        "version" => "runtime.v1.RuntimeService/Version",
        "status" => "runtime.v1.RuntimeService/Status",
        "create_container" => "runtime.v1.RuntimeService/CreateContainer",
        "start_container" => "runtime.v1.RuntimeService/StartContainer",
        "stop_container" => "runtime.v1.RuntimeService/StopContainer",
        "remove_container" => "runtime.v1.RuntimeService/RemoveContainer",
        "list_containers" => "runtime.v1.RuntimeService/ListContainers",
        "container_status" => "runtime.v1.RuntimeService/ContainerStatus",
        "update_container" => "runtime.v1.RuntimeService/UpdateContainerResources",
        "reopen_container_log" => "runtime.v1.RuntimeService/ReopenContainerLog",
        "exec_sync" => "runtime.v1.RuntimeService/ExecSync",
        "run_podsandbox" => "runtime.v1.RuntimeService/RunPodSandbox",
        "stop_podsandbox" => "runtime.v1.RuntimeService/StopPodSandbox",
        "remove_podsandbox" => "runtime.v1.RuntimeService/RemovePodSandbox",
        "podsandbox_status" => "runtime.v1.RuntimeService/PodSandboxStatus",
        "list_podsandbox" => "runtime.v1.RuntimeService/ListPodSandbox",
        "update_podsandbox_resources" => "runtime.v1.RuntimeService/UpdatePodSandboxResources",
        "runtime_config" => "runtime.v1.RuntimeService/RuntimeConfig",
        "list_images" => "runtime.v1.ImageService/ListImages",
        "image_status" => "runtime.v1.ImageService/ImageStatus",
        "pull_image" => "runtime.v1.ImageService/PullImage",
        "remove_image" => "runtime.v1.ImageService/RemoveImage",
        "image_fs_info" => "runtime.v1.ImageService/ImageFsInfo",
        other => other,
    }
}
