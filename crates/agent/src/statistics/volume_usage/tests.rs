use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use model::Timestamp;
use model::usage::{DiskUse, FilesystemRoom};
use tokio::task::JoinHandle;

use super::*;

const PERIOD: Duration = Duration::from_secs(60);

fn volumes(bytes: u64) -> PodVolumes {
    let reading = VolumeReading {
        name: "data".to_owned(),
        claim: None,
        time: Timestamp::from_secs(1),
        room: FilesystemRoom::default(),
        used: Some(DiskUse { bytes, inodes: 1 }),
        is_abnormal: None,
        is_local: true,
    };
    PodVolumes { readings: vec![reading], is_complete: true }
}

/// Measures volumes that take `cost`; the use is the number of the measurement.
struct Fixture {
    usage: Arc<VolumeUsage>,
    count: Arc<AtomicUsize>,
    _task: JoinHandle<()>,
}

fn start(cost: fn(&PodUid) -> Duration) -> Fixture {
    let (usage, count) = (Arc::new(VolumeUsage::new(Some(PERIOD))), Arc::new(AtomicUsize::new(0)));
    let task = tokio::spawn({
        let (usage, count) = (usage.clone(), count.clone());
        async move {
            let count = &count;
            let measure = |uid: PodUid, _| async move {
                tokio::time::sleep(cost(&uid)).await;
                volumes(count.fetch_add(1, Ordering::SeqCst) as u64 + 1)
            };
            usage.run(measure).await;
        }
    });
    Fixture { usage, count, _task: task }
}

impl Fixture {
    /// The figures of a pod, and how long the request took.
    async fn request(&self, uid: &str) -> (Option<PodVolumes>, Duration) {
        let begun = Instant::now();
        let mut found = self.usage.figures(vec![uid.into()]).await;
        (found.remove(&PodUid::from(uid)), begun.elapsed())
    }

    fn count(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }
}

#[tokio::test(start_paused = true)]
async fn first_request_waits_for_figures_and_later_ones_share_them() {
    let fixture = start(|_| Duration::from_millis(20));
    let (found, took) = fixture.request("a").await;
    assert_eq!((found, took), (Some(volumes(1)), Duration::from_millis(20)));
    for _ in 0..3 {
        assert_eq!(fixture.request("a").await, (Some(volumes(1)), Duration::ZERO));
    }
    assert_eq!(fixture.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn stale_figures_are_returned_at_once_and_refreshed_in_the_background() {
    let fixture = start(|_| Duration::from_millis(20));
    fixture.request("a").await;
    tokio::time::advance(PERIOD).await;
    assert_eq!(fixture.request("a").await, (Some(volumes(1)), Duration::ZERO));
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(fixture.request("a").await, (Some(volumes(2)), Duration::ZERO));
    // After a long time without requests, the last figures say nothing any more.
    tokio::time::advance(3 * PERIOD).await;
    assert_eq!(fixture.request("a").await.0, Some(volumes(3)));
}

#[tokio::test(start_paused = true)]
async fn slow_pods_delay_a_request_only_for_a_moment_and_others_not_at_all() {
    let fixture = start(|uid| Duration::from_secs(if uid.as_str() == "slow" { 300 } else { 0 }));
    assert_eq!(fixture.request("slow").await, (None, FIRST_FIGURES_TIMEOUT));
    assert_eq!(fixture.request("other").await, (Some(volumes(1)), Duration::ZERO));
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert!(fixture.request("slow").await.0.is_some());
}

#[tokio::test(start_paused = true)]
async fn pod_with_costly_volumes_is_measured_less_often() {
    let fixture = start(|_| Duration::from_secs(30));
    fixture.request("a").await;
    for _ in 0..29 {
        tokio::time::sleep(Duration::from_secs(10)).await;
        fixture.request("a").await;
    }
    assert_eq!(fixture.count(), 1);
    tokio::time::sleep(Duration::from_secs(100)).await;
    fixture.request("a").await;
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert_eq!(fixture.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn figures_of_removed_pods_are_dropped() {
    let fixture = start(|_| Duration::ZERO);
    fixture.request("a").await;
    fixture.usage.retain(|_| false);
    fixture.request("a").await;
    assert_eq!(fixture.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_measured_without_a_period() {
    let usage = VolumeUsage::new(None);
    assert!(usage.figures(vec!["a".into()]).await.is_empty());
}
