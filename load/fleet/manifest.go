package fleet

import (
	"fmt"
	"time"

	"github.com/goccy/go-yaml"
)

// Kubernetes describes a Job whose pods are agents. Only Agents and Image are required.
type Kubernetes struct {
	Agents    int
	Context   string // of kubectl's configuration; empty means the current one
	Namespace string // empty means the context's
	// Image is a container image whose entrypoint is tare.
	Image        string
	NodeSelector map[string]string // labels of the nodes to use
	// Requests and Limits are the resources of each pod, such as cpu: "2" and memory: 1Gi.
	Requests, Limits map[string]string
}

// The parts of a Job that tare uses, as in the API batch/v1.
type (
	jobManifest struct {
		APIVersion string   `yaml:"apiVersion"`
		Kind       string   `yaml:"kind"`
		Metadata   metadata `yaml:"metadata"`
		Spec       jobSpec  `yaml:"spec"`
	}
	metadata struct {
		Name      string            `yaml:"name,omitempty"`
		Namespace string            `yaml:"namespace,omitempty"`
		Labels    map[string]string `yaml:"labels,omitempty"`
	}
	jobSpec struct {
		CompletionMode string      `yaml:"completionMode"`
		Completions    int         `yaml:"completions"`
		Parallelism    int         `yaml:"parallelism"`
		BackoffLimit   int         `yaml:"backoffLimit"`
		PerIndex       int         `yaml:"backoffLimitPerIndex"`
		TTL            int         `yaml:"ttlSecondsAfterFinished"`
		Template       podTemplate `yaml:"template"`
	}
	podTemplate struct {
		Metadata metadata `yaml:"metadata"`
		Spec     podSpec  `yaml:"spec"`
	}
	podSpec struct {
		RestartPolicy string            `yaml:"restartPolicy"`
		GracePeriod   int               `yaml:"terminationGracePeriodSeconds"`
		MountToken    bool              `yaml:"automountServiceAccountToken"`
		NodeSelector  map[string]string `yaml:"nodeSelector,omitempty"`
		Spread        []spread          `yaml:"topologySpreadConstraints"`
		Containers    []container       `yaml:"containers"`
	}
	spread struct {
		MaxSkew           int           `yaml:"maxSkew"`
		TopologyKey       string        `yaml:"topologyKey"`
		WhenUnsatisfiable string        `yaml:"whenUnsatisfiable"`
		Selector          labelSelector `yaml:"labelSelector"`
	}
	labelSelector struct {
		MatchLabels map[string]string `yaml:"matchLabels"`
	}
	container struct {
		Name      string    `yaml:"name"`
		Image     string    `yaml:"image"`
		Args      []string  `yaml:"args"`
		Stdin     bool      `yaml:"stdin"`
		StdinOnce bool      `yaml:"stdinOnce"`
		Resources resources `yaml:"resources,omitempty"`
	}
	resources struct {
		Requests map[string]string `yaml:"requests,omitempty"`
		Limits   map[string]string `yaml:"limits,omitempty"`
	}
)

const (
	// jobLabel is the label of a Job's pods that holds the Job's name.
	jobLabel = "batch.kubernetes.io/job-name"
	// containerName is the name of the container in each pod.
	containerName = "agent"
	// jobTTL is the number of seconds after which Kubernetes deletes a finished Job.
	jobTTL = 60
	// podSilence is how long an agent waits for its controller before it ends. The controller comes
	// once all pods run.
	podSilence = podsTimeout + 2*time.Minute
	// podGrace is the number of seconds that a pod may take to end.
	podGrace = 5
)

// Manifest returns the YAML of a Job of the given name.
func (k *Kubernetes) Manifest(name string) ([]byte, error) {
	if k.Agents < 1 {
		return nil, fmt.Errorf("fleet: %d agents: want 1 or more", k.Agents)
	}
	if k.Image == "" {
		return nil, fmt.Errorf("fleet: no image: want a container image whose entrypoint is tare")
	}
	labels := map[string]string{jobLabel: name}
	b, err := yaml.Marshal(jobManifest{
		APIVersion: "batch/v1", Kind: "Job",
		Metadata: metadata{Name: name, Namespace: k.Namespace,
			Labels: map[string]string{"app.kubernetes.io/name": "tare"}},
		// A pod that fails is not replaced, and does not end the others.
		Spec: jobSpec{CompletionMode: "Indexed", Completions: k.Agents, Parallelism: k.Agents, TTL: jobTTL,
			BackoffLimit: k.Agents, PerIndex: 0,
			Template: podTemplate{
				Metadata: metadata{Labels: map[string]string{"app.kubernetes.io/name": "tare"}},
				Spec: podSpec{
					RestartPolicy: "Never", GracePeriod: podGrace, NodeSelector: k.NodeSelector,
					Spread: []spread{{1, "kubernetes.io/hostname", "ScheduleAnyway", labelSelector{labels}}},
					Containers: []container{{Name: containerName, Image: k.Image,
						Args: []string{"agent", "--silence", podSilence.String()}, Stdin: true, StdinOnce: true,
						Resources: resources{k.Requests, k.Limits}}},
				}}},
	})
	if err != nil {
		return nil, fmt.Errorf("fleet: %w", err)
	}
	return b, nil
}
