package fleet_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
	"github.com/tarehq/tare/load/fleet"
)

// kubectlScript responds as kubectl does, from files, and attaches to local agents. A real cluster
// is too large for these tests; what it reports is recorded here.
const kubectlScript = `#!/bin/sh
echo "$@" >>"$CLUSTER/log"
while test "$1" = --context || test "$1" = --namespace; do shift 2; done
case "$1 $2" in
"create -f") cat >"$CLUSTER/job.yaml"; if test -e "$CLUSTER/refusal"; then cat "$CLUSTER/refusal" >&2; exit 1; fi ;;
"get pods") cat "$CLUSTER/pods" ;;
"get pod") cat "$CLUSTER/pod" ;;
"attach --stdin") exec "$AGENT" agent ;;
"delete job") rm "$CLUSTER/job.yaml" ;;
*) echo "unexpected: $*" >&2; exit 1 ;;
esac
`

// cluster puts the script into PATH and returns the folder of its files.
func cluster(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	own, err := os.Executable()
	testkit.Must(t, err)
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "kubectl"), []byte(kubectlScript), 0o755))
	t.Setenv("CLUSTER", dir)
	t.Setenv("AGENT", own)
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return dir
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
}

// podJSON is a pod as the API reports it.
func podJSON(name, phase, more, state string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q},"status":{"phase":%q%s,"containerStatuses":[{"name":"agent","state":%s}]}}`,
		name, phase, more, state)
}

const runningState = `{"running":{"startedAt":"2026-01-01T00:00:00Z"}}`

func TestJobRunsAPlan(t *testing.T) {
	testkit.Long(t, "it starts agents")
	dir := cluster(t)
	put(t, dir, "pods", `{"items":[`+podJSON("p0", "Running", "", runningState)+","+
		podJSON("p1", "Running", "", runningState)+`]}`)
	k := fleet.Kubernetes{Agents: 2, Image: "i", Context: "c", Namespace: "n"}
	job, err := fleet.StartJob(context.Background(), k, nil)
	testkit.Must(t, err)
	f, err := fleet.Open(context.Background(), job.Hosts(), fleet.Options{})
	testkit.Must(t, err)
	url, _ := server(t)
	r, err := f.Run(context.Background(), load.Plan{URL: url, Connections: 4, Requests: 100})
	if err != nil || r.Requests != 100 || r.Parts[1].Name != "p1" {
		t.Errorf("%+v, %v", r, err)
	}
	f.Close()
	if err := job.Delete(); err != nil {
		t.Error(err)
	}
	log, err := os.ReadFile(filepath.Join(dir, "log"))
	testkit.Must(t, err)
	for line := range strings.Lines(string(log)) {
		if !strings.HasPrefix(line, "--context c --namespace n ") {
			t.Errorf("another cluster: %s", line)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "job.yaml")); !os.IsNotExist(err) {
		t.Errorf("the job is left: %v", err)
	}
}

// Each thing that can go wrong has a sentence, and no job stays.
func TestJobFailuresAreExplained(t *testing.T) {
	waiting := func(reason, message string) string {
		return fmt.Sprintf(`{"waiting":{"reason":%q,"message":%q}}`, reason, message)
	}
	for name, test := range map[string]struct{ refusal, pod, want string }{
		"not permitted": {`Error from server (Forbidden): jobs.batch is forbidden: User "u" cannot create resource "jobs"`, "",
			"not permitted: Error from server (Forbidden)"},
		"unreachable": {"The connection to the server 10.0.0.9:6443 was refused", "", "10.0.0.9:6443 was refused"},
		"image not found": {"", podJSON("p", "Pending", "", waiting("ImagePullBackOff", `Back-off pulling image "i"`)),
			`pod p, image i: ImagePullBackOff: Back-off pulling image "i"`},
		"invalid image": {"", podJSON("p", "Pending", "", waiting("InvalidImageName", "")), "InvalidImageName"},
		"no tare in it": {"", podJSON("p", "Failed", "",
			`{"terminated":{"reason":"StartError","exitCode":128,"message":"exec: \"agent\": not found"}}`),
			`StartError with exit code 128: exec: "agent": not found`},
		"evicted": {"", podJSON("p", "Failed", `,"reason":"Evicted","message":"The node was low on resource: memory."`,
			runningState), "Evicted: The node was low on resource: memory."},
	} {
		t.Run(name, func(t *testing.T) {
			dir := cluster(t)
			put(t, dir, "pods", `{"items":[`+test.pod+`]}`)
			if test.refusal != "" {
				put(t, dir, "refusal", test.refusal+"\n")
			}
			_, err := fleet.StartJob(context.Background(), fleet.Kubernetes{Agents: 1, Image: "i"}, nil)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %s", err, test.want)
			}
			if _, err := os.Stat(filepath.Join(dir, "job.yaml")); test.refusal == "" && !os.IsNotExist(err) {
				t.Errorf("the job is left: %v", err)
			}
		})
	}
}

// An interrupt while pods are pending deletes the job. What they wait for was reported.
func TestInterruptDeletesThePendingJob(t *testing.T) {
	dir := cluster(t)
	const why = "0/3 nodes are available: 3 Insufficient cpu."
	put(t, dir, "pods", fmt.Sprintf(`{"items":[{"metadata":{"name":"p"},"status":{"phase":"Pending","conditions":[
		{"type":"PodScheduled","status":"False","reason":"Unschedulable","message":%q}]}}]}`, why))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	noted := ""
	_, err := fleet.StartJob(ctx, fleet.Kubernetes{Agents: 1, Image: "i"}, func(text string) {
		noted = text
		cancel()
	})
	if err == nil || !strings.Contains(noted, why) {
		t.Errorf("%v, noted %q", err, noted)
	}
	if _, err := os.Stat(filepath.Join(dir, "job.yaml")); !os.IsNotExist(err) {
		t.Errorf("the job is left: %v", err)
	}
}

// A lost pod's fate is in the report.
func TestLostPodIsExplained(t *testing.T) {
	dir := cluster(t)
	put(t, dir, "pods", `{"items":[`+podJSON("p0", "Running", "", runningState)+`]}`)
	put(t, dir, "pod", podJSON("p0", "Failed", "", `{"terminated":{"reason":"OOMKilled","exitCode":137}}`))
	job, err := fleet.StartJob(context.Background(), fleet.Kubernetes{Agents: 1, Image: "i"}, nil)
	testkit.Must(t, err)
	hosts := job.Hosts()
	if text := hosts[0].Explain(context.Background()); text != "OOMKilled with exit code 137" {
		t.Error(text)
	}
	put(t, dir, "pod", "")
	if text := hosts[0].Explain(context.Background()); text != "its pod was deleted" {
		t.Error(text)
	}
	if err := job.Delete(); err != nil {
		t.Error(err)
	}
}

func TestManifestHasTheOptions(t *testing.T) {
	k := fleet.Kubernetes{Agents: 3, Image: "registry/tare:1", Namespace: "load",
		NodeSelector: map[string]string{"pool": "load"}, Requests: map[string]string{"cpu": "2"},
		Limits: map[string]string{"memory": "1Gi"}}
	b, err := k.Manifest("name")
	testkit.Must(t, err)
	var m map[string]any
	testkit.Must(t, yaml.Unmarshal(b, &m))
	for _, want := range []string{
		"apiVersion: batch/v1", "kind: Job", "name: name", "namespace: load",
		"completionMode: Indexed", "completions: 3",
		"parallelism: 3", "backoffLimit: 3", "backoffLimitPerIndex: 0", "ttlSecondsAfterFinished: 60",
		"restartPolicy: Never",
		"automountServiceAccountToken: false", "pool: load", "image: registry/tare:1", "stdin: true", "stdinOnce: true",
		`cpu: "2"`, "memory: 1Gi", "topologyKey: kubernetes.io/hostname",
	} {
		if !strings.Contains(string(b), want) {
			t.Errorf("no %q in\n%s", want, b)
		}
	}
	for _, bad := range []fleet.Kubernetes{{Image: "i"}, {Agents: 1}} {
		if _, err := bad.Manifest("name"); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}
