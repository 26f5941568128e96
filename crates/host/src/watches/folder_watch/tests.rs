use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use tokio::time::{Instant, timeout};

use super::*;

/// Only reached by a failing test.
const TIMEOUT: Duration = Duration::from_secs(60);

struct Fixture {
    scratch: tempfile::TempDir,
    hints: ChangeHints,
}

impl Fixture {
    /// Prepares a folder, watches `path` in it and consumes the first hint.
    async fn new(path: &str, prepare: impl FnOnce(&Path)) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        prepare(scratch.path());
        let hints = InotifyFolderWatch.watch(&scratch.path().join(path));
        let mut fixture = Self { scratch, hints };
        fixture.expect_hint("the watches are active").await;
        fixture
    }

    async fn expect_hint(&mut self, why: &str) -> ChangeHint {
        match timeout(TIMEOUT, self.hints.next()).await {
            Ok(Some(Ok(hint))) => hint,
            other => panic!("no hint although {why}: {other:?}"),
        }
    }

    /// Makes a change that must produce a hint; consumes further hints of the same change.
    async fn change(&mut self, why: &str, act: impl FnOnce(&Path)) {
        act(self.scratch.path());
        self.expect_hint(why).await;
        self.drain().await;
    }

    async fn drain(&mut self) {
        while let Ok(item) = timeout(MAX_BURST * 2, self.hints.next()).await {
            item.unwrap().unwrap();
        }
    }

    async fn expect_silence(&mut self, why: &str, act: impl FnOnce(&Path)) {
        act(self.scratch.path());
        if let Ok(item) = timeout(MAX_BURST * 4, self.hints.next()).await {
            panic!("hint although {why}: {item:?}");
        }
    }
}

fn write(path: &Path, content: &str) {
    fs::write(path, content).unwrap();
}

#[tokio::test]
async fn reports_changed_entries_of_a_folder() {
    let mut fixture = Fixture::new("pods", |root| fs::create_dir(root.join("pods")).unwrap()).await;
    fixture.change("a file was written", |root| write(&root.join("pods/a.yaml"), "a")).await;
    fixture.change("it was written again", |root| write(&root.join("pods/a.yaml"), "b")).await;
    fixture
        .change("it was renamed", |root| {
            fs::rename(root.join("pods/a.yaml"), root.join("pods/b.yaml")).unwrap();
        })
        .await;
    fixture
        .change("another was moved over it", |root| {
            write(&root.join("outside"), "c");
            fs::rename(root.join("outside"), root.join("pods/b.yaml")).unwrap();
        })
        .await;
    fixture.change("it was removed", |root| fs::remove_file(root.join("pods/b.yaml")).unwrap()).await;
    fixture.expect_silence("nothing here changed", |root| write(&root.join("elsewhere"), "x")).await;
}

#[tokio::test]
async fn names_removed_entries_even_if_they_exist_again() {
    let mut fixture = Fixture::new("pods", |root| {
        fs::create_dir(root.join("pods")).unwrap();
        for name in ["deleted", "moved", "replaced", "written"] {
            write(&root.join("pods").join(name), "x");
        }
    })
    .await;
    let folder = fixture.scratch.path().join("pods");
    fs::remove_file(folder.join("deleted")).unwrap();
    write(&folder.join("deleted"), "x");
    fs::rename(folder.join("moved"), fixture.scratch.path().join("outside")).unwrap();
    write(&fixture.scratch.path().join("new"), "y");
    fs::rename(fixture.scratch.path().join("new"), folder.join("replaced")).unwrap();
    write(&folder.join("written"), "y");
    let mut removed = fixture.expect_hint("entries were removed").await.removed;
    while let Ok(hint) = timeout(MAX_BURST * 2, fixture.hints.next()).await {
        removed.extend(hint.unwrap().unwrap().removed);
    }
    assert_eq!(removed, ["deleted".into(), "moved".into()].into());
}

#[tokio::test]
async fn burst_produces_few_hints() {
    let mut fixture = Fixture::new("pods", |root| fs::create_dir(root.join("pods")).unwrap()).await;
    for number in 0..500 {
        write(&fixture.scratch.path().join(format!("pods/{number}")), "x");
    }
    let mut hints = 0;
    while timeout(MAX_BURST * 2, fixture.hints.next()).await.is_ok() {
        hints += 1;
    }
    assert!((1..=4).contains(&hints), "{hints} hints");
}

#[tokio::test]
async fn reports_changes_of_a_single_file() {
    let mut fixture = Fixture::new("config.yaml", |root| write(&root.join("config.yaml"), "a")).await;
    fixture.change("it was written", |root| write(&root.join("config.yaml"), "b")).await;
    fixture
        .change("it was replaced", |root| {
            write(&root.join("new"), "c");
            fs::rename(root.join("new"), root.join("config.yaml")).unwrap();
        })
        .await;
    fixture.change("it was removed", |root| fs::remove_file(root.join("config.yaml")).unwrap()).await;
    fixture.change("it was created again", |root| write(&root.join("config.yaml"), "d")).await;
    fixture.expect_silence("a neighbour changed", |root| write(&root.join("other"), "x")).await;
}

#[tokio::test]
async fn reports_a_folder_that_is_created_and_removed() {
    let mut fixture = Fixture::new("a/b/pods", |_| {}).await;
    for _ in 0..2 {
        fixture.change("its first parent was created", |root| fs::create_dir(root.join("a")).unwrap()).await;
        fixture
            .change("it was created with content", |root| {
                fs::create_dir_all(root.join("a/b/pods")).unwrap();
                write(&root.join("a/b/pods/x"), "x");
            })
            .await;
        fixture.change("a file was written in it", |root| write(&root.join("a/b/pods/y"), "y")).await;
        fixture.change("all of it was removed", |root| fs::remove_dir_all(root.join("a")).unwrap()).await;
    }
}

#[tokio::test]
async fn reports_a_renamed_and_replaced_parent() {
    let mut fixture = Fixture::new("a/pods", |root| fs::create_dir_all(root.join("a/pods")).unwrap()).await;
    fixture
        .change("its parent was renamed", |root| fs::rename(root.join("a"), root.join("old")).unwrap())
        .await;
    fixture
        .change("another parent was moved there", |root| {
            fs::create_dir_all(root.join("new/pods")).unwrap();
            fs::rename(root.join("new"), root.join("a")).unwrap();
        })
        .await;
    fixture.expect_silence("the old one changed", |root| write(&root.join("old/pods/x"), "x")).await;
    fixture.change("the new one changed", |root| write(&root.join("a/pods/x"), "x")).await;
}

#[tokio::test]
async fn reports_a_swapped_symlink() {
    let mut fixture = Fixture::new("current", |root| {
        fs::create_dir(root.join("one")).unwrap();
        fs::create_dir(root.join("two")).unwrap();
        symlink("one", root.join("current")).unwrap();
    })
    .await;
    fixture.change("the target changed", |root| write(&root.join("one/x"), "x")).await;
    fixture
        .change("the link was swapped", |root| {
            let status = Command::new("ln").args(["-sfn", "two"]).arg(root.join("current")).status();
            assert!(status.unwrap().success());
        })
        .await;
    fixture.change("the new target changed", |root| write(&root.join("two/x"), "x")).await;
    fixture.expect_silence("the old target changed", |root| write(&root.join("one/y"), "y")).await;
}

#[tokio::test]
async fn reports_swaps_of_a_config_map_data_link() {
    let mut fixture = Fixture::new("pods", |root| {
        fs::create_dir_all(root.join("pods/..one")).unwrap();
        write(&root.join("pods/..one/a.yaml"), "one");
        symlink("..one", root.join("pods/..data")).unwrap();
        symlink("..data/a.yaml", root.join("pods/a.yaml")).unwrap();
    })
    .await;
    fixture
        .change("the data link was swapped", |root| {
            fs::create_dir(root.join("pods/..two")).unwrap();
            write(&root.join("pods/..two/a.yaml"), "two");
            symlink("..two", root.join("pods/..data_tmp")).unwrap();
            fs::rename(root.join("pods/..data_tmp"), root.join("pods/..data")).unwrap();
            fs::remove_dir_all(root.join("pods/..one")).unwrap();
        })
        .await;
    fixture.change("new data changed in place", |root| write(&root.join("pods/..two/a.yaml"), "2")).await;
}

#[tokio::test]
async fn reports_changes_of_link_targets() {
    let mut fixture = Fixture::new("pods", |root| {
        fs::create_dir_all(root.join("pods")).unwrap();
        fs::create_dir_all(root.join("repo/..one")).unwrap();
        write(&root.join("repo/..one/a.yaml"), "one");
        symlink("..one", root.join("repo/..data")).unwrap();
        symlink("../repo/..data/a.yaml", root.join("pods/a.yaml")).unwrap();
        symlink("../later.yaml", root.join("pods/later.yaml")).unwrap();
    })
    .await;
    fixture.change("the target was written", |root| write(&root.join("repo/..one/a.yaml"), "1")).await;
    fixture
        .change("a link on the way was swapped", |root| {
            fs::create_dir(root.join("repo/..two")).unwrap();
            write(&root.join("repo/..two/a.yaml"), "two");
            symlink("..two", root.join("repo/tmp")).unwrap();
            fs::rename(root.join("repo/tmp"), root.join("repo/..data")).unwrap();
        })
        .await;
    fixture.change("the missing target was created", |root| write(&root.join("later.yaml"), "x")).await;
    fixture
        .expect_silence("a neighbour of a target changed", |root| write(&root.join("repo/..two/b.yaml"), "x"))
        .await;
}

#[tokio::test]
async fn circular_links_terminate() {
    let mut fixture = Fixture::new("loop/pods", |root| {
        symlink("pool", root.join("loop")).unwrap();
        symlink("loop", root.join("pool")).unwrap();
    })
    .await;
    fixture
        .change("the circle was broken", |root| {
            fs::remove_file(root.join("pool")).unwrap();
            fs::create_dir_all(root.join("pool/pods")).unwrap();
        })
        .await;
    fixture.change("the folder changed", |root| write(&root.join("pool/pods/x"), "x")).await;
}

#[tokio::test]
async fn half_written_files_produce_no_hint() {
    use std::io::Write;
    let mut fixture = Fixture::new("pods", |root| {
        fs::create_dir(root.join("pods")).unwrap();
        write(&root.join("pods/a.yaml"), "a");
    })
    .await;
    let path = fixture.scratch.path().join("pods/a.yaml");
    let mut file = fs::File::options().append(true).open(path).unwrap();
    fixture.expect_silence("the writer is not done", |_| file.write_all(b"b").unwrap()).await;
    fixture.change("the writer is done", |_| drop(file)).await;
}

#[tokio::test(start_paused = true)]
async fn refused_watches_are_reported_and_retried_with_backoff() {
    let open = || Err(Errno::MFILE.into());
    let mut hints =
        HintStream { path: "/".into(), open, active: None, backoff: Backoff::new(BACKOFF), delay: None };
    let mut delays = Vec::new();
    for _ in 0..7 {
        let before = Instant::now();
        let error = hints.next().await.unwrap_err();
        assert!(error.to_string().contains("fs.inotify.max_user_instances"), "{error}");
        delays.push(before.elapsed().as_secs());
    }
    assert_eq!(delays, [0, 1, 2, 4, 8, 16, 20]);
    hints.open = ActiveWatch::new;
    hints.next().await.unwrap();
    assert_eq!(hints.delay, None);
}
