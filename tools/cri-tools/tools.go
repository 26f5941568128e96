//go:build tools

// Package tools pins the CRI command-line client and the CRI conformance suite; build.sh one folder up builds them.
package tools

import (
	_ "sigs.k8s.io/cri-tools/cmd/crictl"
	_ "sigs.k8s.io/cri-tools/cmd/critest"
)
