package main

import (
	"encoding/json"
	"io"
	"math/rand"

	cadvisorapi "github.com/google/cadvisor/info/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager/bitmask"
)

// hint is a mask (null: any node) and whether the hint is preferred.
type hint struct {
	Mask      *uint64 `json:"m"`
	Preferred bool    `json:"p"`
}

type merge struct {
	Nodes     []int               `json:"nodes"`
	Distances [][]uint64          `json:"distances,omitempty"`
	Policy    string              `json:"policy"`
	Closest   bool                `json:"closest"`
	Providers []map[string][]hint `json:"providers"`
	Result    hint                `json:"result"`
	Admitted  bool                `json:"admitted"`
}

// printMerge prints one merge of topology hints as a line of JSON.
func printMerge(out io.Writer, random *rand.Rand) error {
	count := 1 + random.Intn(8)
	m := merge{Closest: random.Intn(2) == 0, Policy: []string{"best-effort", "restricted", "single-numa-node"}[random.Intn(3)]}
	var machine []cadvisorapi.Node
	for node := range count {
		distances := make([]uint64, count)
		for other := range distances {
			distances[other] = []uint64{11, 12, 20, 21}[random.Intn(4)]
		}
		distances[node] = 10
		m.Nodes = append(m.Nodes, node)
		m.Distances = append(m.Distances, distances)
		machine = append(machine, cadvisorapi.Node{Id: node, Distances: distances})
	}
	options := topologymanager.PolicyOptions{PreferClosestNUMA: m.Closest, MaxAllowableNUMANodes: 8}
	info, err := topologymanager.NewNUMAInfo(machine, options)
	if err != nil {
		return err
	}
	var given []map[string][]topologymanager.TopologyHint
	names := []string{"cpu", "memory", "hugepages-2Mi", "example.com/gpu", "example.com/nic"}
	for range 1 + random.Intn(3) {
		hints, upstream := map[string][]hint{}, map[string][]topologymanager.TopologyHint{}
		for range random.Intn(3) {
			name := names[random.Intn(len(names))]
			hints[name], upstream[name] = someHints(random, count)
		}
		m.Providers = append(m.Providers, hints)
		given = append(given, upstream)
	}
	policies := map[string]func(*topologymanager.NUMAInfo, topologymanager.PolicyOptions) topologymanager.Policy{
		"best-effort":      topologymanager.NewBestEffortPolicy,
		"restricted":       topologymanager.NewRestrictedPolicy,
		"single-numa-node": topologymanager.NewSingleNumaNodePolicy,
	}
	best, admitted := policies[m.Policy](info, options).Merge(klog.Background(), given)
	m.Result, m.Admitted = shown(best), admitted
	return json.NewEncoder(out).Encode(m)
}

// someHints returns null for no preference, and sometimes an empty list, which means that no placement is possible.
func someHints(random *rand.Rand, nodes int) ([]hint, []topologymanager.TopologyHint) {
	if random.Intn(8) == 0 {
		return nil, nil
	}
	hints, upstream := []hint{}, []topologymanager.TopologyHint{}
	for range random.Intn(9) {
		given := topologymanager.TopologyHint{Preferred: random.Intn(3) != 0}
		if random.Intn(12) != 0 {
			given.NUMANodeAffinity = bitmask.NewEmptyBitMask()
			for given.NUMANodeAffinity.IsEmpty() || random.Intn(2) == 0 {
				_ = given.NUMANodeAffinity.Add(random.Intn(nodes))
			}
		}
		hints, upstream = append(hints, shown(given)), append(upstream, given)
	}
	return hints, upstream
}

func shown(given topologymanager.TopologyHint) hint {
	result := hint{Preferred: given.Preferred}
	if given.NUMANodeAffinity != nil {
		var mask uint64
		for _, bit := range given.NUMANodeAffinity.GetBits() {
			mask |= 1 << bit
		}
		result.Mask = &mask
	}
	return result
}
