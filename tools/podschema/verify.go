package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/capabilities"
	"k8s.io/kubernetes/pkg/kubelet/config"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"
)

type noObserver struct{}

func (noObserver) ObservedPodOnWatch(*v1.Pod, time.Time) {}

// verify runs the kubelet's file source on a copy of the manifests and compares the UIDs it gives with ours. A manifest that the
// kubelet refuses shows up as missing; those that it must refuse are called refused-*.
func verify(directory, node string) error {
	names, err := manifests(directory)
	if err != nil {
		return err
	}
	watched, err := os.MkdirTemp("", "podschema")
	if err != nil {
		return err
	}
	defer os.RemoveAll(watched)
	checked, missing := 0, map[string]string{}
	for _, name := range names {
		if strings.HasPrefix(name, "refused-") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(directory, name))
		if err != nil {
			return err
		}
		path := filepath.Join(watched, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return err
		}
		pod, err := decode(data)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		expected := string(pod.UID)
		if expected == "" {
			expected = uid(pod, node, path)
		}
		missing[expected] = name
		checked++
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	capabilities.Setup(true, 0) // the kubelet does; lets privileged pods pass
	pods := config.NewPodConfig(&record.FakeRecorder{}, noObserver{})
	channel := pods.Channel(ctx, kubetypes.FileSource)
	config.NewSourceFile(klog.Background(), watched, types.NodeName(node), time.Second, channel)
	for {
		select {
		case update := <-pods.Updates():
			for _, pod := range update.Pods {
				delete(missing, string(pod.UID))
			}
			if len(missing) == 0 {
				fmt.Printf("%d manifests: the kubelet gives the same UIDs\n", checked)
				return nil
			}
		case <-ctx.Done():
			return fmt.Errorf("the kubelet's file source gave no pod with the expected UID for: %v", missing)
		}
	}
}
