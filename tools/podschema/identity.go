package main

import (
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	"k8s.io/kubernetes/pkg/util/hash"
	"k8s.io/utils/dump"
)

func printUIDs(file, node string, sources []string) error {
	pod, err := decodeFile(file)
	if err != nil {
		return err
	}
	for _, source := range sources {
		fmt.Println(uid(pod, node, source))
	}
	return nil
}

func printDump(file string) error {
	pod, err := decodeFile(file)
	if err != nil {
		return err
	}
	fmt.Println(dump.ForHash(pod))
	return nil
}

// uid is what the kubelet's config package computes; `verify` holds it against that package.
func uid(pod *core.Pod, node, source string) string {
	hasher := fnv.New128a()
	hash.DeepHashObject(hasher, pod)
	if isURL(source) {
		fmt.Fprintf(hasher, "url:%s", source)
	} else {
		fmt.Fprintf(hasher, "host:%sfile:%s", node, source)
	}
	return hex.EncodeToString(hasher.Sum(nil))
}

func isURL(source string) bool {
	return strings.HasPrefix(source, "http://") || strings.HasPrefix(source, "https://")
}

func decodeFile(file string) (*core.Pod, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pod, err := decode(data)
	if err != nil {
		return nil, fmt.Errorf("decode %s: %w", file, err)
	}
	return pod, nil
}

// decode takes the kubelet's own way: to JSON, then defaulted and converted to the internal type in one step.
func decode(data []byte) (*core.Pod, error) {
	json, err := utilyaml.ToJSON(data)
	if err != nil {
		return nil, err
	}
	object, err := runtime.Decode(legacyscheme.Codecs.UniversalDecoder(), json)
	if err != nil {
		return nil, err
	}
	pod, ok := object.(*core.Pod)
	if !ok {
		return nil, fmt.Errorf("not a pod: %T", object)
	}
	return pod, nil
}
