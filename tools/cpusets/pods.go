package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	cadvisorapi "github.com/google/cadvisor/info/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	cpustate "k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/topology"
	"k8s.io/kubernetes/pkg/kubelet/cm/memorymanager"
	memorystate "k8s.io/kubernetes/pkg/kubelet/cm/memorymanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager/bitmask"
	"k8s.io/utils/cpuset"
)

// podScenario is a machine and a sequence of pods with pod-level resources (gate PodLevelResourceManagers, pod scope).
type podScenario struct {
	Sockets  int                       `json:"sockets"`
	Cores    int                       `json:"cores"`
	CPUs     [][5]int                  `json:"cpus"` // CPU, NUMA node, socket, core, uncore cache
	Options  []string                  `json:"options"`
	Reserved int                       `json:"reserved"`
	Nodes    []memoryNode              `json:"nodes"`
	Memory   map[int]map[string]uint64 `json:"memory"`
	Steps    []podStep                 `json:"steps"`
	CPUFile  string                    `json:"cpuFile"`
	MemFile  string                    `json:"memoryFile"`
}

type podStep struct {
	Remove      string            `json:"remove,omitempty"`
	Pod         string            `json:"pod,omitempty"`
	Requests    map[string]uint64 `json:"requests,omitempty"`
	Containers  []podContainer    `json:"containers,omitempty"`
	CPUHints    map[string][]hint `json:"cpuHints,omitempty"`
	MemoryHints map[string][]hint `json:"memoryHints,omitempty"`
	Given       hint              `json:"given"`
	CPUError    string            `json:"cpuError,omitempty"`
	MemoryError string            `json:"memoryError,omitempty"`
}

// podContainer has requests that equal its limits, or none.
type podContainer struct {
	Name     string            `json:"name"`
	Kind     string            `json:"kind"`
	Requests map[string]uint64 `json:"requests"`
}

var podOptionSets = [][]string{
	{}, {}, {"full-pcpus-only"}, {"distribute-cpus-across-numa"}, {"distribute-cpus-across-cores"},
	{"prefer-align-cpus-by-uncorecache"}, {"strict-cpu-reservation"},
}

type podMachine struct {
	topo         *topology.CPUTopology
	cpus         cpumanager.Policy
	cpuState     cpustate.State
	memory       memorymanager.Policy
	memoryState  memorystate.State
	store        *affinities
	folder       string
	hasHugePages bool
}

// printPods prints one scenario as a line of JSON. Scenarios in which upstream hands out CPUs that are not free, or does
// not return, are left out.
func printPods(out io.Writer, random *rand.Rand) error {
	for {
		scenario, isUsable, err := podScenarioOf(random)
		if err != nil {
			return err
		}
		if isUsable {
			return json.NewEncoder(out).Encode(scenario)
		}
	}
}

func podScenarioOf(random *rand.Rand) (*podScenario, bool, error) {
	topo := machine(random, 0)
	if !topo.CPUDetails.NUMANodes().Contains(0) {
		return nil, false, nil
	}
	scenario := &podScenario{
		Sockets: topo.NumSockets, Cores: topo.NumCores, Reserved: 1 + random.Intn(min(2, len(topo.CPUDetails))),
		Options: podOptionSets[random.Intn(len(podOptionSets))], Memory: map[int]map[string]uint64{},
	}
	for _, cpu := range topo.CPUDetails.CPUs().List() {
		at := topo.CPUDetails[cpu]
		scenario.CPUs = append(scenario.CPUs, [5]int{cpu, at.NUMANodeID, at.SocketID, at.CoreID, at.UncoreCacheID})
	}
	m := &podMachine{topo: topo, store: &affinities{}, hasHugePages: random.Intn(3) == 0}
	folder, err := os.MkdirTemp("", "pods")
	if err != nil {
		return nil, false, err
	}
	defer os.RemoveAll(folder)
	m.folder = folder
	if err := m.startCPUs(scenario); err != nil {
		return scenario, false, nil
	}
	if err := m.startMemory(random, scenario); err != nil {
		return nil, false, err
	}
	var pods []*v1.Pod
	for number := range 2 + random.Intn(7) {
		if random.Intn(4) == 0 && len(pods) > 0 {
			chosen := random.Intn(len(pods))
			scenario.Steps = append(scenario.Steps, podStep{Remove: string(pods[chosen].UID)})
			m.remove(pods[chosen])
			pods = append(pods[:chosen], pods[chosen+1:]...)
			continue
		}
		pod := m.newPod(random, number)
		step, isUsable := m.allocate(random, pod)
		if !isUsable {
			return scenario, false, nil
		}
		scenario.Steps = append(scenario.Steps, step)
		if step.CPUError+step.MemoryError == "" {
			pods = append(pods, pod)
		}
	}
	cpuFile, err := os.ReadFile(filepath.Join(folder, "cpu_manager_state"))
	if err != nil {
		return nil, false, err
	}
	memoryFile, err := os.ReadFile(filepath.Join(folder, "memory_manager_state"))
	scenario.CPUFile, scenario.MemFile = string(cpuFile), string(memoryFile)
	return scenario, true, err
}

func (m *podMachine) startCPUs(scenario *podScenario) error {
	enabled := map[string]string{}
	for _, option := range scenario.Options {
		enabled[option] = "true"
	}
	var err error
	m.cpus, err = cpumanager.NewStaticPolicy(logr.Discard(), m.topo, scenario.Reserved, cpuset.New(), m.store, enabled)
	if err != nil {
		return err
	}
	m.cpuState, err = cpustate.NewCheckpointState(logr.Discard(), m.folder, "cpu_manager_state", "static", containermap.NewContainerMap())
	if err != nil {
		return err
	}
	return m.cpus.Start(logr.Discard(), m.cpuState)
}

func (m *podMachine) startMemory(random *rand.Rand, scenario *podScenario) error {
	info := &cadvisorapi.MachineInfo{}
	reserved := map[int]map[v1.ResourceName]uint64{}
	for index, id := range m.topo.CPUDetails.NUMANodes().List() {
		node := memoryNode{ID: id, Memory: uint64(1024+random.Intn(8)*128) * mebibyte, HugePages: map[string]uint64{}}
		found := cadvisorapi.Node{Id: id, Memory: node.Memory}
		if m.hasHugePages {
			pages := uint64(random.Intn(3)) * 64
			found.HugePages = append(found.HugePages, cadvisorapi.HugePagesInfo{PageSize: 2048, NumPages: pages})
			node.HugePages["hugepages-2Mi"] = pages * 2 * mebibyte
		}
		info.Topology = append(info.Topology, found)
		scenario.Nodes = append(scenario.Nodes, node)
		if index == 0 {
			scenario.Memory[id] = map[string]uint64{"memory": 64 * mebibyte}
			reserved[id] = map[v1.ResourceName]uint64{v1.ResourceMemory: 64 * mebibyte}
		}
	}
	var err error
	m.memoryState, err = memorystate.NewCheckpointState(logr.Discard(), m.folder, "memory_manager_state", "Static")
	if err != nil {
		return err
	}
	m.memory, err = memorymanager.NewPolicyStatic(logr.Discard(), info, reserved, m.store)
	if err != nil {
		return err
	}
	return m.memory.Start(logr.Discard(), m.memoryState)
}

func (m *podMachine) newPod(random *rand.Rand, number int) *v1.Pod {
	pod := newPod(number)
	free := m.free().Size()
	total := 1 + random.Intn(max(1, free/2+1))
	if random.Intn(8) == 0 {
		total = free + random.Intn(2)
	}
	memory := (1 + random.Intn(16)) * 64 // MiB
	huge := 0
	if m.hasHugePages && random.Intn(2) == 0 {
		huge = (1 + random.Intn(3)) * 32
	}
	leftCPUs, leftMemory := total, memory
	if random.Intn(4) != 0 {
		leftCPUs, leftMemory = total-1, memory-64
	}
	for _, kind := range []string{"i", "s", "i", "r", "r", "r"}[random.Intn(6):] {
		// Some containers have no resources of their own. What the others have together must fit.
		wanted, size := 1+random.Intn(max(1, total/2)), 64*(1+random.Intn(max(1, memory/128)))
		switch {
		case random.Intn(3) == 0 || wanted > leftCPUs || size > leftMemory:
			addShared(pod, kind)
			continue
		case random.Intn(6) == 0:
			wanted, size = leftCPUs, leftMemory
		}
		add(pod, kind, max(1, wanted))
		if kind != "i" {
			leftCPUs -= wanted
			leftMemory -= size
		}
		setMemory(pod, kind, size)
	}
	requests := v1.ResourceList{
		v1.ResourceCPU:    *resource.NewQuantity(int64(total), resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(int64(memory)*mebibyte, resource.BinarySI),
	}
	if random.Intn(12) == 0 {
		requests[v1.ResourceCPU] = *resource.NewMilliQuantity(int64(total)*1000+500, resource.DecimalSI)
	}
	if huge > 0 {
		requests["hugepages-2Mi"] = *resource.NewQuantity(int64(huge)*mebibyte, resource.BinarySI)
	}
	pod.Spec.Resources = &v1.ResourceRequirements{Requests: requests, Limits: requests}
	return pod
}

func addShared(pod *v1.Pod, kind string) {
	add(pod, kind, 1)
	last(pod, kind).Resources = v1.ResourceRequirements{}
}

func setMemory(pod *v1.Pod, kind string, size int) {
	resources := last(pod, kind).Resources
	resources.Requests[v1.ResourceMemory] = *resource.NewQuantity(int64(size)*mebibyte, resource.BinarySI)
	resources.Limits[v1.ResourceMemory] = resources.Requests[v1.ResourceMemory]
}

func last(pod *v1.Pod, kind string) *v1.Container {
	if kind == "r" {
		return &pod.Spec.Containers[len(pod.Spec.Containers)-1]
	}
	return &pod.Spec.InitContainers[len(pod.Spec.InitContainers)-1]
}

func (m *podMachine) free() cpuset.CPUSet {
	return m.cpuState.GetDefaultCPUSet().Intersection(m.cpus.GetAllocatableCPUs(m.cpuState))
}

// allocate returns false if the choice of upstream is not valid.
func (m *podMachine) allocate(random *rand.Rand, pod *v1.Pod) (podStep, bool) {
	step := podStep{Pod: string(pod.UID), Requests: amounts(pod.Spec.Resources.Requests)}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for index := range list {
			own := &list[index]
			step.Containers = append(step.Containers, podContainer{own.Name, own.Name[:1], amounts(own.Resources.Requests)})
		}
	}
	cpuHints := m.cpus.GetPodTopologyHints(logr.Discard(), m.cpuState, pod)
	memoryHints := m.memory.GetPodTopologyHints(logr.Discard(), m.memoryState, pod)
	step.CPUHints, step.MemoryHints = shownHints(cpuHints), shownHints(memoryHints)
	given := givenHint(random, memoryHints, 1)
	if random.Intn(3) == 0 {
		nodes := m.topo.CPUDetails.NUMANodes().List()
		random.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
		given.NUMANodeAffinity, _ = bitmask.NewBitMask(nodes[:1+random.Intn(len(nodes))]...)
	}
	m.store.mask, m.store.preferred, step.Given = given.NUMANodeAffinity, given.Preferred, shown(given)
	free := m.free()
	done := make(chan error, 1)
	go func() { done <- m.cpus.AllocatePod(logr.Discard(), m.cpuState, pod) }()
	select {
	case err := <-done:
		if err != nil {
			step.CPUError = err.Error()
			m.remove(pod)
			_, isLeft := m.cpuState.GetPodCPUSet(string(pod.UID))
			return step, !isLeft
		}
	case <-time.After(20 * time.Second):
		fmt.Fprintln(os.Stderr, "cpusets: upstream does not return, scenario left out")
		return step, false
	}
	if !m.isValid(pod, free) {
		return step, false
	}
	if err := m.memory.AllocatePod(logr.Discard(), m.memoryState, pod); err != nil {
		step.MemoryError = err.Error()
		m.remove(pod)
	}
	return step, true
}

// isValid is false if a CPU was not free, or if two containers that run at the same time have it.
func (m *podMachine) isValid(pod *v1.Pod, free cpuset.CPUSet) bool {
	own, hasOwn := m.cpuState.GetPodCPUSet(string(pod.UID))
	if !hasOwn {
		return true
	}
	if !own.IsSubsetOf(free) || int64(own.Size()) != pod.Spec.Resources.Requests.Cpu().Value() {
		return false
	}
	taken := cpuset.New()
	for _, c := range containers(pod) {
		cpus, _ := m.cpuState.GetCPUSet(string(pod.UID), c.container.Name)
		if !cpus.IsSubsetOf(own) {
			return false
		}
		if c.count == 0 || c.label[:1] == "i" {
			continue
		}
		if cpus.Size() != c.count || !cpus.Intersection(taken).IsEmpty() {
			return false
		}
		taken = taken.Union(cpus)
	}
	return true
}

func (m *podMachine) remove(pod *v1.Pod) {
	for _, c := range containers(pod) {
		if err := m.cpus.RemoveContainer(logr.Discard(), m.cpuState, string(pod.UID), c.container.Name); err != nil {
			panic(err)
		}
		m.memory.RemoveContainer(logr.Discard(), m.memoryState, string(pod.UID), c.container.Name)
	}
}

func amounts(list v1.ResourceList) map[string]uint64 {
	result := map[string]uint64{}
	for name, amount := range list {
		if name == v1.ResourceCPU {
			result[string(name)] = uint64(amount.MilliValue())
		} else {
			result[string(name)] = uint64(amount.Value())
		}
	}
	return result
}
