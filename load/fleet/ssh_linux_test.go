package fleet_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
	"github.com/tarehq/tare/load/fleet"
)

// elsewhere puts an ssh in PATH whose hosts are this machine, with a home directory of their own
// and the given system and architecture. It returns the home directory.
func elsewhere(t *testing.T, system, machine string) (home string) {
	t.Helper()
	bin, home := t.TempDir(), t.TempDir()
	uname := fmt.Sprintf("#!/bin/sh\ncase $1 in -s) echo %s;; -m) echo %s;; esac\n", system, machine)
	ssh := fmt.Sprintf("#!/bin/sh\nshift 3\nexport HOME=%s\nunset XDG_CACHE_HOME\nexec sh -c \"$1\"\n", home)
	for name, text := range map[string]string{"uname": uname, "ssh": ssh} {
		testkit.Must(t, os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755))
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	return home
}

// programFor returns a program for an architecture, as its ELF header states it: this binary for
// the machine's own, otherwise a file that does not run here.
func programFor(t *testing.T, number byte) (*fleet.Program, string) {
	t.Helper()
	own := testkit.Value(os.Executable())(t)
	name := own
	if number != 0 {
		name = filepath.Join(t.TempDir(), "tare")
		header := make([]byte, 64)
		copy(header, "\x7fELF\x02\x01\x01")
		header[16], header[18], header[20], header[52] = 2, number, 1, 64
		testkit.Must(t, os.WriteFile(name, header, 0o755))
	}
	p := testkit.Value(fleet.OpenProgram(name))(t)
	return p, name
}

// cached returns the files in the cache of a home directory.
func cached(t *testing.T, home string) (files []string) {
	t.Helper()
	files = testkit.Value(filepath.Glob(filepath.Join(home, ".cache", "tare", "*", "*")))(t)
	return files
}

// elfRISCV is the number of an architecture in ELF headers.
const elfRISCV = 243

// ownMachine returns this machine's architecture, as uname reports it.
func ownMachine(t *testing.T) string {
	t.Helper()
	out := testkit.Value(exec.Command("uname", "-m").Output())(t)
	return strings.TrimSpace(string(out))
}

// Each host receives the program for its architecture, once.
func TestSSHCopiesTheProgramOfTheArchitecture(t *testing.T) {
	testkit.Long(t, "it starts agents")
	own, ownName := programFor(t, 0)
	risc, riscName := programFor(t, elfRISCV)
	for machine, test := range map[string]struct {
		name string
		runs bool
	}{ownMachine(t): {ownName, true}, "riscv64": {riscName, false}} {
		t.Run(machine, func(t *testing.T) {
			home := elsewhere(t, "Linux", machine)
			hosts := []fleet.Host{fleet.SSH("h", []*fleet.Program{risc, own}), fleet.SSH("h", []*fleet.Program{risc,
				own})}
			for range 2 {
				f, err := fleet.Open(context.Background(), hosts, fleet.Options{})
				if (err == nil) != test.runs {
					t.Fatal(err)
				}
				if err == nil {
					url, _ := server(t)
					r, err := f.Run(context.Background(), load.Plan{URL: url, Connections: 2, Requests: 20})
					if err != nil || r.Requests != 20 || r.Parts[0].Name != "h-1" || r.Parts[1].Name != "h-2" {
						t.Errorf("%+v, %v", r, err)
					}
					f.Close()
				}
				files := cached(t, home)
				if len(files) != 1 {
					t.Fatalf("files %v", files)
				}
				got, err1 := os.ReadFile(files[0])
				want, err2 := os.ReadFile(test.name)
				if err1 != nil || err2 != nil || !bytes.Equal(got, want) {
					t.Errorf("the copied program is not %s: %v, %v", test.name, err1, err2)
				}
			}
		})
	}
}

// A host that no program fits is an error that says what to build, and nothing is copied.
func TestSSHReportsAMissingProgram(t *testing.T) {
	testkit.Long(t, "it starts agents")
	own, _ := programFor(t, 0)
	risc, _ := programFor(t, elfRISCV)
	for _, test := range []struct{ system, machine, want string }{
		{"Linux", "ppc64le",
			"its architecture is ppc64le, and no program of tare is for it: build one with GOOS=linux GOARCH=ppc64le"},
		{"Linux", "armv7l", "GOARCH=arm"},
		{"FreeBSD", "amd64", `its system is "FreeBSD": want Linux`},
	} {
		home := elsewhere(t, test.system, test.machine)
		_, err := fleet.Open(context.Background(), []fleet.Host{fleet.SSH("h", []*fleet.Program{own, risc})},
			fleet.Options{})
		testkit.Error(t, err, test.want)
		_, isMissing := errors.AsType[*fleet.NoProgramError](err)
		if isMissing != (test.system == "Linux") || len(cached(t, home)) > 0 {
			t.Errorf("%v; files %v", err, cached(t, home))
		}
	}
}

// kubectlScript responds as kubectl does, from files, and attaches to local agents. A real cluster
// is too large for these tests; what it reports is recorded here.
const kubectlScript = `#!/bin/sh
echo "$@" >>"$CLUSTER/log"
while test "$1" = --context || test "$1" = --namespace; do shift 2; done
case "$1 $2" in
"create -f") cat >"$CLUSTER/job.yaml"; test ! -e "$CLUSTER/slow" || exec sleep 60
	if test -e "$CLUSTER/refusal"; then cat "$CLUSTER/refusal" >&2; exit 1; fi ;;
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
	own := testkit.Value(os.Executable())(t)
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
	job := testkit.Value(fleet.StartJob(context.Background(), k, nil))(t)
	f := testkit.Value(fleet.Open(context.Background(), job.Hosts(), fleet.Options{}))(t)
	url, _ := server(t)
	r, err := f.Run(context.Background(), load.Plan{URL: url, Connections: 4, Requests: 100})
	if err != nil || r.Requests != 100 || r.Parts[1].Name != "p1" {
		t.Errorf("%+v, %v", r, err)
	}
	f.Close()
	testkit.Check(t, job.Delete())
	log := testkit.Value(os.ReadFile(filepath.Join(dir, "log")))(t)
	for line := range strings.Lines(string(log)) {
		if !strings.HasPrefix(line, "--context c --namespace n ") {
			t.Errorf("another cluster: %s", line)
		}
	}
	testkit.FailsWith(os.Stat(filepath.Join(dir, "job.yaml")))(t, os.ErrNotExist, "the job is left")
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
			testkit.Error(t, err, test.want)
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
	testkit.FailsWith(os.Stat(filepath.Join(dir, "job.yaml")))(t, os.ErrNotExist, "the job is left")
}

// An interrupted kubectl may have created the job, which is deleted, too.
func TestInterruptDeletesTheNewJob(t *testing.T) {
	dir := cluster(t)
	put(t, dir, "slow", "")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := fleet.StartJob(ctx, fleet.Kubernetes{Agents: 1, Image: "i"}, nil)
		ended <- err
	}()
	exists := func() bool { _, err := os.Stat(filepath.Join(dir, "job.yaml")); return err == nil }
	testkit.WaitFor(t, "kubectl to create the job", exists)
	cancel()
	testkit.Is(t, <-ended, context.Canceled)
	testkit.Equal(t, exists(), false, "the job is left")
}

// A lost pod's fate is in the report.
func TestLostPodIsExplained(t *testing.T) {
	dir := cluster(t)
	put(t, dir, "pods", `{"items":[`+podJSON("p0", "Running", "", runningState)+`]}`)
	put(t, dir, "pod", podJSON("p0", "Failed", "", `{"terminated":{"reason":"OOMKilled","exitCode":137}}`))
	job := testkit.Value(fleet.StartJob(context.Background(), fleet.Kubernetes{Agents: 1, Image: "i"}, nil))(t)
	hosts := job.Hosts()
	testkit.Equal(t, hosts[0].Explain(context.Background()), "OOMKilled with exit code 137")
	put(t, dir, "pod", "")
	testkit.Equal(t, hosts[0].Explain(context.Background()), "its pod was deleted")
	testkit.Check(t, job.Delete())
}

func TestManifestHasTheOptions(t *testing.T) {
	k := fleet.Kubernetes{Agents: 3, Image: "registry/tare:1", Namespace: "load",
		NodeSelector: map[string]string{"pool": "load"}, Requests: map[string]string{"cpu": "2"},
		Limits: map[string]string{"memory": "1Gi"}}
	b := testkit.Value(k.Manifest("name"))(t)
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
		testkit.Contains(t, string(b), want)
	}
	for _, bad := range []fleet.Kubernetes{{Image: "i"}, {Agents: 1}} {
		testkit.Fails(bad.Manifest("name"))(t, "", bad)
	}
}
