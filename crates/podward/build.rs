//! Links the programs so that their relocations take little room.

fn main() {
    // One entry for each of 30,000 pointers would be 700 KiB that every start reads and every agent keeps; packed they are
    // 20 KiB. A linker that does not know the option says so and goes on.
    println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    println!("cargo::rerun-if-changed=build.rs");
}
