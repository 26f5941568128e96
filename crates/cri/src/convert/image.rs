use model::{FilesystemUsage, ImageAuth, ImageFilesystems, ImageSpec, ImageStatus};

use crate::v1;

pub(crate) fn spec(spec: &ImageSpec) -> v1::ImageSpec {
    v1::ImageSpec {
        image: spec.image.clone(),
        user_specified_image: spec.user_specified_image.clone(),
        runtime_handler: spec.runtime_handler.clone(),
        annotations: spec.annotations.clone().into_iter().collect(),
        ..Default::default()
    }
}

pub(crate) fn auth(auth: &ImageAuth) -> v1::AuthConfig {
    v1::AuthConfig {
        username: auth.username.clone(),
        password: auth.password.clone(),
        auth: auth.auth.clone(),
        server_address: auth.server_address.clone(),
        identity_token: auth.identity_token.clone(),
        registry_token: auth.registry_token.clone(),
    }
}

pub(crate) fn status(image: v1::Image) -> ImageStatus {
    ImageStatus {
        id: image.id,
        repo_tags: image.repo_tags,
        repo_digests: image.repo_digests,
        size: image.size,
        uid: image.uid.map(|uid| uid.value),
        username: image.username,
        pinned: image.pinned,
        runtime_handler: image.spec.unwrap_or_default().runtime_handler,
    }
}

pub(crate) fn filesystems(info: v1::ImageFsInfoResponse) -> ImageFilesystems {
    let usage = |reported: v1::FilesystemUsage| FilesystemUsage {
        mount_point: reported.fs_id.unwrap_or_default().mountpoint.into(),
        used_bytes: reported.used_bytes.map_or(0, |bytes| bytes.value),
        inodes_used: reported.inodes_used.map_or(0, |inodes| inodes.value),
    };
    ImageFilesystems {
        images: info.image_filesystems.into_iter().map(usage).collect(),
        containers: info.container_filesystems.into_iter().map(usage).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converts_all_credential_fields() {
        let sent = auth(&ImageAuth {
            username: "u".into(),
            password: "p".into(),
            auth: "a".into(),
            server_address: "s".into(),
            identity_token: "i".into(),
            registry_token: "r".into(),
        });
        assert_eq!((sent.username.as_str(), sent.password.as_str(), sent.auth.as_str()), ("u", "p", "a"));
        assert_eq!(sent.server_address, "s");
        assert_eq!((sent.identity_token.as_str(), sent.registry_token.as_str()), ("i", "r"));
    }

    #[test]
    fn distinguishes_root_from_unset_user() {
        let mut reported = v1::Image { id: "x".into(), username: "web".into(), ..Default::default() };
        assert_eq!(status(reported.clone()).uid, None);
        reported.uid = Some(v1::Int64Value { value: 0 });
        assert_eq!(status(reported).uid, Some(0));
    }
}
