//! Compiles the proto files of plugins to Rust, without protoc.

use std::error::Error;

const ROOT: &str = "proto";
const FILES: [&str; 4] = [
    "proto/csi.proto",
    "proto/podresources.proto",
    "proto/podresources_v1alpha1.proto",
    "proto/registration.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={ROOT}");
    let files = protox::compile(FILES, [ROOT])?;
    tonic_prost_build::configure()
        .build_client(true)
        .build_server(true)
        // A driver that lacks a call answers UNIMPLEMENTED, which is what the contract asks for.
        .generate_default_stubs(true)
        // Hold secrets: their Debug is written by hand.
        .skip_debug([
            "csi.v1.NodeStageVolumeRequest",
            "csi.v1.NodePublishVolumeRequest",
            "csi.v1.NodeExpandVolumeRequest",
        ])
        .compile_fds(files)?;
    Ok(())
}
