package main

import (
	"fmt"
	"io"
	"math/rand"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager/checkpoint"
	"k8s.io/kubernetes/pkg/kubelet/cm/dra/state"
)

// printDevices prints one checkpoint of the device manager per line.
func printDevices(out io.Writer, random *rand.Rand) error {
	var entries []checkpoint.PodDevicesEntry
	for pod := range random.Intn(4) {
		for container := range random.Intn(3) {
			devices := checkpoint.NewDevicesPerNUMA()
			for range random.Intn(3) {
				node := int64(random.Intn(3)) - 1
				devices[node] = append(devices[node], fmt.Sprintf("dev-%d<&>", random.Intn(100)))
			}
			response := make([]byte, random.Intn(40))
			random.Read(response)
			entries = append(entries, checkpoint.PodDevicesEntry{
				PodUID:        fmt.Sprintf("pod-%d", pod),
				ContainerName: fmt.Sprintf("container-%d", container),
				ResourceName:  fmt.Sprintf("example.com/r%d", random.Intn(3)),
				DeviceIDs:     devices,
				AllocResp:     response,
			})
		}
	}
	registered := map[string][]string{}
	for name := range random.Intn(4) {
		ids := []string{}
		for id := range random.Intn(5) {
			ids = append(ids, fmt.Sprintf("dev-%d", id))
		}
		registered[fmt.Sprintf("example.com/r%d", name)] = ids
	}
	content, err := checkpoint.New(entries, registered).MarshalCheckpoint()
	if err == nil {
		fmt.Fprintf(out, "%s\n", content)
	}
	return err
}

// printClaims prints one checkpoint of the claims of dynamic resource allocation per line.
func printClaims(out io.Writer, random *rand.Rand) error {
	var claims state.ClaimInfoStateList
	for claim := range random.Intn(4) {
		found := state.ClaimInfoState{
			ClaimUID:    types.UID(fmt.Sprintf("claim-uid-%d", claim)),
			ClaimName:   fmt.Sprintf("claim-%d", claim),
			Namespace:   "default",
			PodUIDs:     sets.New[string](),
			DriverState: map[string]state.DriverState{},
		}
		for range random.Intn(3) {
			found.PodUIDs.Insert(fmt.Sprintf("pod-%d", random.Intn(10)))
		}
		for driver := range random.Intn(3) {
			var own state.DriverState
			for device := range random.Intn(3) {
				prepared := state.Device{PoolName: "pool", DeviceName: fmt.Sprintf("device-%d", device)}
				if random.Intn(3) == 0 {
					share := types.UID(fmt.Sprintf("share-%d", device))
					prepared.ShareID = &share
				}
				for request := range random.Intn(3) {
					prepared.RequestNames = append(prepared.RequestNames, fmt.Sprintf("req/sub-%d", request))
					prepared.CDIDeviceIDs = append(prepared.CDIDeviceIDs, fmt.Sprintf("example.com/gpu=%d", request))
				}
				own.Devices = append(own.Devices, prepared)
			}
			found.DriverState[fmt.Sprintf("driver-%d.example.com", driver)] = own
		}
		claims = append(claims, found)
	}
	written, err := state.NewCheckpoint(claims)
	if err != nil {
		return err
	}
	content, err := written.MarshalCheckpoint()
	if err == nil {
		fmt.Fprintf(out, "%s\n", content)
	}
	return err
}
