//! Generates Rust code from the proto files of plugins, without protoc.

use std::error::Error;

const ROOT: &str = "proto";
const FILES: [&str; 9] = [
    "proto/csi.proto",
    "proto/deviceplugin.proto",
    "proto/dra_health.proto",
    "proto/dra_v1.proto",
    "proto/dra_v1beta1.proto",
    "proto/podresources.proto",
    "proto/podresources_v1alpha1.proto",
    "proto/pods.proto",
    "proto/registration.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={ROOT}");
    let files = protox::compile(FILES, [ROOT])?;
    tonic_prost_build::configure()
        .build_client(true)
        .build_server(true)
        // Calls that a server does not implement return UNIMPLEMENTED.
        .generate_default_stubs(true)
        // Contain secrets; have a manual Debug implementation.
        .skip_debug([
            "csi.v1.NodeStageVolumeRequest",
            "csi.v1.NodePublishVolumeRequest",
            "csi.v1.NodeExpandVolumeRequest",
        ])
        .compile_fds(files)?;
    Ok(())
}
