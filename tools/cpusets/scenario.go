package main

import (
	"fmt"
	"io"
	"math/rand"
	"os"
	"sort"
	"strings"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/topology"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager/bitmask"
	"k8s.io/utils/cpuset"
)

var optionSets = [][]string{
	{}, {}, {"full-pcpus-only"}, {"distribute-cpus-across-numa"}, {"distribute-cpus-across-numa"},
	{"distribute-cpus-across-numa", "full-pcpus-only"}, {"distribute-cpus-across-cores"},
	{"prefer-align-cpus-by-uncorecache"}, {"prefer-align-cpus-by-uncorecache"},
	{"full-pcpus-only", "prefer-align-cpus-by-uncorecache"}, {"align-by-socket"},
	{"align-by-socket", "distribute-cpus-across-numa"}, {"strict-cpu-reservation"},
	{"full-pcpus-only", "strict-cpu-reservation"}, {"align-by-socket", "full-pcpus-only"},
}

// affinities is the topology manager: it stores the affinity that the scenario wants.
type affinities struct {
	mask      bitmask.BitMask
	preferred bool
}

func (a *affinities) GetAffinity(podUID, containerName string) topologymanager.TopologyHint {
	return topologymanager.TopologyHint{NUMANodeAffinity: a.mask, Preferred: a.preferred}
}

func (a *affinities) Name() string { return "scenario" }

func (a *affinities) GetPolicy() topologymanager.Policy { return topologymanager.NewNonePolicy() }

type scenario struct {
	out    io.Writer
	random *rand.Rand
	topo   *topology.CPUTopology
	policy cpumanager.Policy
	store  *affinities
	state  state.State
	pods   []*v1.Pod
	// Requests are multiples of the cores' size, mostly.
	wholeCores bool
}

func printScenario(out io.Writer, random *rand.Rand, index int) {
	topo := machine(random, index)
	printMachine(out, topo)
	options := optionSets[random.Intn(len(optionSets))]
	reserved := 1 + random.Intn(min(3, len(topo.CPUDetails)))
	specific := cpuset.New()
	if random.Intn(3) == 0 {
		cpus := topo.CPUDetails.CPUs().List()
		random.Shuffle(len(cpus), func(i, j int) { cpus[i], cpus[j] = cpus[j], cpus[i] })
		specific = cpuset.New(cpus[:reserved]...)
	}
	fmt.Fprintf(out, "P reserved=%d cpus=%s %s", reserved, specific, strings.Join(options, ","))
	enabled := map[string]string{}
	for _, option := range options {
		enabled[option] = "true"
	}
	store := &affinities{}
	policy, err := cpumanager.NewStaticPolicy(logr.Discard(), topo, reserved, specific, store, enabled)
	if err != nil {
		fmt.Fprintf(out, " ! %s\n", err)
		return
	}
	s := &scenario{out: out, random: random, topo: topo, policy: policy, store: store, state: state.NewMemoryState(logr.Discard()), wholeCores: enabled["full-pcpus-only"] != ""}
	fmt.Fprintf(out, " = %s\n", topo.CPUDetails.CPUs().Difference(policy.GetAllocatableCPUs(s.state)))
	if err := policy.Start(logr.Discard(), s.state); err != nil {
		panic(err)
	}
	for step := range 3 + random.Intn(10) {
		if !s.step(step) {
			return
		}
	}
	fmt.Fprintf(out, "D %s\n", s.state.GetDefaultCPUSet())
}

// step prints one step; false ends the scenario.
func (s *scenario) step(number int) bool {
	switch kind := s.random.Intn(8); {
	case kind == 0 && len(s.pods) > 0:
		chosen := s.random.Intn(len(s.pods))
		pod := s.pods[chosen]
		s.pods = append(s.pods[:chosen], s.pods[chosen+1:]...)
		fmt.Fprintf(s.out, "R %s\n", pod.UID)
		s.remove(pod)
	case kind == 1 && s.topo.NumNUMANodes <= 4:
		pod := newPod(number)
		count := 1 + s.random.Intn(max(1, len(s.topo.CPUDetails)/2))
		add(pod, "r", count)
		fmt.Fprintf(s.out, "H %s %d =", pod.UID, count)
		hints := s.policy.GetTopologyHints(logr.Discard(), s.state, pod, &pod.Spec.Containers[0])
		for _, hint := range hints["cpu"] {
			mark := ""
			if hint.Preferred {
				mark = "+"
			}
			fmt.Fprintf(s.out, " %s%s", cpuset.New(hint.NUMANodeAffinity.GetBits()...), mark)
		}
		fmt.Fprintln(s.out)
	default:
		return s.allocate(number)
	}
	return true
}

func (s *scenario) allocate(number int) bool {
	pod := newPod(number)
	free := s.policy.GetAllocatableCPUs(s.state).Intersection(s.state.GetDefaultCPUSet()).Size()
	size := func(largest int) int {
		count := 1 + s.random.Intn(max(1, largest))
		if s.wholeCores && s.random.Intn(6) != 0 {
			perCore := max(1, s.topo.CPUsPerCore())
			count = (count + perCore - 1) / perCore * perCore
		}
		return count
	}
	if s.random.Intn(5) == 0 {
		for _, kind := range []string{"i", "s", "i", "r", "r"} {
			if s.random.Intn(2) == 0 {
				add(pod, kind, size(free/3))
			}
		}
	}
	if len(pod.Spec.InitContainers)+len(pod.Spec.Containers) == 0 {
		count := size(free/3 + 1)
		if s.random.Intn(4) == 0 {
			count = size(free)
		}
		if s.random.Intn(20) == 0 {
			count = free + 1
		}
		add(pod, "r", count)
	}
	s.store.mask = nil
	affinity := ""
	if s.random.Intn(4) == 0 {
		nodes := s.topo.CPUDetails.NUMANodes().List()
		s.random.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
		nodes = nodes[:1+s.random.Intn(len(nodes))]
		s.store.mask, _ = bitmask.NewBitMask(nodes...)
		affinity = "@" + cpuset.New(nodes...).String()
	}
	line := fmt.Sprintf("A %s", pod.UID)
	var chosen []string
	mark := "="
	for _, c := range containers(pod) {
		line += fmt.Sprintf(" %s%s", c.label, affinity)
	}
	for _, c := range containers(pod) {
		pool := s.pool(pod)
		err, finished := s.call(pod, c.container)
		if !finished {
			return false
		}
		if err != nil {
			fmt.Fprintf(s.out, "%s ! %s\n", line, err)
			s.remove(pod)
			return true
		}
		cpus, _ := s.state.GetCPUSet(string(pod.UID), c.container.Name)
		if !cpus.IsSubsetOf(pool) || cpus.Size() != c.count {
			mark = "?"
		}
		chosen = append(chosen, cpus.String())
	}
	fmt.Fprintf(s.out, "%s %s %s\n", line, mark, strings.Join(chosen, " "))
	s.pods = append(s.pods, pod)
	// What upstream does after it gave away a CPU that was not free is of no interest.
	return mark == "="
}

// call gives up on requests that upstream never finishes: a rest of whole cores that no subset of NUMA nodes can provide.
func (s *scenario) call(pod *v1.Pod, container *v1.Container) (error, bool) {
	done := make(chan error, 1)
	go func() { done <- s.policy.Allocate(logr.Discard(), s.state, pod, container) }()
	select {
	case err := <-done:
		return err, true
	case <-time.After(20 * time.Second):
		fmt.Fprintln(os.Stderr, "cpusets: upstream does not return, scenario ended")
		return nil, false
	}
}

// pool is what a container of the pod may get: free CPUs, and those of the pod's init containers.
func (s *scenario) pool(pod *v1.Pod) cpuset.CPUSet {
	pool := s.state.GetDefaultCPUSet().Intersection(s.policy.GetAllocatableCPUs(s.state))
	for _, container := range pod.Spec.InitContainers {
		if cpus, ok := s.state.GetCPUSet(string(pod.UID), container.Name); ok && container.RestartPolicy == nil {
			pool = pool.Union(cpus)
		}
	}
	for _, c := range containers(pod) {
		if cpus, ok := s.state.GetCPUSet(string(pod.UID), c.container.Name); ok && !strings.HasPrefix(c.label, "i") {
			pool = pool.Difference(cpus)
		}
	}
	return pool
}

func (s *scenario) remove(pod *v1.Pod) {
	var names []string
	for name := range s.state.GetCPUAssignments()[string(pod.UID)] {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if err := s.policy.RemoveContainer(logr.Discard(), s.state, string(pod.UID), name); err != nil {
			panic(err)
		}
	}
}

func newPod(number int) *v1.Pod {
	name := fmt.Sprintf("p%d", number)
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
}

type entry struct {
	container *v1.Container
	label     string
	count     int
}

func add(pod *v1.Pod, kind string, count int) {
	resources := v1.ResourceList{
		v1.ResourceCPU:    *resource.NewQuantity(int64(count), resource.DecimalSI),
		v1.ResourceMemory: resource.MustParse("1Mi"),
	}
	name := fmt.Sprintf("%s%d", kind, len(pod.Spec.InitContainers)+len(pod.Spec.Containers))
	container := v1.Container{Name: name, Resources: v1.ResourceRequirements{Requests: resources, Limits: resources}}
	switch kind {
	case "r":
		pod.Spec.Containers = append(pod.Spec.Containers, container)
		return
	case "s":
		always := v1.ContainerRestartPolicyAlways
		container.RestartPolicy = &always
	}
	pod.Spec.InitContainers = append(pod.Spec.InitContainers, container)
}

func containers(pod *v1.Pod) []entry {
	var all []entry
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for index := range list {
			container := &list[index]
			count := int(container.Resources.Requests.Cpu().Value())
			all = append(all, entry{container, fmt.Sprintf("%s:%d", container.Name[:1], count), count})
		}
	}
	return all
}
