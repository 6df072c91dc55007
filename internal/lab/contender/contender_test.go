package contender_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/fcgi"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/equal"
	"github.com/tarehq/tare/internal/lab/proc"
	"github.com/tarehq/tare/internal/lab/yamlfile"
	"github.com/tarehq/tare/internal/testkit"
)

// TestMain lets the test binary be a contender or the guard: "play ROLE ARGS".
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "play" {
		play(os.Args[2], os.Args[3:])
		return
	}
	os.Exit(testkit.Tests{M: m}.Run())
}

func play(role string, args []string) {
	switch role {
	case "guard":
		contender.Guard(os.Stdin)
	case "server":
		serve(http.Serve, args[0])
	case "front":
		text, _ := os.ReadFile(args[0])
		port, _, _ := strings.Cut(string(text), " ")
		serve(http.Serve, port)
	case "fastcgi":
		serve(fcgi.Serve, args[0])
	case "files":
		page, _ := os.ReadFile("page.txt")
		info, err := os.Stat("page.txt")
		if err != nil {
			panic(err)
		}
		serveWhat(fmt.Sprintf("%s %d %s %s ", page, info.ModTime().Unix(), args[1], args[2]), args[0])
	case "late":
		time.Sleep(300 * time.Millisecond)
		serve(http.Serve, args[0])
	case "crash":
		fmt.Println("first line")
		fmt.Fprintln(os.Stderr, "\x1b[31mcannot find my configuration")
		os.Exit(3)
	case "silent":
		time.Sleep(time.Minute)
	case "stubborn": // ignores SIGTERM
		signal.Ignore(syscall.SIGTERM)
		serve(http.Serve, args[0])
	case "forks": // leaves a child in a session of its own
		c := exec.Command("setsid", "sleep", "61")
		if err := c.Start(); err != nil {
			panic(err)
		}
		serve(http.Serve, args[0])
	}
}

// serveWhat responds with a text and GOMAXPROCS.
func serveWhat(text, port string) {
	fmt.Fprintln(os.Stderr, http.ListenAndServe("127.0.0.1:"+port,
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, text+os.Getenv("GOMAXPROCS"))
		})))
	os.Exit(1)
}

// serve serves on a port or on a socket.
func serve(over func(net.Listener, http.Handler) error, place string) {
	network, address := "tcp", "127.0.0.1:"+place
	if filepath.IsAbs(place) {
		network, address = "unix", place
	}
	l, err := net.Listen(network, address)
	if err == nil {
		err = over(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/die" {
				fmt.Println("out of luck")
				os.Exit(7)
			}
			fmt.Fprint(w, os.Getenv("GOMAXPROCS"))
		}))
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func stage(t *testing.T, o contender.StageOptions) *contender.Stage {
	t.Helper()
	s := testkit.Value(contender.NewStage(o))(t)
	t.Cleanup(func() {
		testkit.Check(t, s.Close())
	})
	return s
}

// patience is the timeout of tests for events that must happen.
const patience = 30 * time.Second

// actor returns a contender that the test binary plays.
func actor(role string) *contender.Contender { return actorAt(role, contender.HTTP, "{port}") }

func actorAt(role, protocol, place string) *contender.Contender {
	s := &contender.Spec{Name: role, Title: role, Protocol: protocol, Run: "{bin} play " + role + " " + place}
	s.Ready.Within = yamlfile.Duration(patience)
	return &contender.Contender{Spec: s, Bin: os.Args[0]}
}

// start starts a contender and waits until it responds.
func start(ctx context.Context, s *contender.Stage, c *contender.Contender,
	set contender.Setting) (*contender.Running, error) {
	return s.Start(ctx, c, set, equal.Ready(c, root))
}

var root = equal.Request{Method: "GET", Path: "/", Host: "a"}

func TestStopEndsWhatStartStarted(t *testing.T) {
	t.Parallel()
	testkit.Long(t, "it starts contenders")
	s := stage(t, contender.StageOptions{})
	cpus := testkit.Value(contender.AllCPUs())(t)
	cpu := cpus[0]
	for _, c := range []*contender.Contender{
		actor("server"), actor("late"), actor("stubborn"),
		actorAt("server", contender.HTTP, "{socket}"),
		actorAt("fastcgi", contender.FastCGI, "{port}"), actorAt("fastcgi", contender.FastCGI, "{socket}"),
	} {
		t.Run(c.Run, func(t *testing.T) {
			r := testkit.Value(start(context.Background(), s, c, contender.Setting{Cores: 3, CPUs: []int{cpu}}))(t)
			a, err := equal.Fetch(context.Background(), r.Place(), root)
			if err != nil || string(a.Body) != "3" {
				t.Errorf("GOMAXPROCS %s, %v", a.Body, err)
			}
			family, err := r.Processes()
			if err != nil || len(family) != 1 {
				t.Errorf("family %v %v", family, err)
			}
			status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", family[0].PID))
			testkit.Contains(t, string(status), fmt.Sprintf("Cpus_allowed_list:\t%d\n", cpu))
			testkit.Check(t, r.Stop())
			left, _ := proc.Family(family[0].PID)
			testkit.Equal(t, len(left), 0, "processes left running")
			if c, err := net.Dial(r.Place().Network(), r.Address); err == nil {
				c.Close()
				t.Error("still listening")
			}
		})
	}
}

// An error quotes the last line, or the message of a panic, and has more lines below.
func TestErrorsQuoteTheReason(t *testing.T) {
	long := strings.Repeat("x", 300)
	for output, want := range map[string]string{
		"":            "",
		"one line\n":  "one line",
		"first\nlast": "last\n    first\n    last",
		"before\npanic: no luck\n\ngoroutine 1 [running]:\nmain.main()\n": "panic: no luck\n    panic: no luck\n    \n    goroutine 1 [running]:\n    main.main()",
		long: long[:200] + "…\n    " + long,
	} {
		testkit.Equal(t, contender.Quoted([]byte(output)), want, output)
	}
}

func TestStartReportsFailures(t *testing.T) {
	t.Parallel()
	testkit.Long(t, "it starts contenders")
	for _, test := range []struct {
		role  string
		taken bool // another program listens on the port before the contender does
		want  []string
	}{
		{"crash", false,
			[]string{`its application ended by itself (exit status 3); application printed: \x1b[31mcannot find my configuration`}},
		{"silent", false, []string{"no response after 3s", "connection refused"}},
		{"silent", true, []string{"is held by process " + strconv.Itoa(os.Getpid()), "which was not started here"}},
	} {
		s := stage(t, contender.StageOptions{})
		c := actor(test.role)
		c.Ready.Within = yamlfile.Duration(3 * time.Second) // long enough for a busy machine
		_, err := s.Start(context.Background(), c, contender.Setting{Cores: 1}, func(ctx context.Context, address string) error {
			if test.taken {
				other := testkit.Value(net.Listen("tcp", address))(t)
				t.Cleanup(func() { other.Close() })
				go http.Serve(other, http.NotFoundHandler())
			}
			return equal.Ready(c, root)(ctx, address)
		})
		for _, want := range test.want {
			testkit.Error(t, err, want, test.role)
		}
	}
}

// A port is not chosen again while its contender runs, even if nothing listens on it.
func TestPortIsClaimedByOneContender(t *testing.T) {
	t.Parallel()
	testkit.Long(t, "it starts contenders")
	s, c, claim := stage(t, contender.StageOptions{}), actor("silent"), ""
	c.Ready.Within = yamlfile.Duration(100 * time.Millisecond)
	_, err := s.Start(context.Background(), c, contender.Setting{Cores: 1}, func(_ context.Context, address string) error {
		claim = "@tare-port-" + strings.TrimPrefix(address, "127.0.0.1:")
		testkit.FailsWith(net.Listen("unix", claim))(t, syscall.EADDRINUSE)
		return errors.New("no response")
	})
	testkit.Error(t, err, "nor anywhere else")
	testkit.WaitFor(t, "the claim to end", func() bool { // a process that begins may hold it until it runs its program
		l, err := net.Listen("unix", claim)
		return err == nil && l.Close() == nil
	})
}

func TestTooLongSocketPathIsRejected(t *testing.T) {
	long := filepath.Join(t.TempDir(), strings.Repeat("x", 100))
	testkit.Must(t, os.Mkdir(long, 0o755))
	t.Setenv("TMPDIR", long)
	c := actor("silent")
	c.Run, c.Front = "{bin} play silent {socket}", contender.Nginx
	_, err := start(context.Background(), stage(t, contender.StageOptions{}), c, contender.Setting{Cores: 1})
	testkit.Error(t, err, "set TMPDIR to a folder with a shorter path")
}

func TestDeadIsClosedWhenAProcessEnds(t *testing.T) {
	t.Parallel()
	testkit.Long(t, "it starts contenders")
	s := stage(t, contender.StageOptions{})
	r := testkit.Value(start(context.Background(), s, actor("server"), contender.Setting{Cores: 1}))(t)
	if resp, err := http.Get("http://" + r.Address + "/die"); err == nil {
		resp.Body.Close()
		t.Fatal("it responds and still runs")
	}
	select {
	case <-r.Dead():
	case <-time.After(patience):
		t.Fatal("Dead is not closed")
	}
	if err := r.WhyDead(); !strings.Contains(err.Error(), "its application ended by itself (exit status 7)") ||
		!strings.Contains(err.Error(), "out of luck") {
		t.Error(err)
	}
	testkit.Check(t, r.Stop())
}

func TestStopEndsChildrenInOtherSessions(t *testing.T) {
	t.Parallel()
	testkit.Long(t, "it starts contenders")
	s := stage(t, contender.StageOptions{})
	r := testkit.Value(start(context.Background(), s, actor("forks"), contender.Setting{Cores: 1}))(t)
	testkit.Check(t, r.Stop())
	if running(t, "sleep 61") {
		t.Error("its child survived")
	}
}

// running reports whether a process with this command line is alive.
func running(t *testing.T, commandLine string) bool {
	t.Helper()
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		b, _ := os.ReadFile(f)
		if strings.TrimSpace(strings.ReplaceAll(string(b), "\x00", " ")) == commandLine {
			return true
		}
	}
	return false
}

// When the lab's process is killed, the guard ends its processes.
func TestGuardCleansUpAfterKilledProcess(t *testing.T) {
	t.Parallel()
	testkit.Long(t, "it starts contenders")
	guard := exec.Command(os.Args[0], "play", "guard")
	in := testkit.Value(guard.StdinPipe())(t)
	testkit.Must(t, guard.Start())
	victim, spared := exec.Command("sleep", "62"), exec.Command("sleep", "63")
	for _, c := range []*exec.Cmd{victim, spared} {
		c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		testkit.Must(t, c.Start())
	}
	defer func() { spared.Process.Kill(); spared.Wait() }()
	marked := exec.Command("setsid", "sleep", "64") // in a group that the guard does not know
	marked.Env = append(os.Environ(), "TARE_STAGE=test")
	testkit.Must(t, marked.Start())
	folder := t.TempDir()
	fmt.Fprintf(in, "mark TARE_STAGE=test\ngroup %d\ngroup %d\n-group %d\nfolder %s\nnonsense\ngroup 1\n", victim.Process.Pid, spared.Process.Pid, spared.Process.Pid, folder)
	in.Close() // as the kernel does for a process that was killed
	testkit.Check(t, guard.Wait())
	testkit.Error(t, victim.Wait(), "killed", "victim")
	testkit.Error(t, marked.Wait(), "killed", "marked")
	if !running(t, "sleep 63") {
		t.Error("the guard ended a group that was withdrawn")
	}
	testkit.FailsWith(os.Stat(folder))(t, os.ErrNotExist, "the folder is left")
}

func TestStartEndsWithItsContext(t *testing.T) {
	s := stage(t, contender.StageOptions{})
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	testkit.FailsWith(start(ctx, s, actor("silent"), contender.Setting{Cores: 1}))(t, context.DeadlineExceeded)
}

func TestClaimedPortIsBelowPortsOfClients(t *testing.T) {
	low, _, _ := strings.Cut(proc.Setting("net.ipv4.ip_local_port_range"), " ")
	limit := testkit.Value(strconv.Atoi(low))(t)
	var ports contender.Claims
	defer ports.Release()
	for range 20 {
		if port, err := ports.Claim(); err != nil || port >= limit {
			t.Fatal(port, err)
		}
	}
}

func TestMalformedSpecsAreRejected(t *testing.T) {
	const fine = "title: t\nabout: a\nneeds: [go]\nbuild: go build -o {bin} .\nrun: \"{bin} {port}\"\nprotocol: http\n"
	for _, test := range []struct{ name, from, to, want string }{
		{"fine", "", "", ""},
		{"no title", "title: t\n", "", "title is missing"},
		{"unknown key", "title: t", "tittle: t", `contender.yaml:1: unknown field "tittle"`},
		{"protocol", "protocol: http", "protocol: spdy", `contender.yaml:6: protocol "spdy": want http or fastcgi`},
		{"front", "protocol: http", "protocol: http\nfront: apache", `contender.yaml:7: front "apache": want nginx, or a front_run that starts it`},
		{"own front", "needs: [go]\nbuild: go build -o {bin} .\nrun: \"{bin} {port}\"", "needs: [nginx]\nfront: own\nfront_run: \"{bin} {conf}\"", ""},
		{"front_run without a front", "protocol: http", "protocol: http\nfront_run: \"{bin}\"",
			"front is missing; front_run requires it"},
		{"front_run of nginx", "needs: [go]\nbuild: go build -o {bin} .\nrun: \"{bin} {port}\"",
			"needs: [nginx]\nfront: nginx\nfront_run: x", `contender.yaml:4: front "nginx": excludes front_run`},
		{"fastcgi alone", "protocol: http", "protocol: fastcgi", ""},
		{"on a socket alone", "{port}", "{socket}", ""},
		{"no port", "{port}", "80", "contender.yaml:5: run: want {addr}, {port} or {socket}, the address to listen on"},
		{"need", "[go]", "[go, rust]", `contender.yaml:3: needs "rust": unknown tool; want go, nginx, python, ruby, cc, mini-httpd, h2o, caddy, haproxy, mariadb or tare`},
		{"front without need", "protocol: http", "protocol: http\nfront: nginx", "contender.yaml:3: needs: nginx is missing; the front is nginx"},
		{"quotes", "go build", "sh -c 'go build'", "contender.yaml:4: build: quotes are not supported"},
		{"placeholder", "{bin} .", "{bim} .", `contender.yaml:4: build: "{bim}": want {bin}, {home}, {dir}, {cores}, {venv}, {ruby}, {mini-httpd}, {h2o}, {caddy}, {haproxy}, {mariadb}, {tare}, {site}, {addr}, {port}, {ports}, {socket}, {conf}, {cert} or {key}`},
		{"several ports alone", "{port}", "{ports}", "contender.yaml:5: run: {ports} requires a front"},
		{"several ports", "needs: [go]\nbuild: go build -o {bin} .\nrun: \"{bin} {port}\"",
			"needs: [nginx]\nfront: nginx\nrun: \"x {ports} {cores}\"", ""},
		{"a front alone", "needs: [go]\nbuild: go build -o {bin} .\nrun: \"{bin} {port}\"",
			"needs: [nginx]\nfront: nginx", ""},
		{"cores", "protocol: http", "protocol: http\ncores: 4", `contender.yaml:7: cores "4": want all or nothing`},
		{"config", "protocol: http", "protocol: http\nconfig: x.conf", `contender.yaml:7: config: want a front, and a file, got "x.conf"`},
		{"TLS", "protocol: http", "protocol: http\ntls: true", ""},
		{"TLS of FastCGI", "protocol: http", "protocol: fastcgi\ntls: true",
			"contender.yaml:7: tls: want protocol http or a front"},
		{"site", "protocol: http", "protocol: http\nsite: x", `contender.yaml:7: site: no folder "x"`},
		{"version", "protocol: http", "protocol: http\nversion: \"{bun} -v\"",
			`contender.yaml:7: version: "{bun}": want {bin}`},
		{"time", "protocol: http", "protocol: http\nready:\n  within: soon", "contender.yaml:8: invalid duration \"soon\": want a time such as 500ms or 30s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			testkit.WriteFile(t, filepath.Join(dir, contender.FileName),
				strings.Replace(fine, test.from, test.to, 1))
			_, err := contender.ReadSpec(dir)
			if test.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var e *yamlfile.Error
			if !errors.As(err, &e) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
	testkit.Fails(contender.ReadSpec(t.TempDir()))(t, "no such contender")
}
