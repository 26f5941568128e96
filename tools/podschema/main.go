// Command podschema produces the data that podward's static pod identity is built from and checked against. It links
// the upstream kubelet's own packages, so everything it prints is what upstream computes.
//
//	podschema schema                      every type reachable from the internal Pod, for crates/manifest
//	podschema uid FILE NODE SOURCE...     the UID upstream gives the manifest (SOURCE: path, or http(s) URL)
//	podschema dump FILE                   the text that upstream hashes
//	podschema defaulted FILE              the manifest as v1 JSON after defaulting, quantities as written
//	podschema golden DIR                  writes NAME.defaulted.json and uids.txt beside the manifests in DIR
//	podschema quantities FILE             the internals of each quantity text in FILE, parsed and rounded up
//	podschema canonical FILE              the canonical form and value of each quantity text in FILE
//	podschema sums FILE                   the internals of the sum of each pair of quantity texts in FILE
//	podschema durations FILE              nanoseconds and printed form of each duration text in FILE
//	podschema random COUNT SEED           pods filled at random, with their UID
//	podschema messages                    the protobuf messages of v1.Pod, for crates/plugins
//	podschema encoded COUNT SEED          pods filled at random, with their protobuf message
//	podschema verify DIR NODE             compares `uid` with the kubelet's file source run on DIR
package main

import (
	"fmt"
	"os"
	"time"
)

func main() {
	_ = time.Now().String() // loads the local zone, which is part of a dumped time; a kubelet has loaded it to log
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "podschema:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	mode := ""
	if len(args) > 0 {
		mode, args = args[0], args[1:]
	}
	switch {
	case mode == "schema" && len(args) == 0:
		return printSchema(os.Stdout)
	case mode == "uid" && len(args) >= 3:
		return printUIDs(args[0], args[1], args[2:])
	case mode == "dump" && len(args) == 1:
		return printDump(args[0])
	case mode == "defaulted" && len(args) == 1:
		return printDefaulted(args[0])
	case mode == "golden" && len(args) == 1:
		return writeGolden(args[0])
	case mode == "quantities" && len(args) == 1:
		return printQuantities(args[0])
	case mode == "canonical" && len(args) == 1:
		return printCanonical(args[0])
	case mode == "sums" && len(args) == 1:
		return printSums(args[0])
	case mode == "durations" && len(args) == 1:
		return printDurations(args[0])
	case mode == "random" && len(args) == 2:
		return printRandom(args[0], args[1])
	case mode == "messages" && len(args) == 0:
		return printMessages(os.Stdout)
	case mode == "encoded" && len(args) == 2:
		return printEncoded(args[0], args[1])
	case mode == "verify" && len(args) == 2:
		return verify(args[0], args[1])
	}
	return fmt.Errorf("usage: podschema schema | uid FILE NODE SOURCE... | dump FILE | defaulted FILE | golden DIR | quantities FILE | canonical FILE | sums FILE | durations FILE | random COUNT SEED | messages | encoded COUNT SEED | verify DIR NODE")
}
