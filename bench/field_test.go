package bench_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/template"
	"time"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/trial"
	"github.com/tarehq/tare/internal/lab/yamlfile"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// host is the Host of all requests.
const host = "localhost"

// body is the response's body for most paths of all servers.
const body = "Hello World\n"

// preamble is the beginning of nginx's configuration with one worker, up to its http block.
const preamble = `{{with .User}}user {{.}};{{end}}
worker_processes 1;
worker_rlimit_nofile {{.Nofile}};
pid {{.Dir}}/nginx.pid;
events { worker_connections {{.Connections}}; }
http {
	access_log off;
	error_log /dev/null crit;
	keepalive_requests 1000000000;
	client_body_temp_path {{.Dir}}/a; proxy_temp_path {{.Dir}}/b; fastcgi_temp_path {{.Dir}}/c; uwsgi_temp_path {{.Dir}}/d; scgi_temp_path {{.Dir}}/e;
`

// oneWorker returns a configuration of nginx with one worker and the given content of its http
// block.
func oneWorker(http string) *template.Template {
	return template.Must(template.New("").Parse(preamble + http + "}\n"))
}

// constant makes nginx respond without an upstream.
const constant = `default_type text/plain;
server { listen 127.0.0.1:{{.Port}}; location / { return 200 "Hello World\n"; } }
`

// field holds the built servers and the durations of trials.
type field struct {
	cpus       []int // that this process may use
	server     []int // for servers on one processor
	generator  []int // for the generator beside them
	contenders map[string]*contender.Contender
	inMemory   string // path of the program with workloads in memory
	pairs      string // path of the program with the clients' benchmarks
	wrk        string
	wrkEnv     []string
	proxy      *template.Template // nginx in front of an application, as in the front experiment
	site       string             // the folder that is served
	kept       []byte             // the cached body
	counts     bool               // the kernel allows counting system calls

	starts   int // of servers side by side
	rounds   int // of other cases
	warmup   time.Duration
	load     time.Duration // of a server
	inMemFor time.Duration // of a workload in memory
	settle   time.Duration // before memory is measured
	idle     time.Duration // during which CPU time at rest is measured
	short    bool
}

func newField(t testing.TB, short bool) *field {
	t.Helper()
	f := &field{
		contenders: make(map[string]*contender.Contender), short: short, starts: 8,
		rounds: 15, warmup: 300 * time.Millisecond, load: 2 * time.Second, inMemFor: 400 * time.Millisecond,
		settle: 2 * time.Second, idle: 30 * time.Second,
	}
	if short {
		f.starts, f.rounds = 1, 1
		f.warmup, f.load, f.inMemFor = 50*time.Millisecond, 300*time.Millisecond, 40*time.Millisecond
		f.settle, f.idle = 200*time.Millisecond, 300*time.Millisecond
	}
	var err error
	if f.cpus, err = contender.AllCPUs(); err != nil {
		t.Fatal(err)
	}
	if f.server, f.generator = trial.Layout(f.cpus, 1); f.server == nil {
		t.Skip("needs two processors: one for servers and one for the load")
	}
	f.wrk, f.wrkEnv = programs.Wrk(t)
	f.prepare(t)
	f.prepareBehindNginx(t)
	f.prepareFiles(t)
	f.prepareClients(t)
	f.prepareFronts(t)
	return f
}

// prepare builds the servers.
func (f *field) prepare(t testing.TB) {
	t.Helper()
	tools := &contender.Tools{Cache: t.TempDir()}
	folder := filepath.Join(programs.Root(t), "contenders", "cases")
	for _, name := range []string{ours, netHTTP, fastHTTP, "inmemory"} {
		spec := &contender.Spec{
			Name: name, Title: name, Dir: filepath.Join(folder, name), Protocol: contender.HTTP,
			Needs: []string{contender.Go}, Build: "go build -o {bin} .", Run: "{bin} -listen 127.0.0.1:{port}",
		}
		c, err := tools.Prepare(context.Background(), spec)
		if err != nil {
			t.Fatal(err)
		}
		f.contenders[name] = c
	}
	f.inMemory = f.contenders["inmemory"].Bin
	// nginx responds alone; a front requires an application, which is not used.
	f.contenders[nginx] = &contender.Contender{
		Spec: &contender.Spec{Name: nginx, Title: nginx, Protocol: contender.HTTP, Front: contender.Nginx,
			Run: "sleep infinity"},
		Nginx: programs.Nginx(t), Conf: oneWorker(constant),
	}
}

// roundsOf returns the number of rounds of a case.
func (f *field) roundsOf(s scenario) int {
	switch {
	case f.short && s.large:
		return 1
	case f.short || s.rounds == 0:
		return f.rounds
	}
	return s.rounds
}

// running is a running server with its own stage.
type running struct {
	*contender.Running
	stage *contender.Stage
}

func (r *running) stop() error { return errors.Join(r.Stop(), r.stage.Close()) }

// start starts a server on the given processors, or on all if cpus is nil, and checks its response
// to a path.
func (f *field) start(server string, cpus []int, path string, flags ...string) (*running, error) {
	stage, err := contender.NewStage(contender.StageOptions{})
	if err != nil {
		return nil, err
	}
	c := f.contender(server)
	c.Run = strings.Join(append([]string{c.Run}, flags...), " ")
	path, want, err := f.expected(server, path)
	if err != nil {
		return nil, err
	}
	cores := len(cpus)
	if cores == 0 {
		cores = len(f.cpus)
	}
	scheme := "http"
	if slices.Contains(flags, "-tls") || server == serveTLS || server == nginxTLS {
		scheme = "https"
	}
	r, err := stage.Start(context.Background(), c,
		contender.Setting{Cores: cores, CPUs: cpus, Conf: f.proxy, Host: host},
		func(ctx context.Context, address string) error {
			return checkResponse(ctx, scheme+"://"+address+path, want)
		})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", server, err), stage.Close())
	}
	return &running{r, stage}, nil
}

// contender returns a copy of a server that may be changed.
func (f *field) contender(server string) *contender.Contender {
	const readyWithin = time.Minute
	c, spec := *f.contenders[server], *f.contenders[server].Spec
	spec.Ready.Within = yamlfile.Duration(readyWithin)
	c.Spec = &spec
	return &c
}

// expected returns the path that is requested for the path of a stream, and the body of the
// response.
func (f *field) expected(server, path string) (request string, want []byte, err error) {
	switch {
	case servesFiles(server):
		return f.file(path)
	case keepsResponses(server):
		return path, f.kept, nil
	}
	return path, []byte(body), nil
}

// shown is the maximum length of a wrong body in an error.
const shown = 100

// checkResponse returns an error unless the response to a URL is 200 with the wanted body.
func checkResponse(ctx context.Context, url string, want []byte) error {
	client := http.Client{Timeout: 3 * time.Second, Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(request)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || !bytes.Equal(b, want)) {
		err = fmt.Errorf("%s: status %s: %q", url, resp.Status, b[:min(len(b), shown)])
	}
	return err
}

func isShort() bool { return os.Getenv("TARE_BENCH") == "short" }
