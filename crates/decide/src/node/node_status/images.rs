//! Images in the node status.

use k8s_openapi::api::core::v1::ContainerImage;
use model::ImageStatus;

/// Per image, as upstream.
const MAX_NAMES: usize = 5;

/// Largest images first; the digests of an image come before its tags.
pub(super) fn image_list(images: &[ImageStatus], max_images: Option<usize>) -> Option<Vec<ContainerImage>> {
    let mut sorted: Vec<&ImageStatus> = images.iter().collect();
    sorted.sort_by(|one, other| other.size.cmp(&one.size).then_with(|| other.id.cmp(&one.id)));
    let image = |image: &ImageStatus| {
        let names = image.repo_digests.iter().chain(&image.repo_tags).take(MAX_NAMES);
        let names: Vec<String> = names.cloned().collect();
        ContainerImage {
            names: Some(names).filter(|names| !names.is_empty()),
            size_bytes: i64::try_from(image.size).ok().filter(|size| *size > 0),
        }
    };
    let chosen: Vec<_> = sorted.into_iter().take(max_images.unwrap_or(usize::MAX)).map(image).collect();
    Some(chosen).filter(|images| !images.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(id: &str, size: u64, digests: &[&str], tags: &[&str]) -> ImageStatus {
        let strings = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
        ImageStatus {
            id: id.into(),
            size,
            repo_digests: strings(digests),
            repo_tags: strings(tags),
            ..ImageStatus::default()
        }
    }

    #[test]
    fn lists_largest_images_first_with_limited_names() {
        let images = [
            image("a", 5, &["a@1"], &["a:1", "a:2", "a:3", "a:4", "a:5"]),
            image("b", 9, &["b@1"], &["b:1"]),
            image("c", 5, &[], &["c:1"]),
            image("d", 1, &[], &["d:1"]),
        ];
        let found = image_list(&images, Some(3)).unwrap();
        let names: Vec<Vec<String>> = found.into_iter().filter_map(|image| image.names).collect();
        assert_eq!(names, [vec!["b@1", "b:1"], vec!["c:1"], vec!["a@1", "a:1", "a:2", "a:3", "a:4"]]);
        assert_eq!(image_list(&images, None).unwrap().len(), 4);
        assert_eq!((image_list(&images, Some(0)), image_list(&[], None)), (None, None));
    }
}
