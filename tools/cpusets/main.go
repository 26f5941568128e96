// Command cpusets prints choices of the upstream kubelet's CPU manager, against which podward's are checked. It drives
// the exported API of upstream's packages, so every line is what upstream computes.
//
//	cpusets choices COUNT SEED   COUNT scenarios: a machine, options, and a sequence of allocations and releases
//	cpusets states COUNT SEED    COUNT state files, one per line
//	cpusets hints COUNT SEED     COUNT merges of topology hints, one per line, in JSON
//	cpusets memory COUNT SEED    COUNT scenarios of the memory manager, one per line, in JSON
//	cpusets devices COUNT SEED   COUNT checkpoints of the device manager, one per line
//	cpusets claims COUNT SEED    COUNT checkpoints of prepared claims (dynamic resource allocation), one per line
//	cpusets pods COUNT SEED      COUNT scenarios of pods with pod-level resources, one per line, in JSON
//
// Lines of a scenario:
//
//	T sockets=N cores=N cpus=N   counts, as the machine reports them
//	N id=CPUS id=CPUS            NUMA nodes
//	S id=CPUS                    sockets
//	U id=CPUS                    uncore caches
//	C CPUS CPUS                  cores
//	P reserved=N cpus=CPUS OPTION,OPTION   the policy; then "= RESERVED" or "! ERROR"
//	A pod KIND:N@NODES ...       a pod is admitted; KIND is i (init), s (sidecar), r (regular); @NODES is the affinity;
//	                             then "= CPUS CPUS" or "! ERROR"; "? CPUS" marks a choice of CPUs that were not free
//	R pod                        a pod is removed
//	H pod N                      hints for a container with N CPUs, "+" marks preferred ones
//	D CPUS                       the shared pool
package main

import (
	"bufio"
	"fmt"
	"math/rand"
	"os"
	"strconv"

	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "cpusets:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("usage: cpusets choices|states|hints|memory|devices|claims|pods COUNT SEED")
	}
	count, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	seed, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil {
		return err
	}
	gates := "CPUManagerPolicyAlphaOptions=true"
	if args[0] == "pods" {
		gates += ",PodLevelResourceManagers=true"
	}
	if err := utilfeature.DefaultMutableFeatureGate.Set(gates); err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	random := rand.New(rand.NewSource(seed))
	for index := range count {
		switch args[0] {
		case "choices":
			printScenario(out, random, index)
		case "hints":
			if err := printMerge(out, random); err != nil {
				return err
			}
		case "devices":
			if err := printDevices(out, random); err != nil {
				return err
			}
		case "claims":
			if err := printClaims(out, random); err != nil {
				return err
			}
		case "pods":
			if err := printPods(out, random); err != nil {
				return err
			}
		case "memory":
			if err := printMemory(out, random); err != nil {
				return err
			}
		case "states":
			if err := printState(out, random, index); err != nil {
				return err
			}
		default:
			return fmt.Errorf("unknown mode %q", args[0])
		}
	}
	return nil
}
