package lab_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/stat"
	"github.com/tarehq/tare/internal/lab/trial"
	"github.com/tarehq/tare/internal/lab/yamlfile"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
	"github.com/tarehq/tare/load"
)

const (
	pairs       = 9
	pairSeconds = 2
)

// constant configures nginx to respond without an upstream. Generators are measured against it.
const constant = `worker_processes 1;
pid {{.Dir}}/nginx.pid;
events { worker_connections 2048; }
http {
	access_log off;
	error_log /dev/null crit;
	keepalive_requests 1000000000;
	client_body_temp_path {{.Dir}}/a; proxy_temp_path {{.Dir}}/b; fastcgi_temp_path {{.Dir}}/c; uwsgi_temp_path {{.Dir}}/d; scgi_temp_path {{.Dir}}/e;
	server { listen 127.0.0.1:{{.Port}} VERSION; location / { return 200 "Hello World\n"; } }
}
`

// rivalry is a load that tare and another generator make in turn.
type rivalry struct {
	name        string
	version     string   // of HTTP that the server speaks on its port: "" or "http2"
	ours        []string // flags of tare load
	tool        func(b *testing.B) (path string, env []string)
	theirs      []string // flags of the tool, before the URL
	connections int
	responses   string // the name of the number of responses in the tool's report
}

func rivalries() []rivalry {
	seconds := strconv.Itoa(pairSeconds)
	wrk := func(b *testing.B) (string, []string) { return programs.Wrk(b) }
	ab := func(b *testing.B) (string, []string) { return programs.AB(b) }
	siege := func(b *testing.B) (string, []string) { return programs.Siege(b) }
	const wrkFigure, h2loadFigure = `(\d+) requests in`, `(\d+) succeeded`
	return []rivalry{
		{"wrk", "", nil, wrk, []string{"-t1", "-c64", "-d" + seconds + "s"}, 64, wrkFigure},
		{"wrk", "", nil, wrk, []string{"-t1", "-c1000", "-d" + seconds + "s"}, 1000, wrkFigure},
		{"h2load", "", nil, h2load, []string{"--h1", "-t1", "-c64", "-D" + seconds}, 64, h2loadFigure},
		{"h2load-http2", "http2", []string{"--http2", "--pipeline", "16"}, h2load,
			[]string{"-t1", "-c8", "-m16", "-D" + seconds}, 8, h2loadFigure},
		{"ab", "", []string{"--http1.0", "-H", "Connection: keep-alive"}, ab,
			[]string{"-k", "-q", "-c64", "-t" + seconds, "-n100000000"}, 64, `Complete requests: +(\d+)`},
		{"siege", "", []string{"--close"}, siege, []string{"-b", "-j", "-c64", "-t" + seconds + "S"}, 64,
			`"transactions":\s+(\d+)`},
	}
}

// BenchmarkGenerator measures how many requests tare load and other generators make of a
// second of their own CPU time, in turn, against the same nginx.
func BenchmarkGenerator(b *testing.B) {
	tare := filepath.Join(b.TempDir(), "tare")
	if out, err := testkit.Command(b, "go", "build", "-o", tare, "../../cmd/tare").CombinedOutput(); err != nil {
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
	on := []string{"-c", strconv.Itoa(generator[0])}
	for _, r := range rivalries() {
		b.Run(fmt.Sprintf("%s/connections=%d", r.name, r.connections), func(b *testing.B) {
			path, env := r.tool(b)
			address := startConstant(b, servers, r.version)
			ours := slices.Concat(on, []string{tare, "load", address, "-t", "1", "-c", strconv.Itoa(r.connections),
				"-d", fmt.Sprintf("%ds", pairSeconds), "--json"}, r.ours)
			theirs := slices.Concat(on, []string{path}, r.theirs, []string{address})
			var a, w []float64
			for b.Loop() {
				a, w = nil, nil
				for range pairs {
					a = append(a, perCPUSecond(b, ours, nil, requestsOfTare))
					w = append(w, perCPUSecond(b, theirs, env, r.requests))
				}
			}
			ratio, _ := stat.Ratio(a, w)
			mine, _ := stat.Median(a)
			its, _ := stat.Median(w)
			b.ReportMetric(mine.Mid, "tare-req/cpu-s")
			b.ReportMetric(its.Mid, "its-req/cpu-s")
			b.ReportMetric(ratio.Mid, "ratio")
			b.ReportMetric(ratio.Lo, "ratio-lo")
			b.ReportMetric(ratio.Hi, "ratio-hi")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// h2load returns the installed h2load. Its Debian package depends on too many others to be
// unpacked.
func h2load(b *testing.B) (path string, env []string) {
	b.Helper()
	path, err := exec.LookPath("h2load")
	if err != nil {
		b.Skipf("%v: it is in Debian's package nghttp2-client", err)
	}
	return path, nil
}

func startConstant(b *testing.B, cpus []int, version string) string {
	b.Helper()
	stage, err := contender.NewStage(contender.StageOptions{})
	if err != nil {
		b.Fatal(err)
	}
	// nginx responds alone. A front requires an application, which is not used.
	spec := &contender.Spec{
		Name: "constant", Title: "constant", Protocol: contender.HTTP, Front: contender.Nginx, Run: "sleep infinity",
	}
	spec.Ready.Within = yamlfile.Duration(5 * time.Second)
	r, err := stage.Start(context.Background(), &contender.Contender{Spec: spec, Nginx: programs.Nginx(b)},
		contender.Setting{Cores: 1, CPUs: cpus,
			Conf: template.Must(template.New("").Parse(strings.Replace(constant, "VERSION", version, 1)))},
		func(ctx context.Context, address string) error {
			c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
			if err == nil {
				_ = c.Close()
			}
			return err
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
// all the CPU time it took, starting included.
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

// requests reads the rival's report.
func (r *rivalry) requests(out []byte) (float64, error) {
	m := regexp.MustCompile(r.responses).FindSubmatch(out)
	if m == nil || bytes.Contains(out, []byte("Socket errors")) {
		return 0, fmt.Errorf("not as expected")
	}
	return strconv.ParseFloat(string(m[1]), 64)
}
