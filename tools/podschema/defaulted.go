package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/utils/dump"
)

func printDefaulted(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text, err := defaulted(data)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	_, err = os.Stdout.Write(text)
	return err
}

// defaulted gives the manifest as v1 JSON after defaulting. Marshalling alone would lose what the identity depends on:
// an empty list (nil when read back) and the spelling of a quantity (0.5 is not 500m inside). So the values of the
// manifest are kept where they mean the same, and the result must decode to the same internal pod.
func defaulted(data []byte) ([]byte, error) {
	written, err := utilyaml.ToJSON(data)
	if err != nil {
		return nil, err
	}
	object, err := runtime.Decode(legacyscheme.Codecs.UniversalDeserializer(), written)
	if err != nil {
		return nil, err
	}
	pod, ok := object.(*v1.Pod)
	if !ok {
		return nil, fmt.Errorf("not a pod: %T", object)
	}
	legacyscheme.Scheme.Default(pod)
	marshalled, err := json.Marshal(pod)
	if err != nil {
		return nil, err
	}
	merged := merge(tree(written), tree(marshalled))
	text, err := json.MarshalIndent(merged, "", "  ")
	if err != nil {
		return nil, err
	}
	before, err := decode(data)
	if err != nil {
		return nil, err
	}
	after, err := decode(text)
	if err != nil {
		return nil, err
	}
	if was, is := dump.ForHash(before), dump.ForHash(after); was != is {
		return nil, fmt.Errorf("the defaulted JSON decodes to another pod: %s", difference(was, is))
	}
	return append(text, '\n'), nil
}

// difference shows where two texts part.
func difference(a, b string) string {
	at := 0
	for at < len(a) && at < len(b) && a[at] == b[at] {
		at++
	}
	from := max(0, at-60)
	return fmt.Sprintf("...%.160s... became ...%.160s...", a[from:], b[from:])
}

func tree(text []byte) any {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		panic(err) // both texts were decoded before
	}
	return value
}

// merge keeps of the written value what marshalling the defaulted one loses.
func merge(written, marshalled any) any {
	switch is := marshalled.(type) {
	case map[string]any:
		was, ok := written.(map[string]any)
		if !ok {
			was = map[string]any{}
		}
		return mergeObjects(was, is)
	case []any:
		was, ok := written.([]any)
		if !ok || len(was) != len(is) {
			return is
		}
		for i := range is {
			is[i] = merge(was[i], is[i])
		}
		return is
	case string:
		if text, ok := sameQuantity(written, is); ok {
			return text
		}
	}
	return marshalled
}

func mergeObjects(written, marshalled map[string]any) map[string]any {
	for key, is := range marshalled {
		if was, ok := written[key]; ok {
			marshalled[key] = merge(was, is)
		} else if is == nil || key == "status" && isEmpty(is) || key == "divisor" && is == "0" {
			// Marshalling writes these even when they are not set; an unset divisor is not a written zero.
			delete(marshalled, key)
		} else {
			marshalled[key] = merge(nil, is)
		}
	}
	for key, was := range written {
		if _, ok := marshalled[key]; !ok && isEmpty(was) {
			marshalled[key] = was
		}
	}
	copyLimits(written, marshalled)
	return marshalled
}

// copyLimits gives a request that defaulting took from a limit that limit's spelling.
func copyLimits(written, marshalled map[string]any) {
	limits, _ := marshalled["limits"].(map[string]any)
	requests, _ := marshalled["requests"].(map[string]any)
	wrote, _ := written["requests"].(map[string]any)
	for name, request := range requests {
		if _, ok := wrote[name]; ok {
			continue
		}
		if text, ok := request.(string); ok {
			if limit, ok := sameQuantity(limits[name], text); ok {
				requests[name] = limit
			}
		}
	}
}

func isEmpty(value any) bool {
	switch value := value.(type) {
	case map[string]any:
		return len(value) == 0
	case []any:
		return len(value) == 0
	}
	return false
}

// sameQuantity gives the written text of a quantity if defaulting and marshalling made the other text of it.
func sameQuantity(written any, marshalled string) (string, bool) {
	text := ""
	switch written := written.(type) {
	case string:
		text = written
	case json.Number:
		text = written.String()
	default:
		return "", false
	}
	was, err := resource.ParseQuantity(text)
	if err != nil {
		return "", false
	}
	is, err := resource.ParseQuantity(marshalled)
	if err != nil {
		return "", false
	}
	if was.Cmp(is) == 0 {
		return text, true
	}
	was.RoundUp(resource.Milli) // done by defaulting in resource lists; whoever reads the text rounds it again
	return text, was.Cmp(is) == 0
}
