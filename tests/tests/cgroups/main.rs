//! Cgroups of pods and their parents, orphan cgroups, and in-place resize.

mod files;
mod resize;
mod tree;
