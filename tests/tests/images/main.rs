//! Images: credentials, parallel pulls, collection by age; and the rotation of container logs.

mod access;
mod collection;
mod credentials;
mod pulls;
mod rotation;
