//! Compiles the CRI proto files to Rust, without protoc.

use std::error::Error;

const ROOT: &str = "proto";
const API: &str = "proto/runtime/v1/api.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={ROOT}");
    let files = protox::compile([API], [ROOT])?;
    tonic_prost_build::configure()
        .build_client(true)
        .build_server(true)
        // A runtime that lacks a call answers UNIMPLEMENTED, which is what the contract asks for.
        .generate_default_stubs(true)
        // Holds passwords: its Debug is written by hand.
        .skip_debug(["runtime.v1.AuthConfig"])
        .compile_fds(files)?;
    Ok(())
}
