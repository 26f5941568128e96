//! Reasons and messages of failed pulls.

use model::ContainerProblem;

/// Waiting reason and message after a failed pull. Runtimes name two kinds of failure at the start of their message.
pub fn pull_problem(image: &str, message: &str) -> ContainerProblem {
    let kinds = [
        ("RegistryUnavailable", "the registry is unavailable"),
        ("SignatureValidationFailed", "the signature validation failed"),
    ];
    for (reason, why) in kinds {
        if let Some(rest) = message.strip_prefix(reason) {
            let message = format!("image pull failed for {image} because {why}{rest}");
            return ContainerProblem { reason: reason.to_owned(), message };
        }
    }
    ContainerProblem { reason: "ErrImagePull".to_owned(), message: message.to_owned() }
}

/// The word for an image's size in metrics.
pub fn size_class(bytes: u64) -> &'static str {
    const MEBI: u64 = 1 << 20;
    const GIBI: u64 = 1 << 30;
    let classes = [
        (100 * GIBI, "GT100GB"),
        (60 * GIBI, "60GB-100GB"),
        (40 * GIBI, "40GB-60GB"),
        (30 * GIBI, "30GB-40GB"),
        (20 * GIBI, "20GB-30GB"),
        (10 * GIBI, "10GB-20GB"),
        (5 * GIBI, "5GB-10GB"),
        (GIBI, "1GB-5GB"),
        (500 * MEBI, "500MB-1GB"),
        (100 * MEBI, "100MB-500MB"),
        (10 * MEBI, "10MB-100MB"),
        (0, "0-10MB"),
    ];
    classes.into_iter().find(|(floor, _)| bytes > *floor).map_or("N/A", |(_, class)| class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_failures_have_specific_reasons() {
        for (message, reason, expected) in [
            ("not found", "ErrImagePull", "not found"),
            (
                "RegistryUnavailable: no route",
                "RegistryUnavailable",
                "image pull failed for a:1 because the registry is unavailable: no route",
            ),
            (
                "SignatureValidationFailed",
                "SignatureValidationFailed",
                "image pull failed for a:1 because the signature validation failed",
            ),
        ] {
            let problem = pull_problem("a:1", message);
            assert_eq!((problem.reason.as_str(), problem.message.as_str()), (reason, expected));
        }
    }

    #[test]
    fn formats_sizes_as_upstream() {
        assert_eq!(size_class(0), "N/A");
        assert_eq!(size_class(10 << 20), "0-10MB");
        assert_eq!(size_class((10 << 20) + 1), "10MB-100MB");
        assert_eq!(size_class(200 << 30), "GT100GB");
    }
}
