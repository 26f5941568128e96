package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"reflect"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"
	"sigs.k8s.io/randfill"
)

const randomSource = "/etc/kubernetes/manifests/random.yaml"

// printRandom prints pods with every field filled at random, one per line: the UID, a tab, the v1 JSON. They make no
// sense as pods, are not defaulted, and reach every type of the schema.
func printRandom(count, seed string) error {
	pods, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	start, err := strconv.ParseInt(seed, 10, 64)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	for i := range int64(pods) {
		line, err := randomPod(start + i)
		if err != nil {
			return fmt.Errorf("seed %d: %w", start+i, err)
		}
		fmt.Fprintln(out, line)
	}
	return out.Flush()
}

func randomPod(seed int64) (string, error) {
	pod := &v1.Pod{}
	filler := randfill.New().RandSource(rand.NewSource(seed)).NilChance(0.6).NumElements(0, 2).MaxDepth(12).Funcs(
		func(quantity *resource.Quantity, c randfill.Continue) {
			texts := []string{"1", "0.5", "1500m", "64Mi", "1.5Gi", "1e3", "128974848", "0", "-2.25", "100k"}
			*quantity = resource.MustParse(texts[c.Intn(len(texts))])
		},
		func(port *intstr.IntOrString, c randfill.Continue) {
			if *port = intstr.FromInt32(c.Int31()); c.Bool() {
				*port = intstr.FromString(c.String(20))
			}
		},
		func(*metav1.Time, randfill.Continue) {},
		func(fields *[]metav1.ManagedFieldsEntry, _ randfill.Continue) { *fields = nil },
		func(kind *metav1.TypeMeta, _ randfill.Continue) { kind.APIVersion, kind.Kind = "v1", "Pod" },
	)
	filler.Fill(pod)
	pod.UID = ""
	// Through JSON, so that what the reader cannot see (a text that is not UTF-8) is not in the pod either.
	text, err := json.Marshal(pod)
	if err != nil {
		return "", err
	}
	if pod, err = decodeV1(text); err != nil {
		return "", err
	}
	object := tree(text).(map[string]any)
	restoreEmpty(reflect.ValueOf(pod).Elem(), object)
	if text, err = json.Marshal(object); err != nil {
		return "", err
	}
	roundUp(reflect.ValueOf(pod).Elem())
	internal := &core.Pod{}
	if err := legacyscheme.Scheme.Convert(pod, internal, nil); err != nil {
		return "", err
	}
	return uid(internal, goldenNode, randomSource) + "\t" + string(text), nil
}
