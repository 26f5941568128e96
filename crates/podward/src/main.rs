//! The podward binary.
fn main() {}
