//go:build tools

// kubectl, pinned in go.mod and built by path. Apart from the control plane, so that neither is built
// again for the other.
package tools

import _ "k8s.io/kubernetes/cmd/kubectl"
