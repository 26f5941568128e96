//! Cgroups of pods and their parents, orphan cgroups, exclusive CPUs, and in-place resize.

mod cpus;
mod files;
mod memory;
mod resize;
mod tree;
