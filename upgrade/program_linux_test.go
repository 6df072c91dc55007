package upgrade_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/fcgi"
	"github.com/tarehq/tare/internal/testkit/tlstest"
	"github.com/tarehq/tare/internal/testkit/upgrades"
	"github.com/tarehq/tare/upgrade"
)

// The tests start their own program again as a server.

// settingsVariable is the variable of the environment that makes this program a server.
const settingsVariable = "TARE_TEST_SERVER"

// settings are those of the server. All of its processes share the folder.
type settings struct {
	Folder string
	Kind   string // "tare", "http" or "fcgi"
	Unix   bool   // listen on a unix socket, too
	TLS    bool
	Ready  time.Duration // Options.ReadyTimeout
	Grace  time.Duration // Options.IdleGrace
	Drain  time.Duration // Options.DrainTimeout
	Name   string        // of passed sockets to serve, too
	Script bool          // new processes are those of the script "program" in the folder
}

func (s settings) path(name string) string { return filepath.Join(s.Folder, name) }

// Faults of new processes. The file "fault" in the folder holds one.
const (
	exitsAtOnce   = "exit"     // before New
	exitsLater    = "listened" // after Listen
	hangs         = "hang"     // after Listen; writes its process ID to the file "hangs"
	waits         = "wait"     // like hangs, until the file "go" exists
	hasBrokenPIDs = "pid"      // its PID file cannot be written
)

func TestMain(m *testing.M) {
	text := os.Getenv(settingsVariable)
	if text == "" {
		os.Exit(m.Run())
	}
	var s settings
	err := json.Unmarshal([]byte(text), &s)
	if err == nil {
		err = s.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run is the server's main function.
func (s settings) run() error {
	upgrades.ExitWithTest()
	b, _ := os.ReadFile(s.path("fault")) // none is no fault
	fault := string(b)
	if fault == exitsAtOnce {
		os.Exit(7)
	}
	options := upgrade.Options{PIDFile: s.path("pid"), ReadyTimeout: s.Ready, IdleGrace: s.Grace,
		DrainTimeout: s.Drain, Logger: slog.New(slog.NewTextHandler(s.log(), nil))}
	if s.Script {
		options.Executable = s.path("program")
	}
	if fault == hasBrokenPIDs {
		options.PIDFile = s.path("missing/pid")
	}
	u, err := upgrade.New(options)
	if err != nil {
		return err
	}
	if err := s.listen(u); err != nil {
		return err
	}
	switch fault {
	case exitsLater:
		os.Exit(8)
	case hangs, waits:
		s.announce("hangs", strconv.Itoa(os.Getpid()))
		for _, err := os.Stat(s.path("go")); err != nil || fault == hangs; _, err = os.Stat(s.path("go")) {
			time.Sleep(time.Millisecond)
		}
	}
	return u.Run(context.Background())
}

// log returns the file that all processes append their log lines to.
func (s settings) log() io.Writer {
	f, err := os.OpenFile(s.path("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return os.Stderr
	}
	return f
}

// announce writes a file at once.
func (s settings) announce(name, text string) {
	_ = upgrades.Announce(s.path(name), text) // the test misses it
}

// listen opens the server's sockets.
func (s settings) listen(u *upgrade.Upgrader) error {
	plain, err := u.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.announce("plain", plain.Addr().String())
	listeners := []net.Listener{plain}
	if s.Unix {
		l, err := u.Listen("unix", s.path("socket"))
		if err != nil {
			return err
		}
		listeners = append(listeners, l)
	}
	if s.Name != "" {
		passed, err := u.Activated(s.Name)
		if err != nil {
			return err
		}
		listeners = append(listeners, passed...)
	}
	handler := u.Handler(s.handler())
	var server upgrade.Server
	// net/http must find h2 here if Serve is called before ServeTLS
	config, _ := tlstest.Configs()
	config.NextProtos = []string{"h2", "http/1.1"}
	inner := &http.Server{Handler: handler, TLSConfig: config}
	switch s.Kind {
	case "fcgi":
		server = &fcgi.Server{Handler: handler}
	case "http":
		server = inner
	default:
		server = tare.Wrap(inner)
	}
	for _, l := range listeners {
		u.Serve(server, l)
	}
	if !s.TLS {
		return nil
	}
	secure, err := u.Listen("tcp", "localhost:0")
	if err != nil {
		return err
	}
	s.announce("secure", secure.Addr().String())
	u.ServeTLS(server.(upgrade.TLSServer), secure, "", "")
	return nil
}

// handler returns the server's handler. All responses have the process ID.
func (s settings) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { // an echo
		w.Header().Set("Pid", strconv.Itoa(os.Getpid()))
		var body bytes.Buffer
		if _, err := body.ReadFrom(r.Body); err == nil {
			_, _ = w.Write(body.Bytes())
		}
	})
	mux.HandleFunc("/download", func(w http.ResponseWriter, r *http.Request) { // ends when a file appears
		io.WriteString(w, strconv.Itoa(os.Getpid())+"\n")
		_ = http.NewResponseController(w).Flush()
		for _, err := os.Stat(s.path("finish")); err != nil; _, err = os.Stat(s.path("finish")) {
			time.Sleep(time.Millisecond)
		}
		io.WriteString(w, "end")
	})
	mux.HandleFunc("/socket", func(w http.ResponseWriter, r *http.Request) { // like a websocket
		c, stream, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		fmt.Fprintf(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n%d\n", os.Getpid())
		_, _ = io.Copy(c, stream)
	})
	return mux
}
