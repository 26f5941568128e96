//! Networks of pods.
