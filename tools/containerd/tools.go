//go:build tools

// Package tools pins the newer containerd that the scenarios drive beside Debian's; build.sh one folder up builds it.
package tools

import (
	_ "github.com/containerd/containerd/v2/cmd/containerd"
	_ "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"
	_ "github.com/containerd/containerd/v2/cmd/ctr"
)
