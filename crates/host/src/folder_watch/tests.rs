use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use tokio::time::timeout;

use super::*;

/// Long enough for a busy machine; reached only by a failing test.
const SOON: Duration = Duration::from_secs(60);

struct Watching {
    scratch: tempfile::TempDir,
    hints: ChangeHints,
}

impl Watching {
    /// Prepares a folder and watches `path` in it, past the first hint.
    async fn new(path: &str, prepare: impl FnOnce(&Path)) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        prepare(scratch.path());
        let hints = InotifyFolderWatch.watch(&scratch.path().join(path));
        let mut watching = Self { scratch, hints };
        watching.expect_hint("watches stand").await;
        watching
    }

    async fn expect_hint(&mut self, why: &str) {
        match timeout(SOON, self.hints.next()).await {
            Ok(Some(Ok(()))) => {}
            other => panic!("no hint although {why}: {other:?}"),
        }
    }

    /// A change must give a hint; stragglers of the change are taken along.
    async fn change(&mut self, why: &str, act: impl FnOnce(&Path)) {
        act(self.scratch.path());
        self.expect_hint(why).await;
        self.drain().await;
    }

    async fn drain(&mut self) {
        while let Ok(item) = timeout(LONGEST_BURST * 2, self.hints.next()).await {
            item.unwrap().unwrap();
        }
    }

    async fn expect_silence(&mut self, why: &str, act: impl FnOnce(&Path)) {
        act(self.scratch.path());
        if let Ok(item) = timeout(LONGEST_BURST * 4, self.hints.next()).await {
            panic!("hint although {why}: {item:?}");
        }
    }
}

fn write(path: &Path, content: &str) {
    fs::write(path, content).unwrap();
}

#[tokio::test]
async fn entries_of_a_folder() {
    let mut watching = Watching::new("pods", |root| fs::create_dir(root.join("pods")).unwrap()).await;
    watching.change("a file was written", |root| write(&root.join("pods/a.yaml"), "a")).await;
    watching.change("it was written again", |root| write(&root.join("pods/a.yaml"), "b")).await;
    watching
        .change("it was renamed", |root| {
            fs::rename(root.join("pods/a.yaml"), root.join("pods/b.yaml")).unwrap();
        })
        .await;
    watching
        .change("another was moved over it", |root| {
            write(&root.join("outside"), "c");
            fs::rename(root.join("outside"), root.join("pods/b.yaml")).unwrap();
        })
        .await;
    watching.change("it was removed", |root| fs::remove_file(root.join("pods/b.yaml")).unwrap()).await;
    watching.expect_silence("nothing here changed", |root| write(&root.join("elsewhere"), "x")).await;
}

#[tokio::test]
async fn a_burst_is_joined_into_few_hints() {
    let mut watching = Watching::new("pods", |root| fs::create_dir(root.join("pods")).unwrap()).await;
    for number in 0..500 {
        write(&watching.scratch.path().join(format!("pods/{number}")), "x");
    }
    let mut hints = 0;
    while timeout(LONGEST_BURST * 2, watching.hints.next()).await.is_ok() {
        hints += 1;
    }
    assert!((1..=4).contains(&hints), "{hints} hints");
}

#[tokio::test]
async fn a_single_file() {
    let mut watching = Watching::new("config.yaml", |root| write(&root.join("config.yaml"), "a")).await;
    watching.change("it was written", |root| write(&root.join("config.yaml"), "b")).await;
    watching
        .change("it was replaced", |root| {
            write(&root.join("new"), "c");
            fs::rename(root.join("new"), root.join("config.yaml")).unwrap();
        })
        .await;
    watching.change("it was removed", |root| fs::remove_file(root.join("config.yaml")).unwrap()).await;
    watching.change("it came back", |root| write(&root.join("config.yaml"), "d")).await;
    watching.expect_silence("a neighbour changed", |root| write(&root.join("other"), "x")).await;
}

#[tokio::test]
async fn a_folder_that_appears_later_and_goes_again() {
    let mut watching = Watching::new("a/b/pods", |_| {}).await;
    for _ in 0..2 {
        watching.change("its first parent was made", |root| fs::create_dir(root.join("a")).unwrap()).await;
        watching
            .change("it was made with content at once", |root| {
                fs::create_dir_all(root.join("a/b/pods")).unwrap();
                write(&root.join("a/b/pods/x"), "x");
            })
            .await;
        watching.change("a file was written in it", |root| write(&root.join("a/b/pods/y"), "y")).await;
        watching.change("all of it was removed", |root| fs::remove_dir_all(root.join("a")).unwrap()).await;
    }
}

#[tokio::test]
async fn a_parent_that_is_renamed_away_and_replaced() {
    let mut watching = Watching::new("a/pods", |root| fs::create_dir_all(root.join("a/pods")).unwrap()).await;
    watching.change("its parent left", |root| fs::rename(root.join("a"), root.join("old")).unwrap()).await;
    watching
        .change("another parent came", |root| {
            fs::create_dir_all(root.join("new/pods")).unwrap();
            fs::rename(root.join("new"), root.join("a")).unwrap();
        })
        .await;
    watching.expect_silence("the old one changed", |root| write(&root.join("old/pods/x"), "x")).await;
    watching.change("the new one changed", |root| write(&root.join("a/pods/x"), "x")).await;
}

#[tokio::test]
async fn a_path_that_is_a_symlink_swapped_with_ln() {
    let mut watching = Watching::new("current", |root| {
        fs::create_dir(root.join("one")).unwrap();
        fs::create_dir(root.join("two")).unwrap();
        symlink("one", root.join("current")).unwrap();
    })
    .await;
    watching.change("the target changed", |root| write(&root.join("one/x"), "x")).await;
    watching
        .change("the link was swapped", |root| {
            let status = Command::new("ln").args(["-sfn", "two"]).arg(root.join("current")).status();
            assert!(status.unwrap().success());
        })
        .await;
    watching.change("the new target changed", |root| write(&root.join("two/x"), "x")).await;
    watching.expect_silence("the old target changed", |root| write(&root.join("one/y"), "y")).await;
}

#[tokio::test]
async fn config_map_style_swaps_of_the_data_link() {
    let mut watching = Watching::new("pods", |root| {
        fs::create_dir_all(root.join("pods/..one")).unwrap();
        write(&root.join("pods/..one/a.yaml"), "one");
        symlink("..one", root.join("pods/..data")).unwrap();
        symlink("..data/a.yaml", root.join("pods/a.yaml")).unwrap();
    })
    .await;
    watching
        .change("the data link was swapped", |root| {
            fs::create_dir(root.join("pods/..two")).unwrap();
            write(&root.join("pods/..two/a.yaml"), "two");
            symlink("..two", root.join("pods/..data_tmp")).unwrap();
            fs::rename(root.join("pods/..data_tmp"), root.join("pods/..data")).unwrap();
            fs::remove_dir_all(root.join("pods/..one")).unwrap();
        })
        .await;
    watching.change("new data changed in place", |root| write(&root.join("pods/..two/a.yaml"), "2")).await;
}

#[tokio::test]
async fn entries_that_link_to_files_elsewhere() {
    let mut watching = Watching::new("pods", |root| {
        fs::create_dir_all(root.join("pods")).unwrap();
        fs::create_dir_all(root.join("repo/..one")).unwrap();
        write(&root.join("repo/..one/a.yaml"), "one");
        symlink("..one", root.join("repo/..data")).unwrap();
        symlink("../repo/..data/a.yaml", root.join("pods/a.yaml")).unwrap();
        symlink("../later.yaml", root.join("pods/later.yaml")).unwrap();
    })
    .await;
    watching.change("the target was written", |root| write(&root.join("repo/..one/a.yaml"), "1")).await;
    watching
        .change("a link on the way was swapped", |root| {
            fs::create_dir(root.join("repo/..two")).unwrap();
            write(&root.join("repo/..two/a.yaml"), "two");
            symlink("..two", root.join("repo/tmp")).unwrap();
            fs::rename(root.join("repo/tmp"), root.join("repo/..data")).unwrap();
        })
        .await;
    watching.change("the missing target came", |root| write(&root.join("later.yaml"), "x")).await;
    watching
        .expect_silence("a neighbour of a target changed", |root| write(&root.join("repo/..two/b.yaml"), "x"))
        .await;
}

#[tokio::test]
async fn links_in_a_circle_end() {
    let mut watching = Watching::new("loop/pods", |root| {
        symlink("pool", root.join("loop")).unwrap();
        symlink("loop", root.join("pool")).unwrap();
    })
    .await;
    watching
        .change("the circle was broken", |root| {
            fs::remove_file(root.join("pool")).unwrap();
            fs::create_dir_all(root.join("pool/pods")).unwrap();
        })
        .await;
    watching.change("the folder changed", |root| write(&root.join("pool/pods/x"), "x")).await;
}

#[tokio::test]
async fn half_written_files_are_not_announced() {
    use std::io::Write;
    let mut watching = Watching::new("pods", |root| {
        fs::create_dir(root.join("pods")).unwrap();
        write(&root.join("pods/a.yaml"), "a");
    })
    .await;
    let path = watching.scratch.path().join("pods/a.yaml");
    let mut file = fs::File::options().append(true).open(path).unwrap();
    watching.expect_silence("the writer is not done", |_| file.write_all(b"b").unwrap()).await;
    watching.change("the writer is done", |_| drop(file)).await;
}

#[tokio::test(start_paused = true)]
async fn refused_watches_are_reported_and_tried_again_ever_more_slowly() {
    let open = || Err(Errno::MFILE.into());
    let mut hints = Hints { path: "/".into(), open, live: None, back_off: None };
    let mut pauses = Vec::new();
    for _ in 0..7 {
        let before = Instant::now();
        let error = hints.next().await.unwrap_err();
        assert!(error.to_string().contains("fs.inotify.max_user_instances"), "{error}");
        pauses.push(before.elapsed().as_secs());
    }
    assert_eq!(pauses, [0, 1, 2, 4, 8, 16, 20]);
    hints.open = Live::new;
    hints.next().await.unwrap();
    assert_eq!(hints.back_off, None);
}
