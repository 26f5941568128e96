//! Generates Rust code from the CRI proto files, without protoc.

use std::error::Error;

const ROOT: &str = "proto";
const API: &str = "proto/runtime/v1/api.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={ROOT}");
    let files = protox::compile([API], [ROOT])?;
    tonic_prost_build::configure()
        .build_client(true)
        .build_server(true)
        // Calls that a server does not implement return UNIMPLEMENTED.
        .generate_default_stubs(true)
        // Contains passwords; has a manual Debug implementation.
        .skip_debug(["runtime.v1.AuthConfig"])
        .compile_fds(files)?;
    Ok(())
}
