//! The node's API: who may ask, and what is answered.

mod access;
mod flood;
mod large_logs;
mod pages;
mod through_the_cluster;
