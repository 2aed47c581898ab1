// Modules of which only the definitions of custom resources are read.
module gpu-ledger.test/crds

go 1.26.0

require (
	github.com/kserve/kserve v0.17.0
	github.com/kubeflow/kubeflow/components/notebook-controller v0.0.0-20220728153354-fc09bd1eefb8
)
