use serde_json::json;

use super::*;

#[test]
fn describes_pod_as_kubectl() {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "web-node-a", "namespace": "default", "uid": "u", "labels": {"app": "web", "tier": "front"}},
        "spec": {
            "nodeName": "node-a",
            "containers": [{
                "name": "main", "image": "app:1", "args": ["serve", "--port=80"],
                "ports": [{"containerPort": 80, "hostPort": 8080}],
                "resources": {"limits": {"memory": "64Mi"}},
                "readinessProbe": {"httpGet": {"port": 80, "path": "/ready"}, "periodSeconds": 1},
                "env": [{"name": "MODE", "value": "x"},
                    {"name": "WORD", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "password"}}}],
                "volumeMounts": [{"name": "data", "mountPath": "/data", "readOnly": true}],
            }],
            "volumes": [{"name": "data", "emptyDir": {}}, {"name": "host", "hostPath": {"path": "/srv"}}],
            "tolerations": [{"operator": "Exists"}],
        },
        "status": {
            "phase": "Running", "podIP": "10.0.0.2", "podIPs": [{"ip": "10.0.0.2"}], "hostIP": "192.0.2.7",
            "startTime": "2026-01-01T00:00:00Z", "qosClass": "Burstable",
            "conditions": [{"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "containers with unready status: [main]"}],
            "containerStatuses": [{
                "name": "main", "image": "app:1", "imageID": "sha256:1", "containerID": "containerd://c", "ready": false, "restartCount": 2,
                "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 20s"}},
                "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled",
                    "startedAt": "2026-01-01T00:00:01Z", "finishedAt": "2026-01-01T00:00:02Z"}},
            }],
        },
    }))
    .unwrap();
    let event: Event = serde_json::from_value(json!({"metadata": {}, "involvedObject": {}, "type": "Warning",
        "reason": "BackOff", "message": "Back-off restarting", "lastTimestamp": "2026-01-01T00:01:00Z", "source": {"component": "kubelet"}}))
    .unwrap();
    let output = text(&pod, &[event], Timestamp::from_secs(1_767_225_670));
    let expected = "\
Name:             web-node-a
Namespace:        default
Priority:         0
Service Account:  <none>
Node:             node-a/192.0.2.7
Start Time:       2026-01-01T00:00:00Z
Labels:           app=web
                  tier=front
Annotations:      <none>
Status:           Running (CrashLoopBackOff)
IP:               10.0.0.2
IPs:
  IP:               10.0.0.2
Containers:
  main:
    Container ID:     containerd://c
    Image:            app:1
    Image ID:         sha256:1
    Ports:            80/TCP (host 8080)
    Args:             serve
                      --port=80
    State:            Waiting
      Reason:           CrashLoopBackOff
      Message:          back-off 20s
    Last State:       Terminated
      Reason:           OOMKilled
      Exit Code:        137
      Started:          2026-01-01T00:00:01Z
      Finished:         2026-01-01T00:00:02Z
    Ready:            False
    Restart Count:    2
    Limits:
      memory:           64Mi
    Readiness:        http-get http://:80/ready delay=0s timeout=1s period=1s #success=1 #failure=3
    Environment:
      MODE:             x
      WORD:             <set to the key 'password' in secret 'keys'>
    Mounts:           /data from data (ro)
Conditions:
  Type    Status   Reason               Message
  Ready   False    ContainersNotReady   containers with unready status: [main]
Volumes:
  data:
    Type:             EmptyDir (a temporary directory that shares a pod's lifetime)
    Medium:
    SizeLimit:        <unset>
  host:
    Type:             HostPath (bare host directory volume)
    Path:             /srv
    HostPathType:
QoS Class:        Burstable
Node-Selectors:   <none>
Tolerations:      op=Exists
Events:
  Type      Reason    Age    From      Message
  ----      ------    ----   ----      -------
  Warning   BackOff   10s    kubelet   Back-off restarting
";
    assert_eq!(output, expected);
}
