//! The node's API: who may ask, and what is answered.

mod access;
mod flood;
mod pages;
