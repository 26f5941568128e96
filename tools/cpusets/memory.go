package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
	"os"
	"path/filepath"
	"sort"

	"github.com/go-logr/logr"
	cadvisorapi "github.com/google/cadvisor/info/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager/bitmask"
)

type memoryNode struct {
	ID        int               `json:"id"`
	Memory    uint64            `json:"memory"`
	HugePages map[string]uint64 `json:"huge"`
}

type memoryContainer struct {
	Name     string            `json:"name"`
	Kind     string            `json:"kind"`
	Requests map[string]uint64 `json:"requests"`
	Hints    map[string][]hint `json:"hints"`
	Given    hint              `json:"given"`
	Error    string            `json:"error,omitempty"`
}

type memoryStep struct {
	Remove     string            `json:"remove,omitempty"`
	Pod        string            `json:"pod,omitempty"`
	PodHints   map[string][]hint `json:"podHints,omitempty"`
	Containers []memoryContainer `json:"containers,omitempty"`
}

type memoryScenario struct {
	Nodes    []memoryNode              `json:"nodes"`
	Reserved map[int]map[string]uint64 `json:"reserved"`
	Steps    []memoryStep              `json:"steps"`
	File     string                    `json:"file"`
}

const mebibyte = 1 << 20

// printMemory prints one scenario of the memory manager as a line of JSON: allocations and releases, with the hints
// before each allocation and the state file at the end.
func printMemory(out io.Writer, random *rand.Rand) error {
	scenario := memoryScenario{Reserved: map[int]map[string]uint64{}}
	machine := &cadvisorapi.MachineInfo{}
	reserved := map[int]map[v1.ResourceName]uint64{}
	hasHugePages := random.Intn(2) == 0
	for id := range []int{1, 2, 2, 3, 4, 5, 6, 8}[random.Intn(8)] {
		node := memoryNode{ID: id, Memory: uint64(1024+random.Intn(8)*128) * mebibyte, HugePages: map[string]uint64{}}
		found := cadvisorapi.Node{Id: id, Memory: node.Memory}
		if hasHugePages {
			for _, size := range []uint64{2048, 1 << 20}[:1+random.Intn(2)] {
				pages := uint64(random.Intn(3)) * 64 * 2048 / size
				found.HugePages = append(found.HugePages, cadvisorapi.HugePagesInfo{PageSize: size, NumPages: pages})
				name := "hugepages-" + resource.NewQuantity(int64(size)*1024, resource.BinarySI).String()
				node.HugePages[name] = pages * size * 1024
			}
		}
		machine.Topology = append(machine.Topology, found)
		scenario.Nodes = append(scenario.Nodes, node)
		amount := uint64(random.Intn(3)*64) * mebibyte
		if id == 0 {
			amount += 64 * mebibyte
		}
		scenario.Reserved[id] = map[string]uint64{"memory": amount}
		reserved[id] = map[v1.ResourceName]uint64{v1.ResourceMemory: amount}
	}
	folder, err := os.MkdirTemp("", "memory")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	const name = "memory_manager_state"
	stored, err := state.NewCheckpointState(logr.Discard(), folder, name, "Static")
	if err != nil {
		return err
	}
	store := &affinities{}
	policy, err := memorymanager.NewPolicyStatic(logr.Discard(), machine, reserved, store)
	if err != nil {
		return err
	}
	if err := policy.Start(logr.Discard(), stored); err != nil {
		return err
	}
	var pods []*v1.Pod
	remove := func(pod *v1.Pod) {
		for _, c := range containers(pod) {
			policy.RemoveContainer(logr.Discard(), stored, string(pod.UID), c.container.Name)
		}
	}
	for number := range 3 + random.Intn(8) {
		if random.Intn(4) == 0 && len(pods) > 0 {
			chosen := random.Intn(len(pods))
			scenario.Steps = append(scenario.Steps, memoryStep{Remove: string(pods[chosen].UID)})
			remove(pods[chosen])
			pods = append(pods[:chosen], pods[chosen+1:]...)
			continue
		}
		pod := newMemoryPod(random, number, hasHugePages)
		step := memoryStep{Pod: string(pod.UID), PodHints: shownHints(policy.GetPodTopologyHints(logr.Discard(), stored, pod))}
		failed := false
		for _, c := range containers(pod) {
			own := memoryContainer{Name: c.container.Name, Kind: c.label[:1], Requests: map[string]uint64{}}
			for name, amount := range c.container.Resources.Requests {
				if name != v1.ResourceCPU {
					own.Requests[string(name)] = uint64(amount.Value())
				}
			}
			if !failed {
				hints := policy.GetTopologyHints(logr.Discard(), stored, pod, c.container)
				own.Hints = shownHints(hints)
				given := givenHint(random, hints, len(scenario.Nodes))
				store.mask, store.preferred = given.NUMANodeAffinity, given.Preferred
				own.Given = shown(given)
				if err := policy.Allocate(logr.Discard(), stored, pod, c.container); err != nil {
					own.Error = err.Error()
					failed = true
				}
			}
			step.Containers = append(step.Containers, own)
		}
		scenario.Steps = append(scenario.Steps, step)
		if failed {
			remove(pod)
		} else {
			pods = append(pods, pod)
		}
	}
	content, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		return err
	}
	scenario.File = string(content)
	return json.NewEncoder(out).Encode(scenario)
}

func newMemoryPod(random *rand.Rand, number int, hasHugePages bool) *v1.Pod {
	pod := newPod(number)
	kinds := []string{"r"}
	if random.Intn(3) == 0 {
		kinds = []string{"i", "s", "i", "r", "r"}[random.Intn(4):]
	}
	for _, kind := range kinds {
		add(pod, kind, 1)
	}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for index := range list {
			resources := list[index].Resources.Requests
			size := int64(64+random.Intn(16)*64) * mebibyte
			if random.Intn(6) == 0 {
				size *= 3
			}
			resources[v1.ResourceMemory] = *resource.NewQuantity(size, resource.BinarySI)
			if hasHugePages && random.Intn(3) == 0 {
				resources["hugepages-2Mi"] = *resource.NewQuantity(int64(1+random.Intn(4))*32*mebibyte, resource.BinarySI)
			}
			list[index].Resources.Limits = resources
		}
	}
	return pod
}

// givenHint is what the topology manager stored: nothing, one of the policy's hints, or some other nodes.
func givenHint(random *rand.Rand, hints map[string][]topologymanager.TopologyHint, nodes int) topologymanager.TopologyHint {
	own := hints["memory"]
	switch random.Intn(5) {
	case 0, 1:
		return topologymanager.TopologyHint{Preferred: random.Intn(4) == 0}
	case 2:
		given := topologymanager.TopologyHint{NUMANodeAffinity: bitmask.NewEmptyBitMask(), Preferred: random.Intn(2) == 0}
		_ = given.NUMANodeAffinity.Add(random.Intn(nodes))
		return given
	}
	if len(own) == 0 {
		return topologymanager.TopologyHint{}
	}
	return own[random.Intn(len(own))]
}

func shownHints(hints map[string][]topologymanager.TopologyHint) map[string][]hint {
	if hints == nil {
		return nil
	}
	result := map[string][]hint{}
	for name, list := range hints {
		result[name] = []hint{}
		for _, given := range list {
			result[name] = append(result[name], shown(given))
		}
		own := result[name]
		sort.Slice(own, func(i, j int) bool { return fmt.Sprint(*own[i].Mask) < fmt.Sprint(*own[j].Mask) })
	}
	return result
}
