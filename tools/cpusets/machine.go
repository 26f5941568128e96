package main

import (
	"fmt"
	"io"
	"math/rand"
	"sort"

	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/topology"
	"k8s.io/utils/cpuset"
)

// machine builds a topology at random. Most are regular; some have cores of different sizes, offline CPUs, sockets that
// contain several NUMA nodes, or NUMA nodes that contain several sockets.
func machine(random *rand.Rand, index int) *topology.CPUTopology {
	numas := []int{1, 1, 2, 2, 4, 4, 8, 3, 6, 5, 7}[random.Intn(11)]
	nodesPerSocket, socketsPerNode := 1, 1
	switch random.Intn(5) {
	case 0, 1:
		nodesPerSocket = []int{2, 4, numas}[random.Intn(3)]
	case 2:
		socketsPerNode = 2
	}
	cores := 1 + random.Intn(8)
	if numas > 4 {
		cores = 1 + random.Intn(5)
	}
	cores *= socketsPerNode
	smt := []int{1, 2, 2, 2, 4}[random.Intn(5)]
	perCache := []int{0, 0, 1, 2, 3, 4}[random.Intn(6)]
	hybrid, offline := random.Intn(6) == 0, random.Intn(6) == 0
	interleaved := random.Intn(3) == 0
	adjacent := random.Intn(2) == 0

	type slot struct{ numa, socket, core, cache, thread int }
	var slots []slot
	for core := range cores {
		for numa := range numas {
			threads := smt
			if hybrid && core >= cores/2 {
				threads = 1
			}
			socket := numa / nodesPerSocket
			if socketsPerNode > 1 {
				socket = numa*socketsPerNode + core*socketsPerNode/cores
			}
			cache := socket
			if perCache > 0 {
				cache = numa*((cores+perCache-1)/perCache) + core/perCache
			}
			for thread := range threads {
				slots = append(slots, slot{numa, socket, numa*cores + core, cache, thread})
			}
		}
	}
	// The order of the slots is the numbering of the CPUs.
	sort.SliceStable(slots, func(i, j int) bool {
		a, b := slots[i], slots[j]
		if !adjacent && a.thread != b.thread {
			return a.thread < b.thread
		}
		if !interleaved && a.numa != b.numa {
			return a.numa < b.numa
		}
		if adjacent && a.core != b.core {
			return a.core%cores < b.core%cores || (a.core%cores == b.core%cores && a.core < b.core)
		}
		return false
	})
	details := topology.CPUDetails{}
	lowest := map[int]int{}
	for cpu, s := range slots {
		if offline && random.Intn(8) == 0 && len(slots) > 2 {
			continue
		}
		if _, ok := lowest[s.core]; !ok {
			lowest[s.core] = cpu
		}
		details[cpu] = topology.CPUInfo{NUMANodeID: s.numa, SocketID: s.socket, CoreID: lowest[s.core], UncoreCacheID: s.cache}
	}
	result := &topology.CPUTopology{
		NumCPUs:        len(details),
		NumCores:       len(lowest),
		NumUncoreCache: details.UncoreCaches().Size(),
		NumSockets:     details.Sockets().Size(),
		NumNUMANodes:   details.NUMANodes().Size(),
		CPUDetails:     details,
	}
	if index%50 == 49 {
		result.NumSockets = 1 // a virtual machine whose /proc/cpuinfo hides the sockets
	}
	return result
}

func printMachine(out io.Writer, topo *topology.CPUTopology) {
	details := topo.CPUDetails
	fmt.Fprintf(out, "T sockets=%d cores=%d cpus=%d\n", topo.NumSockets, topo.NumCores, topo.NumCPUs)
	groups := func(letter string, ids cpuset.CPUSet, cpus func(...int) cpuset.CPUSet) {
		fmt.Fprint(out, letter)
		for _, id := range ids.List() {
			fmt.Fprintf(out, " %d=%s", id, cpus(id))
		}
		fmt.Fprintln(out)
	}
	groups("N", details.NUMANodes(), details.CPUsInNUMANodes)
	groups("S", details.Sockets(), details.CPUsInSockets)
	groups("U", details.UncoreCaches(), details.CPUsInUncoreCaches)
	fmt.Fprint(out, "C")
	for _, core := range details.Cores().List() {
		fmt.Fprintf(out, " %s", details.CPUsInCores(core))
	}
	fmt.Fprintln(out)
}
