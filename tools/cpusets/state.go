package main

import (
	"fmt"
	"io"
	"math/rand"
	"os"
	"path/filepath"

	"github.com/go-logr/logr"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	"k8s.io/utils/cpuset"
)

func printState(out io.Writer, random *rand.Rand, index int) error {
	dir, err := os.MkdirTemp("", "cpusets")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	policy := []string{"static", "static", "none"}[random.Intn(3)]
	const name = "cpu_manager_state"
	stored, err := state.NewCheckpointState(logr.Discard(), dir, name, policy, containermap.NewContainerMap())
	if err != nil {
		return err
	}
	set := func() cpuset.CPUSet {
		var cpus []int
		for range random.Intn(12) {
			cpus = append(cpus, random.Intn(40))
		}
		return cpuset.New(cpus...)
	}
	if index > 0 {
		stored.SetDefaultCPUSet(set())
	}
	for range random.Intn(5) {
		pod := fmt.Sprintf("%08x-0000-4000-8000-%012x", random.Uint32(), random.Int63n(1<<48))
		for container := range 1 + random.Intn(3) {
			stored.SetCPUSet(pod, fmt.Sprintf("c%d", (container*7+random.Intn(3))%10), set())
		}
	}
	content, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s\n", content)
	return nil
}
