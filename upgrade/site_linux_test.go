package upgrade_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/upgrades"
)

// site is a running server, whose processes replace each other.
type site struct {
	*upgrades.Site
	settings settings
}

// start starts the server's first process. environment has further variables.
func start(t *testing.T, s settings, environment ...string) *site {
	t.Helper()
	return activate(t, s, nil, environment...)
}

// activate starts the server's first process with sockets, as a service manager does.
func activate(t *testing.T, s settings, sockets []*os.File, environment ...string) *site {
	t.Helper()
	if s.Folder == "" {
		s.Folder = t.TempDir()
	}
	text := testkit.Value(json.Marshal(s))(t)
	c := exec.Command(os.Args[0])
	if sockets != nil {
		c = exec.Command("sh", "-c", "LISTEN_PID=$$ exec "+os.Args[0])
		c.ExtraFiles = sockets
		environment = append(environment, "LISTEN_FDS="+strconv.Itoa(len(sockets)))
	}
	c.Env = append(os.Environ(), settingsVariable+"="+string(text))
	c.Env = append(c.Env, environment...)
	site := &site{&upgrades.Site{T: t, Folder: s.Folder}, s}
	site.Start(c)
	site.PID()
	return site
}

// clients returns clients of all kinds that the server has, each with its own connections.
func (s *site) clients() []upgrades.Client {
	plain := s.Await("plain")
	all := []upgrades.Client{
		&upgrades.RawClient{Network: "tcp", Address: plain},
		&upgrades.RawClient{Network: "tcp", Address: plain, Once: true},
	}
	if s.settings.Unix {
		all = append(all, &upgrades.RawClient{Network: "unix", Address: s.Path("socket")})
	}
	if s.settings.TLS {
		// net/http sends GOAWAY without a warning. A client then repeats the requests that were on
		// their way, which is safe: the server names those that it has accepted (RFC 9113, 6.8).
		all = append(all, &upgrades.HTTP2Client{Address: s.Await("secure"), MayRepeat: s.settings.Kind == "http"})
	}
	return all
}

// load starts n clients of each kind.
func (s *site) load(n int) *upgrades.Load {
	l := s.Load()
	for id := range n {
		for _, c := range s.clients() {
			l.Add(c, "/?", strconv.Itoa(id)+" ")
		}
	}
	return l
}
