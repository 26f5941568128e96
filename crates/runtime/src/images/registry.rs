//! The client side of the registry protocol of OCI and Docker.
//!
//! A [`Session`] fetches the documents and blobs of one repository. It tries the registry's mirrors first, answers
//! challenges, follows redirects without credentials, and retries what may be temporary.

mod attempts;
mod authorization;
mod challenge;
mod connector;
mod credentials;
mod errors;
mod hosts;
mod response;
mod server;
mod session;
mod token;

pub use challenge::{BearerChallenge, Challenge, choose_challenge};
pub(crate) use credentials::Credentials;
pub use credentials::InvalidCredentials;
pub use errors::RegistryError;
pub(crate) use hosts::endpoints;
pub use hosts::{Endpoint, HostsError, parse as parse_hosts};
pub(crate) use session::{FetchedDocument, Session};
