// Command podresources prints the names of the pods that an agent lists on its pod-resources socket. Like upstream's own
// client and the device exporters that copied it, it dials the bare path of the socket, which grpc-go then sends
// percent-encoded as the authority of its requests.
//
//	podresources /var/lib/kubelet/pod-resources/kubelet.sock
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"sort"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: podresources SOCKET")
		os.Exit(2)
	}
	names, err := list(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "podresources:", err)
		os.Exit(1)
	}
	for _, name := range names {
		fmt.Println(name)
	}
}

func list(socket string) ([]string, error) {
	dial := func(ctx context.Context, path string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
	//nolint:staticcheck // grpc.NewClient would resolve the path as a host name; clients in the field use DialContext.
	connection, err := grpc.DialContext(context.Background(), socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(dial))
	if err != nil {
		return nil, err
	}
	defer connection.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	answer, err := podresources.NewPodResourcesListerClient(connection).List(ctx, &podresources.ListPodResourcesRequest{})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, pod := range answer.PodResources {
		names = append(names, pod.Namespace+"/"+pod.Name)
	}
	sort.Strings(names)
	return names, nil
}
