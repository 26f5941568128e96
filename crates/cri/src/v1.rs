//! Generated code of CRI v1 (package `runtime.v1`).

#[allow(
    missing_docs,
    unreachable_pub,
    rust_2018_idioms,
    clippy::all,
    clippy::allow_attributes_without_reason,
    clippy::needless_pass_by_value,
    clippy::semicolon_if_nothing_returned,
    clippy::unused_async,
    reason = "generated"
)]
mod generated {
    tonic::include_proto!("runtime.v1");
}

pub use generated::*;

use std::fmt;

impl fmt::Debug for AuthConfig {
    /// Shows the registry and user, but no secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthConfig")
            .field("server_address", &self.server_address)
            .field("username", &self.username)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;

    #[test]
    fn debug_output_of_credentials_contains_no_secret() {
        let auth = AuthConfig {
            username: "ann".into(),
            password: "hunter2".into(),
            auth: "YW5uOmh1bnRlcjI=".into(),
            server_address: "registry.example".into(),
            identity_token: "idtok".into(),
            registry_token: "regtok".into(),
        };
        let output = format!("{:?}", PullImageRequest { auth: Some(auth), ..Default::default() });
        assert!(output.contains("ann") && output.contains("registry.example"), "{output}");
        for secret in ["hunter2", "YW5uOmh1bnRlcjI=", "idtok", "regtok"] {
            assert!(!output.contains(secret), "{output}");
        }
    }

    #[test]
    fn enum_values_keep_their_names_and_numbers() {
        assert_eq!(PodSandboxState::SandboxNotready.as_str_name(), "SANDBOX_NOTREADY");
        assert_eq!(
            ContainerState::from_str_name("CONTAINER_UNKNOWN"),
            Some(ContainerState::ContainerUnknown)
        );
        assert_eq!(security_profile::ProfileType::Localhost as i32, 2);
        assert_eq!(Signal::Sigrtmax as i32, 65);
        assert_eq!(SupplementalGroupsPolicy::Strict as i32, 1);
    }

    #[test]
    fn unusual_field_numbers_match_the_proto() {
        let spec = ImageSpec { image_ref: "x".into(), ..Default::default() };
        // Field 20, wire type 2: (20 << 3) | 2 = 162 = 0xa2 0x01.
        assert_eq!(spec.encode_to_vec(), [0xa2, 0x01, 1, b'x']);
        let namespace = Namespace { options: Some(NamespaceOption::default()) };
        assert_eq!(namespace.encode_to_vec(), [0x12, 0]);
    }
}
