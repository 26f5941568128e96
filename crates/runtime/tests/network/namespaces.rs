//! Pinned network namespaces.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use runtime::network::*;

use crate::node::*;

fn number(namespace: &Path) -> u64 {
    fs::metadata(namespace).unwrap().ino()
}

#[test]
#[ignore = "needs root"]
fn namespace_is_pinned_with_loopback_up_and_removed_idempotently() {
    require_root();
    on_node(async |node| {
        let own = Path::new("/proc/thread-self/ns/net");
        let before = number(own);
        let (pin, other) = (node.path("one"), node.path("two"));
        create_pinned_namespace(&pin).await.unwrap();
        create_pinned_namespace(&other).await.unwrap();
        assert!(number(&pin) != before && number(&pin) != number(&other));
        assert_eq!(number(own), before, "the thread of the caller stays in its namespace");
        assert!(create_pinned_namespace(&pin).await.unwrap_err().to_string().contains("create pin"));
        serve(&pin, "[::]:80");
        assert!(enter(&pin, || ask_tcp("127.0.0.1:80")).is_ok());
        assert!(enter(&other, || ask_tcp("127.0.0.1:80")).is_err());

        enter(&pin, || run_program("ip", &["link", "set", "lo", "down"]));
        bring_up_loopback(&pin).await.unwrap();
        assert!(enter(&pin, || ask_tcp("[::1]:80")).is_ok());
        for _ in 0..2 {
            remove_pinned_namespace(&pin).await.unwrap();
        }
        assert!(!pin.exists());
        assert!(bring_up_loopback(&pin).await.is_err());
        // A crash between creating the pin and mounting leaves a file.
        fs::write(&pin, "").unwrap();
        assert!(bring_up_loopback(&pin).await.is_err());
        remove_pinned_namespace(&pin).await.unwrap();
        assert!(!pin.exists());
    });
}
