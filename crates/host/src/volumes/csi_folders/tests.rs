use std::fs;

use model::CsiLifecycle;

use super::*;
use crate::test_folder::{Scratch, require_root};

fn record(name: &str, handle: &str) -> VolumeRecord {
    VolumeRecord {
        spec_name: name.to_owned(),
        handle: handle.to_owned(),
        driver: "d.example".to_owned(),
        node: "n".to_owned(),
        attachment: "csi-1".to_owned(),
        lifecycle: CsiLifecycle::Persistent,
        label: None,
    }
}

async fn prepared(
    folders: &HostCsiFolders,
    uid: &str,
    record: VolumeRecord,
    is_block: bool,
) -> Result<Published, FileError> {
    let volume = folders.locate(&PodUid::from(uid), record, is_block);
    folders.prepare(&volume).await.map(|()| volume)
}

/// The volumes found, all of which must be readable.
fn readable(found: Result<FoundVolumes, FileError>) -> Vec<Published> {
    let found = found.unwrap();
    assert!(found.unreadable.is_empty(), "{found:?}");
    found.volumes
}

#[tokio::test]
async fn folders_and_records_are_in_upstream_locations() {
    let scratch = Scratch::new();
    let root = scratch.path().join("kubelet");
    let folders = HostCsiFolders::new(&root);
    let uid = PodUid::from("u1");
    let volume = prepared(&folders, "u1", record("pv", "h"), false).await.unwrap();
    assert_eq!(volume.target, root.join("pods/u1/volumes/kubernetes.io~csi/pv/mount"));
    assert!(!volume.target.exists(), "the driver creates it");
    // printf h | sha256sum
    let hash = "aaa9402664f1a41f40ebbc52c9993eb66aeb366602958fdfaa283b71e64db123";
    assert_eq!(volume.staging, root.join(format!("plugins/kubernetes.io/csi/d.example/{hash}/globalmount")));
    folders.prepare_staging(&volume).await.unwrap();
    assert!(volume.staging.is_dir());
    let text = fs::read_to_string(volume.staging.with_file_name("vol_data.json")).unwrap();
    assert_eq!(text, "{\"driverName\":\"d.example\",\"volumeHandle\":\"h\"}\n");
    let text = fs::read_to_string(root.join("pods/u1/volumes/kubernetes.io~csi/pv/vol_data.json")).unwrap();
    assert_eq!(
        text,
        "{\"attachmentID\":\"csi-1\",\"driverName\":\"d.example\",\"nodeName\":\"n\",\"specVolID\":\"pv\",\
         \"volumeHandle\":\"h\",\"volumeLifecycleMode\":\"Persistent\"}\n"
    );
    assert_eq!(readable(folders.of_pod(&uid).await), std::slice::from_ref(&volume));
    assert_eq!(readable(folders.all().await), std::slice::from_ref(&volume));
    for _ in 0..2 {
        folders.remove_staging(&volume).await.unwrap();
        folders.remove(&volume).await.unwrap();
    }
    assert!(!volume.staging.parent().unwrap().exists());
    assert!(!root.join("pods/u1/volumes/kubernetes.io~csi").exists());
    assert_eq!(readable(folders.all().await), []);
}

#[tokio::test]
async fn records_label_for_staging_and_publishing() {
    let scratch = Scratch::new();
    let root = scratch.path().join("kubelet");
    let folders = HostCsiFolders::new(&root);
    let labelled = VolumeRecord { label: Some("u:r:t:s0:c1,c2".to_owned()), ..record("pv", "h") };
    let volume = folders.locate(&PodUid::from("u1"), labelled.clone(), false);
    assert_eq!(folders.recorded(&volume).await.unwrap(), None);
    assert_eq!(folders.staged(&volume).await.unwrap(), StagingRecord::Missing);
    folders.prepare(&volume).await.unwrap();
    folders.prepare_staging(&volume).await.unwrap();
    assert_eq!(folders.recorded(&volume).await.unwrap(), Some(labelled.clone()));
    let staged = folders.staged(&volume).await.unwrap();
    assert!(matches!(&staged, StagingRecord::Read(record) if record.label == labelled.label), "{staged:?}");
    let text = fs::read_to_string(volume.staging.with_file_name("vol_data.json")).unwrap();
    assert_eq!(
        text,
        "{\"driverName\":\"d.example\",\"seLinuxMountContext\":\"u:r:t:s0:c1,c2\",\"volumeHandle\":\"h\"}\n"
    );
    let others = folders.locate(&PodUid::from("u2"), record("pv", "h"), false);
    let found = folders.all().await.unwrap();
    assert_eq!(found.of_others(&others).map(|record| &record.label).collect::<Vec<_>>(), [&labelled.label]);
    assert_eq!(found.of_others(&volume).count(), 0);
    // A power cut may leave a file like this if it was not flushed.
    for cut in ["", "{\"driverName\":\"d.ex", "[]"] {
        fs::write(volume.staging.with_file_name("vol_data.json"), cut).unwrap();
        assert_eq!(folders.staged(&volume).await.unwrap(), StagingRecord::Corrupt, "{cut}");
    }
}

#[tokio::test]
async fn block_volume_has_one_record_and_a_link_per_pod() {
    let scratch = Scratch::new();
    let root = scratch.path().join("kubelet");
    let folders = HostCsiFolders::new(&root);
    let devices = root.join("plugins/kubernetes.io/csi/volumeDevices");
    let mut volumes = Vec::new();
    for uid in ["u1", "u2"] {
        let volume = prepared(&folders, uid, record("pv", "h"), true).await.unwrap();
        assert_eq!(volume.target, devices.join("publish/pv").join(uid));
        assert_eq!(volume.staging, devices.join("staging/pv"));
        let link = root.join("pods").join(uid).join("volumeDevices/kubernetes.io~csi/pv");
        assert_eq!(fs::read_link(link).unwrap(), volume.target);
        fs::write(&volume.target, "").unwrap();
        volumes.push(volume);
    }
    assert_eq!(readable(folders.all().await), volumes);
    folders.remove(&volumes[0]).await.unwrap();
    assert!(devices.join("pv/data/vol_data.json").exists());
    folders.remove_staging(&volumes[1]).await.unwrap();
    folders.remove(&volumes[1]).await.unwrap();
    assert!(!devices.join("pv").exists() && !devices.join("publish/pv").exists());
    assert_eq!(readable(folders.all().await), []);
}

#[tokio::test]
#[ignore = "needs root"]
async fn mounted_volumes_are_not_removed() {
    require_root();
    let scratch = Scratch::new();
    let folders = HostCsiFolders::new(scratch.path().join("kubelet"));
    let uid = PodUid::from("u1");
    let volume = prepared(&folders, "u1", record("pv", "h"), false).await.unwrap();
    folders.prepare_staging(&volume).await.unwrap();
    assert!(!folders.is_published(&volume).await.unwrap());
    fs::create_dir(&volume.target).unwrap();
    assert!(!folders.is_published(&volume).await.unwrap());
    let precious = scratch.path().join("precious");
    fs::create_dir(&precious).unwrap();
    fs::write(precious.join("data"), "x").unwrap();
    for path in [&volume.target, &volume.staging] {
        rustix::mount::mount_bind(&precious, path).unwrap();
    }
    assert!(folders.is_published(&volume).await.unwrap());
    assert!(folders.remove(&volume).await.is_err());
    assert!(folders.remove_staging(&volume).await.is_err());
    assert_eq!(readable(folders.of_pod(&uid).await).len(), 1, "the record stays");
    for path in [&volume.target, &volume.staging] {
        rustix::mount::unmount(path, rustix::mount::UnmountFlags::empty()).unwrap();
    }
    folders.remove_staging(&volume).await.unwrap();
    folders.remove(&volume).await.unwrap();
    assert_eq!(fs::read_to_string(precious.join("data")).unwrap(), "x");
}

#[tokio::test]
async fn rejects_names_that_are_paths() {
    let scratch = Scratch::new();
    let folders = HostCsiFolders::new(scratch.path().join("kubelet"));
    for name in ["..", "a/b", ""] {
        assert!(prepared(&folders, "u", record(name, "h"), false).await.is_err(), "{name}");
        let named = VolumeRecord { driver: name.to_owned(), ..record("pv", "h") };
        assert!(prepared(&folders, "u", named, true).await.is_err(), "{name}");
    }
}

#[tokio::test]
async fn unreadable_record_does_not_hide_others() {
    let scratch = Scratch::new();
    let root = scratch.path().join("kubelet");
    let folders = HostCsiFolders::new(&root);
    let good = prepared(&folders, "good", record("pv", "h"), false).await.unwrap();
    let same = prepared(&folders, "bad", record("pv", "h"), false).await.unwrap();
    let other = prepared(&folders, "bad", record("pv2", "h2"), false).await.unwrap();
    // A power cut may leave a file like this if it was not flushed.
    fs::write(root.join("pods/bad/volumes/kubernetes.io~csi/pv/vol_data.json"), "").unwrap();
    let all = folders.all().await.unwrap();
    assert_eq!(all.volumes, [other.clone(), good.clone()]);
    let names: Vec<_> = all.unreadable.iter().map(|bad| (bad.uid.as_str(), bad.spec_name.as_str())).collect();
    assert_eq!(names, [("bad", "pv")]);
    assert!(all.is_used_by_another(&good), "by the volume with the lost record");
    assert!(!all.is_used_by_another(&other) && all.is_used_by_another(&same));
    let of_pod = folders.of_pod(&PodUid::from("bad")).await.unwrap();
    assert_eq!((of_pod.volumes, of_pod.unreadable.len()), (vec![other], 1));
}

#[tokio::test]
async fn listing_keeps_volumes_without_a_record() {
    let scratch = Scratch::new();
    let root = scratch.path().join("kubelet");
    let folders = HostCsiFolders::new(&root);
    // Its record is not there yet.
    let begun = root.join("pods/u/volumes/kubernetes.io~csi/pv");
    fs::create_dir_all(&begun).unwrap();
    assert_eq!(readable(folders.all().await), []);
    assert!(begun.exists());
    assert_eq!(readable(folders.of_pod(&PodUid::from("u")).await), []);
    assert!(!begun.exists(), "the pod is torn down");
}
