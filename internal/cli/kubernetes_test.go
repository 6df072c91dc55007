package cli_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load/report"
)

// addImage adds an image of one static program to the node.
func (k *cluster) addImage(name, program string, entrypoint ...string) {
	k.t.Helper()
	binary, err := os.ReadFile(program)
	if err != nil {
		k.t.Fatal(err)
	}
	archive := func(files map[string][]byte) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for name, text := range files {
			if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(text))}); err != nil {
				k.t.Fatal(err)
			}
			if _, err := w.Write(text); err != nil {
				k.t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			k.t.Fatal(err)
		}
		return b.Bytes()
	}
	layer := archive(map[string][]byte{strings.TrimPrefix(entrypoint[0], "/"): binary})
	config, err := json.Marshal(map[string]any{
		"architecture": goEnv(k.t, "GOARCH")["GOARCH"], "os": "linux",
		"config": map[string]any{"Entrypoint": entrypoint},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x",
			sha256.Sum256(layer))}},
	})
	if err != nil {
		k.t.Fatal(err)
	}
	list, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{name},
		"Layers": []string{"layer.tar"}}})
	if err != nil {
		k.t.Fatal(err)
	}
	k.write("image.tar", string(archive(map[string][]byte{"config.json": config, "layer.tar": layer,
		"manifest.json": list})))
	k.run("ctr", "-a", "/run/containerd/containerd.sock", "-n", "k8s.io", "images", "import",
		"--snapshotter", "native", k.file("image.tar"))
}

// load starts "tare load" in the node's network.
func (k *cluster) load(tare string, args ...string) *manyRun {
	k.t.Helper()
	r := new(manyRun)
	words := append([]string{"--net", "--target", fmt.Sprint(k.pid), tare, "load",
		"http://" + nodeAddress + ":8080/"}, args...)
	r.cmd = exec.CommandContext(context.Background(), "nsenter", words...)
	r.cmd.Env, r.cmd.Dir = append(os.Environ(), k.env...), k.dir
	r.cmd.Stdout, r.cmd.Stderr = &r.out, &r.err
	r.proc = testkit.Start(k.t, r.cmd)
	return r
}

// read reads a JSON result.
func (k *cluster) read(name string) *report.Run {
	k.t.Helper()
	return (&machines{t: k.t, dir: k.dir}).read(name)
}

// nothingLeft checks that the namespace has only what Kubernetes itself puts there.
func (k *cluster) nothingLeft() {
	k.t.Helper()
	left := k.run("kubectl", "get", "jobs,pods,secrets,configmaps", "--output", "name")
	if left = strings.TrimSpace(strings.ReplaceAll(left, "configmap/kube-root-ca.crt", "")); left != "" {
		k.t.Errorf("left in the cluster: %s", left)
	}
}

// awaitErr waits until a run has written a text to standard error.
func awaitErr(t *testing.T, r *manyRun, text string) {
	t.Helper()
	for late := time.Now().Add(clusterPatience); !strings.Contains(r.err.String(),
		text); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("%q is not reported: %s", text, &r.err)
		}
	}
}

// awaitPods waits until a number of pods run.
func (k *cluster) awaitPods(n int) (names []string) {
	k.t.Helper()
	for late := time.Now().Add(clusterPatience); ; time.Sleep(100 * time.Millisecond) {
		names = strings.Fields(k.run("kubectl", "get", "pods", "--field-selector", "status.phase=Running", "--output",
			"name"))
		if len(names) == n {
			return names
		}
		if time.Now().After(late) {
			k.t.Fatalf("pods %v: want %d", names, n)
		}
	}
}

// A real Kubernetes runs the agents of a load. Its Job is gone at the end, after an interrupt and
// after each failure, which a sentence explains.
func TestLoadInKubernetes(t *testing.T) {
	if os.Getenv("TARE_SLOW") == "" {
		t.Skip("TARE_SLOW is not set: the first time it builds Kubernetes")
	}
	k := newCluster(t)
	tare := filepath.Join(usersTare(t), "tare")
	static := k.file("tare")
	build := testkit.Command(t, "go", "build", "-pgo=off", "-o", static, "github.com/tarehq/tare/cmd/tare")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	busybox := strings.TrimSpace(k.run("sh", "-c", "command -v busybox"))
	k.addImage("localhost/pause:1", busybox, "/busybox", "sleep", "1000000")
	k.addImage("localhost/tare:1", static, "/tare")
	k.addImage("localhost/other:1", busybox, "/busybox")
	k.start("hellounix", "tcp", nodeAddress+":8080", k.file("address"))
	for name, test := range map[string]func(*testing.T, *cluster, string){
		"run": kubeRuns, "interrupt": kubeInterrupted, "lost pods": kubeLosesPods, "failures": kubeFails,
		"pending": kubePends, "killed": kubeOutlives, "evicted": kubeEvicts,
	} {
		t.Run(name, func(t *testing.T) {
			own := *k
			own.t = t
			test(t, &own, tare)
			own.nothingLeft()
		})
	}
}

// kubeRuns checks the figures of a run in three pods.
func kubeRuns(t *testing.T, k *cluster, tare string) {
	r := k.load(tare, "-c", "9", "--rate", "600", "-n", "1800", "--kubernetes", "3", "--image", "localhost/tare:1",
		"--pod-requests",
		"cpu=10m,memory=16Mi", "--pod-limits", "memory=256Mi", "--json=run.json", "--samples", "samples.csv")
	if code := r.wait(t); code != 0 {
		t.Fatalf("exit code %d: %s", code, &r.err)
	}
	run := k.read("run.json")
	due, _ := (&machines{t: t, dir: k.dir}).samples("samples.csv")
	if run.Requests != 1800 || len(run.Parts) != 3 || run.Errors.Total() > 0 || due.Count() != 1800 {
		t.Errorf("%d requests, %d parts, errors %+v, %d samples", run.Requests, len(run.Parts), run.Errors, due.Count())
	}
	for _, q := range []float64{0.5, 0.99, 1} {
		if run.Latency.Quantile(q) != due.Quantile(q) {
			t.Errorf("quantile %v: %v, of the samples %v", q, run.Latency.Quantile(q), due.Quantile(q))
		}
	}
	for i, p := range run.Parts {
		if p.Requests != uint64(200*p.Connections) || p.Lost != "" || !strings.HasPrefix(p.Name, "tare-load-") {
			t.Errorf("part %d: %+v", i, p)
		}
	}
}

// kubeInterrupted checks that ^C during a run keeps the figures and deletes the Job.
func kubeInterrupted(t *testing.T, k *cluster, tare string) {
	r := k.load(tare, "-c", "2", "-d", "10m", "--kubernetes", "2", "--image", "localhost/tare:1")
	k.awaitPods(2)
	time.Sleep(3 * time.Second) // into the run; any other time is right, too
	k.signal(r, syscall.SIGINT)
	if code := r.wait(t); code != 130 || !strings.Contains(r.err.String(), "interrupted") {
		t.Errorf("exit code %d: %s", code, &r.err)
	}
}

// kubeLosesPods checks that a deleted pod is named and that the run goes on.
func kubeLosesPods(t *testing.T, k *cluster, tare string) {
	r := k.load(tare, "-c", "3", "--rate", "300", "-d", "12s", "--kubernetes", "3", "--image", "localhost/tare:1",
		"--on-loss",
		"continue", "--json=lost.json")
	pods := k.awaitPods(3)
	time.Sleep(4 * time.Second) // into the run
	k.run("kubectl", "delete", pods[0], "--grace-period=0", "--force")
	name := strings.TrimPrefix(pods[0], "pod/")
	if code := r.wait(t); code != 1 || !strings.Contains(r.err.String(), name+" was lost: its process ended: ") {
		t.Errorf("exit code %d: %s", code, &r.err)
	}
	run := k.read("lost.json")
	for _, p := range run.Parts {
		if isLost := p.Name == name; isLost != (p.Lost != "") || isLost == (p.Seconds > 11) || p.Requests == 0 {
			t.Errorf("%s: %d requests in %.1f s, lost: %s", p.Name, p.Requests, p.Seconds, p.Lost)
		}
	}
}

// kubeFails checks the sentences about what cannot work.
func kubeFails(t *testing.T, k *cluster, tare string) {
	for _, test := range []struct {
		want string
		env  string
		args []string
	}{
		{`not permitted: Error from server (Forbidden)`, "KUBECONFIG=" + k.file("nobody.conf"), []string{"--image",
			"localhost/tare:1"}},
		{`image localhost/none:1: ImagePullBackOff`, "", []string{"--image", "localhost/none:1"}},
		{`InvalidImageName`, "", []string{"--image", "localhost/UPPER:1"}},
		{`image localhost/other:1: `, "", []string{"--image", "localhost/other:1"}},
		{`context "nowhere" does not exist`, "", []string{"--image", "localhost/tare:1", "--context", "nowhere"}},
		{`namespaces "nowhere" not found`, "", []string{"--image", "localhost/tare:1", "--namespace", "nowhere"}},
		{`quantities must match`, "", []string{"--image", "localhost/tare:1", "--pod-requests", "cpu=many"}},
	} {
		own := *k
		if test.env != "" {
			own.env = append(own.env[:len(own.env):len(own.env)], test.env)
		}
		r := own.load(tare, append(test.args, "-c", "2", "-d", "10m", "--kubernetes", "1")...)
		if code := r.wait(t); code != 1 || !strings.Contains(r.err.String(), test.want) {
			t.Errorf("%v: exit code %d: %s, want %s", test.args, code, &r.err, test.want)
		}
		k.nothingLeft()
	}
}

// kubePends checks that what pods wait for is reported, and that ^C deletes the Job.
func kubePends(t *testing.T, k *cluster, tare string) {
	r := k.load(tare, "-c", "2", "--kubernetes", "2", "--image", "localhost/tare:1", "--node-selector", "pool=none")
	awaitErr(t, r, "0/1 nodes are available")
	k.signal(r, syscall.SIGINT)
	if code := r.wait(t); code != 130 {
		t.Errorf("exit code %d: %s", code, &r.err)
	}
}

// kubeOutlives checks that without tare the agents end, and that Kubernetes deletes the Job.
func kubeOutlives(t *testing.T, k *cluster, tare string) {
	r := k.load(tare, "-c", "2", "-d", "10m", "--kubernetes", "1", "--image", "localhost/tare:1")
	k.awaitPods(1)
	time.Sleep(2 * time.Second) // into the run
	k.signal(r, syscall.SIGKILL)
	r.wait(t)
	for late := time.Now().Add(clusterPatience); ; time.Sleep(time.Second) {
		if strings.TrimSpace(k.run("kubectl", "get", "jobs,pods", "--output", "name")) == "" {
			return
		}
		if time.Now().After(late) {
			t.Fatal("the job is left")
		}
	}
}

// kubeEvicts checks that an evicted pod is reported as such: the agent writes more than its share
// of the node's disk, which its output takes.
func kubeEvicts(t *testing.T, k *cluster, tare string) {
	r := k.load(tare, "-c", "2", "-d", "3m", "--kubernetes", "1", "--image", "localhost/tare:1", "--pod-limits",
		"ephemeral-storage=1Ki")
	if code := r.wait(t); code != 1 || !strings.Contains(r.err.String(), "Evicted: ") {
		t.Errorf("exit code %d: %s", code, &r.err)
	}
}

func (k *cluster) signal(r *manyRun, sig syscall.Signal) {
	k.t.Helper()
	if err := r.cmd.Process.Signal(sig); err != nil {
		k.t.Error(err)
	}
}
