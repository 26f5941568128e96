use k8s_openapi::api::core::v1::{ContainerStatus, PodStatus};

/// The ID (`runtime://id`) of the container whose log is shown: the running one, or else the last one that exited; with
/// `previous` the one before the current one.
///
/// # Errors
/// Upstream's message when there is none.
pub fn choose_container(pod: &str, status: &PodStatus, name: &str, previous: bool) -> Result<String, String> {
    let status =
        find(status, name).ok_or_else(|| format!("container {name:?} in pod {pod:?} is not available"))?;
    let last = status.last_state.as_ref().and_then(|state| state.terminated.as_ref());
    let last_id = last.and_then(|ended| ended.container_id.clone()).filter(|id| !id.is_empty());
    if previous {
        let missing = || format!("previous terminated container {name:?} in pod {pod:?} not found");
        return last_id.ok_or_else(missing);
    }
    let state = status.state.clone().unwrap_or_default();
    let ended = || format!("container {name:?} in pod {pod:?} is terminated");
    if state.running.is_some() {
        return Ok(status.container_id.clone().unwrap_or_default());
    }
    if let Some(terminated) = state.terminated {
        return terminated.container_id.filter(|id| !id.is_empty()).or(last_id).ok_or_else(ended);
    }
    if last.is_some() {
        return last_id.ok_or_else(ended);
    }
    let waiting = format!("container {name:?} in pod {pod:?} is waiting to start");
    let Some(state) = state.waiting else { return Err(format!("{waiting} - no logs yet")) };
    Err(match state.reason.as_deref().unwrap_or_default() {
        "ErrImagePull" => format!("{waiting}: image can't be pulled"),
        "ImagePullBackOff" => format!("{waiting}: trying and failing to pull image"),
        reason => format!("{waiting}: {reason}"),
    })
}

fn find<'a>(status: &'a PodStatus, name: &str) -> Option<&'a ContainerStatus> {
    let lists =
        [&status.container_statuses, &status.init_container_statuses, &status.ephemeral_container_statuses];
    lists.into_iter().flatten().flatten().find(|status| status.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn check(container: &Value, previous: bool, expected: Result<&str, &str>) {
        let status = serde_json::from_value(json!({"containerStatuses": [container]})).unwrap();
        let found = choose_container("web", &status, "main", previous);
        assert_eq!(found, expected.map(str::to_owned).map_err(str::to_owned));
    }

    fn container(state: &Value, last: &Value) -> Value {
        json!({"name": "main", "image": "", "imageID": "", "ready": true, "restartCount": 0,
               "containerID": "c://now", "state": state, "lastState": last})
    }

    #[test]
    fn chooses_running_or_last_container() {
        let ended = |id: &str| json!({"terminated": {"exitCode": 1, "containerID": id}});
        let running = json!({"running": {}});
        let never = json!({});
        let waiting = |reason: &str| json!({"waiting": {"reason": reason}});
        check(&container(&running, &never), false, Ok("c://now"));
        check(&container(&running, &ended("c://old")), true, Ok("c://old"));
        check(&container(&ended("c://end"), &never), false, Ok("c://end"));
        check(&container(&ended(""), &ended("c://old")), false, Ok("c://old"));
        check(&container(&waiting("CrashLoopBackOff"), &ended("c://old")), false, Ok("c://old"));
        check(
            &container(&running, &never),
            true,
            Err("previous terminated container \"main\" in pod \"web\" not found"),
        );
        check(&container(&ended(""), &never), false, Err("container \"main\" in pod \"web\" is terminated"));
        check(
            &container(&waiting("ErrImagePull"), &never),
            false,
            Err("container \"main\" in pod \"web\" is waiting to start: image can't be pulled"),
        );
        check(
            &container(&waiting("ContainerCreating"), &never),
            false,
            Err("container \"main\" in pod \"web\" is waiting to start: ContainerCreating"),
        );
    }

    #[test]
    fn container_without_status_has_no_log() {
        let found = choose_container("web", &PodStatus::default(), "main", false);
        assert_eq!(found, Err("container \"main\" in pod \"web\" is not available".to_owned()));
    }
}
