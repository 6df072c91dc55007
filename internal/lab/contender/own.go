package contender

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tarehq/tare/internal/lab/proc"
	"github.com/tarehq/tare/internal/lab/yamlfile"
)

// Values of Spec.Network.
const (
	TCP  = "tcp"
	Unix = "unix"
)

func (s *Spec) words() []string {
	if len(s.Command) > 0 {
		return s.Command
	}
	return strings.Fields(s.Run)
}

// hasPlaceholder reports whether the application's command or environment has one of the
// placeholders.
func (s *Spec) hasPlaceholder(placeholders ...string) bool {
	words := strings.Join(slices.Concat(s.words(), s.Env), " ")
	return slices.ContainsFunc(placeholders, func(p string) bool { return strings.Contains(words, p) })
}

// HasAddress reports whether the application's command or environment has a placeholder for an
// address of a network.
func (s *Spec) HasAddress(network string) bool {
	if network == Unix {
		return s.hasPlaceholder("{socket}")
	}
	return s.hasPlaceholder("{addr}", "{port}")
}

// addressFault returns the key and the description of an error in how the application gets its
// address.
func (s *Spec) addressFault() (key, what string) {
	port, socket := s.hasPlaceholder("{addr}", "{port}", "{ports}"), s.hasPlaceholder("{socket}")
	key = "run"
	if len(s.Command) > 0 {
		key = "command"
	}
	switch {
	case len(s.words()) == 0:
		return "", "" // the front serves alone
	case s.hasPlaceholder("{ports}") && (s.Front == "" || s.hasPlaceholder("{addr}", "{port}")):
		return key, "{ports} requires a front, and excludes {port} and {addr}"
	case len(s.Command) > 0 && s.Run != "":
		return key, "want either command or run, got both"
	case !port && !socket:
		return key, "want {addr}, {port} or {socket}, the address to listen on"
	case s.Network == "" && port && socket:
		return key, "want either {port} or {socket}; with both, set network to tcp or unix"
	case s.Network == "", s.Network == TCP && port, s.Network == Unix && socket:
		return "", ""
	case s.Network != TCP && s.Network != Unix:
		return "network", fmt.Sprintf("got %q, want %s or %s", s.Network, TCP, Unix)
	}
	return "network", fmt.Sprintf("the application has no placeholder for an address of %s", s.Network)
}

// Fit sets the defaults of a Spec without a folder of its own. dir is the folder of its file;
// relative paths are relative to it.
func (s *Spec) Fit(dir string) {
	if s.Dir = dir; s.Folder == "" || !filepath.IsAbs(s.Folder) {
		s.Folder = filepath.Join(dir, s.Folder)
	}
	if s.Ready.Within == 0 {
		s.Ready.Within = yamlfile.Duration(defaultReady)
	}
}

// Program returns the path of Command's program, found as a shell in Folder would find it.
func (s *Spec) Program() (string, error) {
	name := s.Command[0]
	if strings.Contains(name, "/") && !filepath.IsAbs(name) {
		name = filepath.Join(s.Folder, name)
	}
	path, err := exec.LookPath(name)
	switch {
	case errors.Is(err, os.ErrPermission):
		return "", fmt.Errorf("%q is not executable", s.Command[0])
	case errors.Is(err, os.ErrNotExist):
		return "", fmt.Errorf("no program %q in %q", s.Command[0], s.Folder)
	case err != nil:
		return "", fmt.Errorf("no program %q in PATH", s.Command[0])
	}
	return path, nil
}

// notice adds a process that outlived its contender to Left. It ignores processes of the parts'
// groups: they received SIGTERM and may have been ending.
func (r *Running) notice(p proc.Process) {
	signaled := slices.ContainsFunc(r.parts, func(of *part) bool { return of.cmd.Process.Pid == p.Group })
	if known := slices.ContainsFunc(r.Left, func(q proc.Process) bool { return q.PID == p.PID }); !signaled &&
		!known && !p.Zombie {
		r.Left = append(r.Left, p)
	}
}

// leftText describes the processes that a contender left behind although it could not be started.
func (r *Running) leftText() string {
	if len(r.Left) == 0 {
		return ""
	}
	return fmt.Sprintf(", and left %s behind, which was killed: an application must stay in the foreground", Names(r.Left))
}

// Names returns the names and numbers of processes as a text.
func Names(all []proc.Process) string {
	names := make([]string, len(all))
	for i, p := range all {
		names[i] = fmt.Sprintf("%q (process %d)", p.Name, p.PID)
	}
	return strings.Join(names, ", ")
}

// elsewhere lists the addresses on which a contender's processes listen, for the error about the
// expected one.
func (r *Running) elsewhere() string {
	family, err := r.Processes()
	if err != nil {
		return ""
	}
	listening, err := proc.Listening(family)
	if err != nil {
		return ""
	}
	places := slices.Sorted(maps.Keys(listening))
	want := strings.Join(r.upstreams, ", ")
	if len(r.upstreams) == 0 || slices.Contains(places, r.upstreams[0]) {
		return ""
	}
	places = slices.DeleteFunc(places, func(p string) bool { return p == r.Address })
	if len(places) == 0 {
		return fmt.Sprintf("; its application does not listen at %s, nor anywhere else", want)
	}
	return fmt.Sprintf("; its processes listen at %s, not at %s", strings.Join(places, ", "), want)
}
