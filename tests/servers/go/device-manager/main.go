// Command device-manager runs the kubelet's own device manager and pod-resources server, without the
// rest of a kubelet: the reference for tests of a device plugin.
//
// It reads one JSON command per line on standard input, and writes one JSON result per line. It listens
// at the kubelet's fixed places below /var/lib/kubelet; tests bind another folder there.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"sync"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
	podresourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubernetes/pkg/kubelet/apis/podresources"
	"k8s.io/kubernetes/pkg/kubelet/cm/containermap"
	"k8s.io/kubernetes/pkg/kubelet/cm/devicemanager"
	"k8s.io/kubernetes/pkg/kubelet/cm/topologymanager"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
)

const podResourcesSocket = "/var/lib/kubelet/pod-resources/kubelet.sock"

// node is what the servers know of pods: those that were admitted and not forgotten.
type node struct {
	sync.Mutex
	devices *devicemanager.ManagerImpl
	pods    []*v1.Pod
}

func (n *node) active() []*v1.Pod {
	n.Lock()
	defer n.Unlock()
	return append([]*v1.Pod{}, n.pods...)
}

func (n *node) GetActivePods() []*v1.Pod { return n.active() }
func (n *node) GetPods() []*v1.Pod       { return n.active() }

func (n *node) GetPodByName(namespace, name string) (*v1.Pod, bool) {
	for _, p := range n.active() {
		if p.Namespace == namespace && p.Name == name {
			return p, true
		}
	}
	return nil, false
}

func (n *node) UpdateAllocatedDevices(logger klog.Logger) { n.devices.UpdateAllocatedDevices(logger) }

func listed(found devicemanager.ResourceDeviceInstances) (all []*podresourcesapi.ContainerDevices) {
	for resource, instances := range found {
		for id := range instances {
			all = append(all, &podresourcesapi.ContainerDevices{ResourceName: resource, DeviceIds: []string{id}})
		}
	}
	return all
}

func (n *node) GetDevices(uid, container string) []*podresourcesapi.ContainerDevices {
	return listed(n.devices.GetDevices(uid, container))
}

func (n *node) GetAllocatableDevices(logger klog.Logger) []*podresourcesapi.ContainerDevices {
	return listed(n.devices.GetAllocatableDevices(logger))
}

type nothing struct{}

func (nothing) GetCPUs(*v1.Pod, *v1.Container) []int64 { return nil }
func (nothing) GetPodCPUs(string) []int64              { return nil }
func (nothing) GetAllocatableCPUs() []int64            { return nil }

func (nothing) GetMemory(klog.Logger, *v1.Pod, *v1.Container) []*podresourcesapi.ContainerMemory {
	return nil
}
func (nothing) GetPodMemory(klog.Logger, string) []*podresourcesapi.ContainerMemory { return nil }
func (nothing) GetAllocatableMemory(klog.Logger) []*podresourcesapi.ContainerMemory { return nil }

func (nothing) GetDynamicResources(klog.Logger, *v1.Pod, *v1.Container) []*podresourcesapi.DynamicResource {
	return nil
}

type command struct {
	Do  string  `json:"do"`
	Pod *v1.Pod `json:"pod,omitempty"`
	UID string  `json:"uid,omitempty"`
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "device-manager:", err)
		os.Exit(1)
	}
}

// admit allocates the devices of a pod's containers in the kubelet's order.
func (n *node) admit(ctx context.Context, pod *v1.Pod) any {
	n.Lock()
	n.pods = append(n.pods, pod)
	n.Unlock()
	result := map[string]any{}
	for _, containers := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			container := &containers[i]
			if err := n.devices.Allocate(ctx, pod, container, lifecycle.AddOperation); err != nil {
				n.forget(string(pod.UID))
				return map[string]any{"refused": err.Error(), "container": container.Name}
			}
			options, err := n.devices.GetDeviceRunContainerOptions(ctx, pod, container)
			if err != nil {
				return map[string]any{"refused": err.Error(), "container": container.Name}
			}
			ids := map[string][]string{}
			for resource, instances := range n.devices.GetDevices(string(pod.UID), container.Name) {
				for id := range instances {
					ids[resource] = append(ids[resource], id)
				}
			}
			result[container.Name] = map[string]any{"devices": ids, "options": options}
		}
	}
	return result
}

func (n *node) forget(uid string) {
	n.Lock()
	defer n.Unlock()
	kept := n.pods[:0]
	for _, p := range n.pods {
		if string(p.UID) != uid {
			kept = append(kept, p)
		}
	}
	n.pods = kept
}

func main() {
	ctx := context.Background()
	logger := klog.FromContext(ctx)
	check(os.MkdirAll(pluginapi.DevicePluginPath, 0o750))
	check(os.MkdirAll("/var/lib/kubelet/pod-resources", 0o750))
	devices, err := devicemanager.NewManagerImpl(logger, nil, topologymanager.NewFakeManager(logger))
	check(err)
	n := &node{devices: devices}
	ready := config.NewSourcesReady(func(sets.Set[string]) bool { return true })
	check(devices.Start(logger, n.active, ready, containermap.NewContainerMap(), sets.New[string]()))
	_ = os.Remove(podResourcesSocket)
	listener, err := net.Listen("unix", podResourcesSocket)
	check(err)
	server := grpc.NewServer()
	providers := podresources.PodResourcesProviders{
		Pods: n, Devices: n, Cpus: nothing{}, Memory: nothing{}, DynamicResources: nothing{},
	}
	podresourcesapi.RegisterPodResourcesListerServer(server, podresources.NewV1PodResourcesServer(ctx, providers))
	go func() { check(server.Serve(listener)) }()
	out := json.NewEncoder(os.Stdout)
	check(out.Encode(map[string]any{"ready": true}))
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var c command
		check(json.Unmarshal(lines.Bytes(), &c))
		var result any = map[string]any{}
		switch c.Do {
		case "capacity":
			capacity, allocatable, removed := devices.GetCapacity(logger)
			result = map[string]any{"capacity": capacity, "allocatable": allocatable, "removed": removed}
		case "admit":
			result = n.admit(ctx, c.Pod)
		case "known": // a pod that was admitted before a restart
			n.Lock()
			n.pods = append(n.pods, c.Pod)
			n.Unlock()
		case "forget":
			n.forget(c.UID)
			devices.UpdateAllocatedDevices(logger)
		}
		check(out.Encode(result))
	}
}
