//! Image pulls: limits, credential providers, and which cached images need credentials.

use agent::images::PullSettings;
use anyhow::{Context, bail};
use config::{Gate, LoadedConfig};
use decide::images::credentials::files_hash;
use decide::images::image_access::Verification;
use model::{CredentialProvider, ProviderToken, ResponseSharing};

pub(super) fn pulls(loaded: &LoadedConfig) -> PullSettings {
    let images = &loaded.config.images;
    let max_parallel = if images.pulls_one_at_a_time() {
        Some(1)
    } else {
        images.max_parallel_image_pulls.and_then(|count| usize::try_from(count).ok())
    };
    PullSettings {
        max_parallel,
        per_second: u32::try_from(images.registry_pull_qps).unwrap_or(0),
        burst: u32::try_from(images.registry_burst).unwrap_or(0),
        by_handler: loaded.gates.enabled(Gate::RuntimeClassInImageCriApi),
    }
}

pub(super) fn verification(loaded: &LoadedConfig) -> Option<Verification> {
    use config::configuration::CredentialsVerification as Policy;
    if !loaded.gates.enabled(Gate::KubeletEnsureSecretPulledImages) {
        return None;
    }
    let images = &loaded.config.images;
    Some(match images.credentials_verification {
        Some(Policy::NeverVerify) => Verification::Never,
        None | Some(Policy::NeverVerifyPreloadedImages) => Verification::UnlessPreloaded,
        Some(Policy::NeverVerifyAllowlistedImages) => {
            Verification::UnlessListed(images.preloaded_images_verification_allowlist.clone())
        }
        Some(Policy::AlwaysVerify) => Verification::Always,
    })
}

/// The credential provider programs; a program that is not there is found now, not at the first pull.
pub(super) fn credential_providers(loaded: &LoadedConfig) -> anyhow::Result<Vec<CredentialProvider>> {
    let flags = &loaded.flags;
    let (path, programs) =
        match (&flags.image_credential_provider_config, &flags.image_credential_provider_bin_dir) {
            (None, None) => return Ok(Vec::new()),
            (Some(path), Some(programs)) => (path, programs),
            // One alone is a slip: images would be pulled without credentials, and fail much later.
            (None, Some(_)) => {
                bail!("--image-credential-provider-bin-dir needs --image-credential-provider-config")
            }
            (Some(_), None) => {
                bail!("--image-credential-provider-config needs --image-credential-provider-bin-dir")
            }
        };
    let metadata = std::fs::metadata(programs);
    metadata.with_context(|| format!("--image-credential-provider-bin-dir: {}", programs.display()))?;
    let providers = config::credential_providers(path, &loaded.gates).map_err(|error| {
        let source = std::error::Error::source(&error).map(|source| format!(": {source}"));
        anyhow::anyhow!("--image-credential-provider-config: {error}{}", source.unwrap_or_default())
    })?;
    let provider = |settings: config::CredentialProviderSettings| {
        let program = programs.join(&settings.name);
        host::check_program(&program)
            .with_context(|| format!("credential provider {}: {}", settings.name, program.display()))?;
        Ok(CredentialProvider {
            name: settings.name,
            match_images: settings.match_images,
            default_cache_duration: settings.default_cache_duration.to_std(),
            api_version: settings.api_version,
            args: settings.args,
            env: settings.env,
            token: settings.token.map(provider_token),
        })
    };
    providers.into_iter().map(provider).collect()
}

pub(super) fn credential_provider_hash(loaded: &LoadedConfig) -> anyhow::Result<Option<String>> {
    let flags = &loaded.flags;
    let Some(path) = flags
        .image_credential_provider_config
        .as_ref()
        .filter(|_| flags.image_credential_provider_bin_dir.is_some())
    else {
        return Ok(None);
    };
    let files = config::credential_provider_files(path).context("--image-credential-provider-config")?;
    Ok(Some(files_hash(&files)))
}

fn provider_token(settings: config::ProviderTokenSettings) -> ProviderToken {
    ProviderToken {
        shared: if settings.cache_per_token() { ResponseSharing::Token } else { ResponseSharing::Account },
        audience: settings.audience,
        requires_account: settings.requires_account,
        required_annotations: settings.required_annotations,
        optional_annotations: settings.optional_annotations,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::loaded;
    use super::*;

    #[test]
    fn rejects_a_single_credential_provider_flag() {
        for (one, other) in [("config", "bin-dir"), ("bin-dir", "config")] {
            let loaded = loaded(&[&format!("--image-credential-provider-{one}=/nowhere")]);
            let error = credential_providers(&loaded).unwrap_err().to_string();
            assert!(error.ends_with(&format!("needs --image-credential-provider-{other}")), "{error}");
        }
        assert!(credential_providers(&loaded(&[])).unwrap().is_empty());
    }
}
