package lab_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"text/template"
	"time"

	"github.com/tarehq/tare/internal/testkit/programs"
	"github.com/tarehq/tare/lab/contender"
	"github.com/tarehq/tare/lab/equal"
	"github.com/tarehq/tare/lab/stat"
	"github.com/tarehq/tare/lab/trial"
	"github.com/tarehq/tare/lab/yamlfile"
	"github.com/tarehq/tare/load"
)

const (
	pairs       = 9
	pairSeconds = 2
)

// constant is an nginx that answers by itself, for generators to be measured on.
const constant = `worker_processes 1;
pid {{.Dir}}/nginx.pid;
events { worker_connections 2048; }
http {
	access_log off;
	error_log /dev/null crit;
	keepalive_requests 1000000000;
	client_body_temp_path {{.Dir}}/a; proxy_temp_path {{.Dir}}/b; fastcgi_temp_path {{.Dir}}/c; uwsgi_temp_path {{.Dir}}/d; scgi_temp_path {{.Dir}}/e;
	server { listen 127.0.0.1:{{.Port}}; location / { return 200 "Hello World\n"; } }
}
`

// BenchmarkGenerator measures how many requests tare load and wrk make of a second
// of their own processor time, in turn, against the same nginx.
func BenchmarkGenerator(b *testing.B) {
	wrk, wrkEnv := programs.Wrk(b)
	tare := filepath.Join(b.TempDir(), "tare")
	if out, err := exec.Command("go", "build", "-o", tare, "../cmd/tare").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	cpus, err := contender.AllCPUs()
	if err != nil {
		b.Fatal(err)
	}
	servers, generator := trial.Layout(cpus, 1)
	if servers == nil {
		b.Skip("needs two processors")
	}
	address := startConstant(b, servers)
	on := []string{"-c", fmt.Sprint(generator[0])}
	for _, connections := range []int{64, 1000} {
		b.Run(fmt.Sprintf("connections=%d", connections), func(b *testing.B) {
			ours := slices.Concat(on, []string{tare, "load", address, "-t", "1", "-c", fmt.Sprint(connections), "-d", fmt.Sprintf("%ds", pairSeconds), "--json"})
			theirs := slices.Concat(on, []string{wrk, "-t1", "-c" + fmt.Sprint(connections), "-d" + fmt.Sprint(pairSeconds) + "s", address})
			var a, w []float64
			for b.Loop() {
				a, w = nil, nil
				for range pairs {
					a = append(a, perCPUSecond(b, ours, nil, requestsOfTare))
					w = append(w, perCPUSecond(b, theirs, wrkEnv, requestsOfWrk))
				}
			}
			ratio, _ := stat.Ratio(a, w)
			mine, _ := stat.Median(a)
			its, _ := stat.Median(w)
			b.ReportMetric(mine.Mid, "tare-req/cpu-s")
			b.ReportMetric(its.Mid, "wrk-req/cpu-s")
			b.ReportMetric(ratio.Mid, "ratio")
			b.ReportMetric(ratio.Lo, "ratio-lo")
			b.ReportMetric(ratio.Hi, "ratio-hi")
			b.ReportMetric(0, "ns/op")
		})
	}
}

func startConstant(b *testing.B, cpus []int) string {
	b.Helper()
	stage, err := contender.NewStage(contender.StageOptions{})
	if err != nil {
		b.Fatal(err)
	}
	// The front answers by itself; the application behind it is there for form's sake.
	spec := &contender.Spec{Name: "constant", Title: "constant", Protocol: contender.HTTP, Front: contender.Nginx, Run: "sleep infinity"}
	spec.Ready.Within = yamlfile.Duration(5 * time.Second)
	r, err := stage.Start(context.Background(), &contender.Contender{Spec: spec, Nginx: programs.Nginx(b)},
		contender.Setting{Cores: 1, CPUs: cpus, Conf: template.Must(template.New("").Parse(constant))},
		func(ctx context.Context, address string) error {
			return equal.Ready(ctx, spec.At(address), equal.Request{Method: "GET", Path: "/", Host: "a"})
		})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := r.Stop(); err != nil {
			b.Error(err)
		}
		if err := stage.Close(); err != nil {
			b.Error(err)
		}
	})
	return "http://" + r.Address + "/"
}

// perCPUSecond runs a generator, bound to a processor, and divides its requests by
// all the processor time it took, starting included.
func perCPUSecond(b *testing.B, args, env []string, requests func([]byte) (float64, error)) float64 {
	b.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, "taskset", args...)
	c.Env = slices.Concat(os.Environ(), env)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		b.Fatalf("%v: %v\n%s", args, err, stderr.String())
	}
	n, err := requests(out)
	if err != nil {
		b.Fatalf("%v: %v\n%s", args, err, out)
	}
	return n / (c.ProcessState.UserTime() + c.ProcessState.SystemTime()).Seconds()
}

func requestsOfTare(out []byte) (float64, error) {
	var r load.Result
	err := json.Unmarshal(out, &r)
	if err == nil && r.Errors.Total() > 0 {
		err = fmt.Errorf("errors: %+v", r.Errors)
	}
	return float64(r.Requests), err
}

func requestsOfWrk(out []byte) (float64, error) {
	m := regexp.MustCompile(`(\d+) requests in`).FindSubmatch(out)
	if m == nil || bytes.Contains(out, []byte("Socket errors")) {
		return 0, fmt.Errorf("not as expected")
	}
	return strconv.ParseFloat(string(m[1]), 64)
}
