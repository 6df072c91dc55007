package fleet

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"text/template"
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

const (
	jobLabel      = "batch.kubernetes.io/job-name" // label of pods with their Job's name
	containerName = "agent"                        // name of the container in each pod
	// podSilence is how long an agent waits for its controller before it ends. The controller comes
	// once all pods run.
	podSilence = podsTimeout + 2*time.Minute
)

// manifest is the template of a Job's YAML.
//
//go:embed manifest.yaml.tmpl
var manifest string

// Manifest returns the YAML of a Job of the given name.
func (k *Kubernetes) Manifest(name string) ([]byte, error) {
	if k.Agents < 1 {
		return nil, fmt.Errorf("fleet: %d agents: want 1 or more", k.Agents)
	}
	if k.Image == "" {
		return nil, errors.New("fleet: no image: want a container image whose entrypoint is tare")
	}
	quoted := func(text string) (string, error) {
		b, err := yaml.Marshal(text)
		return strings.TrimSpace(string(b)), err
	}
	t := template.Must(template.New("manifest").Funcs(template.FuncMap{"yaml": quoted}).Parse(manifest))
	var b bytes.Buffer
	err := t.Execute(&b, struct {
		*Kubernetes
		Name, JobLabel, Container string
		Silence                   time.Duration
	}{k, name, jobLabel, containerName, podSilence})
	if err != nil {
		return nil, fmt.Errorf("fleet: %w", err)
	}
	return b.Bytes(), nil
}
