//! Image names, and whether an image must be pulled.

mod outcome;

use model::ImageStatus;

pub use outcome::{pull_problem, size_class};
pub use values::image_name::{ImageName, InvalidImageName, parse_image_name};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PullDecision {
    /// Use the present image, by its ID.
    UsePresent(String),
    Pull,
    /// The image is missing and must not be pulled (`ErrImageNeverPull`).
    NeverPresent,
}

/// The name for the runtime: as written, plus `:latest` without tag and digest. The runtime chooses the default registry.
///
/// # Errors
/// When the name is invalid.
pub fn with_default_tag(image: &str) -> Result<String, InvalidImageName> {
    let name = parse_image_name(image)?;
    Ok(if name.tag.is_none() && name.digest.is_none() { format!("{image}:latest") } else { image.to_owned() })
}

/// Decides by policy whether an image is pulled. Without a policy, images with the tag `latest` are always pulled.
pub fn decide_pull(policy: Option<&str>, image: &str, present: Option<&ImageStatus>) -> PullDecision {
    let implied = || match parse_image_name(image) {
        Ok(name) if name.is_latest() => "Always",
        _ => "IfNotPresent",
    };
    let policy = policy.filter(|policy| !policy.is_empty()).unwrap_or_else(implied);
    let present = present.filter(|image| !image.id.is_empty());
    match (policy, present) {
        ("Always", _) => PullDecision::Pull,
        (_, Some(image)) => PullDecision::UsePresent(image.id.clone()),
        ("Never", None) => PullDecision::NeverPresent,
        (_, None) => PullDecision::Pull,
    }
}

#[cfg(test)]
mod tests;
