//! The node's API: access control and content.

mod access;
mod flood;
mod large_logs;
mod pages;
mod through_the_cluster;
