//! Cgroups above pods, of pods, and of what is left of them; pods whose resources change while they run.

mod files;
mod resize;
mod tree;
