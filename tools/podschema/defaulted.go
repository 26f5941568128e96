package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1 "k8s.io/kubernetes/pkg/apis/core/v1"
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
// an empty list (nil when read back) and the spelling of a quantity (0.5 is not 500m inside). So those are put back, and
// the result, which is not defaulted again but for the rounding of resources, must be the same internal pod.
func defaulted(data []byte) ([]byte, error) {
	written, err := utilyaml.ToJSON(data)
	if err != nil {
		return nil, err
	}
	pod, err := decodeV1(written)
	if err != nil {
		return nil, err
	}
	legacyscheme.Scheme.Default(pod)
	marshalled, err := json.Marshal(pod)
	if err != nil {
		return nil, err
	}
	merged := tree(marshalled).(map[string]any)
	restoreEmpty(reflect.ValueOf(pod).Elem(), merged)
	restoreQuantities(tree(written), merged)
	text, err := json.MarshalIndent(merged, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(text, '\n'), sameInternalPod(data, text)
}

func sameInternalPod(data, text []byte) error {
	before, err := decode(data)
	if err != nil {
		return err
	}
	pod, err := decodeV1(text)
	if err != nil {
		return err
	}
	roundUp(reflect.ValueOf(pod).Elem())
	after := &core.Pod{}
	if err := legacyscheme.Scheme.Convert(pod, after, nil); err != nil {
		return err
	}
	if was, is := dump.ForHash(before), dump.ForHash(after); was != is {
		return fmt.Errorf("the defaulted JSON decodes to another pod: %s", difference(was, is))
	}
	return nil
}

func decodeV1(text []byte) (*v1.Pod, error) {
	object, err := runtime.Decode(legacyscheme.Codecs.UniversalDeserializer(), text)
	if err != nil {
		return nil, err
	}
	pod, ok := object.(*v1.Pod)
	if !ok {
		return nil, fmt.Errorf("not a pod: %T", object)
	}
	return pod, nil
}

// roundUp rounds every resource list of the value, as defaulting does.
func roundUp(value reflect.Value) {
	switch value.Kind() {
	case reflect.Pointer:
		if !value.IsNil() {
			roundUp(value.Elem())
		}
	case reflect.Slice:
		for i := 0; i < value.Len(); i++ {
			roundUp(value.Index(i))
		}
	case reflect.Struct:
		for i := 0; i < value.NumField(); i++ {
			roundUp(value.Field(i))
		}
	case reflect.Map:
		if list, ok := value.Interface().(v1.ResourceList); ok {
			corev1.SetDefaults_ResourceList(&list)
		}
	}
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

// restoreEmpty puts the lists and maps that are empty but set into the JSON of a struct, and takes out what marshalling
// writes although it is not set.
func restoreEmpty(value reflect.Value, object map[string]any) {
	for i := 0; i < value.NumField(); i++ {
		field, tag := value.Field(i), value.Type().Field(i).Tag.Get("json")
		name := strings.Split(tag, ",")[0]
		pointer := field.Kind() == reflect.Pointer
		if pointer {
			field = field.Elem()
		}
		switch {
		case name == "" && field.Kind() == reflect.Struct:
			restoreEmpty(field, object)
		case field.Kind() == reflect.Map && !field.IsNil() && field.Len() == 0:
			object[name] = map[string]any{}
		case field.Kind() == reflect.Slice && !field.IsNil():
			list, ok := object[name].([]any)
			if !ok {
				object[name] = []any{}
			}
			for j := range list {
				if inner, ok := list[j].(map[string]any); ok && field.Index(j).Kind() == reflect.Struct {
					restoreEmpty(field.Index(j), inner)
				}
			}
		case field.Kind() == reflect.Struct:
			if inner, ok := object[name].(map[string]any); ok {
				restoreEmpty(field, inner)
			}
			if !pointer && field.IsZero() {
				delete(object, name)
			}
		}
	}
}

// restoreQuantities gives quantities the text they were written in.
func restoreQuantities(written, marshalled any) {
	switch is := marshalled.(type) {
	case map[string]any:
		was, _ := written.(map[string]any)
		for key, value := range is {
			if text, ok := sameQuantity(was[key], value); ok {
				is[key] = text
			} else {
				restoreQuantities(was[key], value)
			}
		}
		copyLimits(was, is)
	case []any:
		was, ok := written.([]any)
		for i := range is {
			if ok && i < len(was) {
				restoreQuantities(was[i], is[i])
			}
		}
	}
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
		if limit, ok := sameQuantity(limits[name], request); ok {
			requests[name] = limit
		}
	}
}

// sameQuantity gives the written text of a quantity if defaulting and marshalling made the other text of it.
func sameQuantity(written, marshalled any) (string, bool) {
	canonical, ok := marshalled.(string)
	if !ok {
		return "", false
	}
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
	is, err := resource.ParseQuantity(canonical)
	if err != nil {
		return "", false
	}
	if was.Cmp(is) == 0 {
		return text, true
	}
	was.RoundUp(resource.Milli) // done by defaulting in resource lists; whoever reads the text rounds it again
	return text, was.Cmp(is) == 0
}
