//! Any text: an accepted image name round-trips through its parts.
#![no_main]

use decide::images::image_pull::with_default_tag;
use libfuzzer_sys::fuzz_target;
use values::image_name::parse_image_name;

fuzz_target!(|image: &str| {
    let tagged = with_default_tag(image);
    let Ok(name) = parse_image_name(image) else {
        assert!(tagged.is_err(), "{image:?} has a default tag and is no image name");
        return;
    };
    let mut written = name.repository.clone();
    if let Some(tag) = &name.tag {
        written.push_str(&format!(":{tag}"));
    }
    if let Some(digest) = &name.digest {
        written.push_str(&format!("@{digest}"));
    }
    assert_eq!(parse_image_name(&written).as_ref(), Ok(&name), "{image:?} written as {written:?}");
    let tagged = tagged.expect("an image name can be tagged");
    let tagged_name = parse_image_name(&tagged).expect("a tagged image name is one");
    assert!(
        tagged_name.tag.is_some() || tagged_name.digest.is_some(),
        "{tagged:?} is neither tagged nor pinned"
    );
});
