use tokio::time::Instant;

/// Sleeps until the deadline; for ever without one. Made for `select!`, where a branch may have nothing to wait for.
pub async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waits_for_the_deadline_or_for_ever() {
        let started_at = Instant::now();
        sleep_until(Some(started_at + Duration::from_secs(3))).await;
        assert_eq!(started_at.elapsed(), Duration::from_secs(3));
        assert!(tokio::time::timeout(Duration::from_secs(3600), sleep_until(None)).await.is_err());
    }
}
