package contender

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tarehq/tare/lab/proc"
	"github.com/tarehq/tare/lab/yamlfile"
)

// What a Spec's Network may say.
const (
	TCP  = "tcp"
	Unix = "unix"
)

// words are those that start the application.
func (s *Spec) words() []string {
	if len(s.Command) > 0 {
		return s.Command
	}
	return strings.Fields(s.Run)
}

// told reports whether the application is told of a place by one of the placeholders.
func (s *Spec) told(placeholders ...string) bool {
	for _, word := range slices.Concat(s.words(), s.Env) {
		for _, p := range placeholders {
			if strings.Contains(word, p) {
				return true
			}
		}
	}
	return false
}

// onSocket reports whether the application is reached by a unix socket.
func (s *Spec) onSocket() bool {
	return s.Network == Unix || s.Network == "" && s.told("{socket}")
}

// misplaced says what is wrong with where the application is told to listen, and
// under which key.
func (s *Spec) misplaced() (key, what string) {
	port, socket := s.told("{addr}", "{port}", "{ports}"), s.told("{socket}")
	key = "run"
	if len(s.Command) > 0 {
		key = "command"
	}
	switch {
	case len(s.words()) == 0:
		return "", "" // the front serves alone
	case s.told("{ports}") && (s.Front == "" || s.told("{addr}", "{port}")):
		return key, "several {ports} want a front before them, and no port besides"
	case len(s.Command) > 0 && s.Run != "":
		return key, "there is a run, too; want one of the two"
	case !port && !socket:
		return key, "want {addr}, {port} or {socket}: where the application is to listen"
	case s.Network == "" && port && socket:
		return key, "want {port} or {socket}, and not both, or say in network which of them counts"
	case s.Network == "", s.Network == TCP && port, s.Network == Unix && socket:
		return "", ""
	case s.Network != TCP && s.Network != Unix:
		return "network", fmt.Sprintf("got %q, want %s or %s", s.Network, TCP, Unix)
	}
	return "network", fmt.Sprintf("the application is not told where to listen for %s", s.Network)
}

// Fit fills in what a Spec leaves out when it does not come from a folder of its own:
// dir is that of the file, which relative paths are of.
func (s *Spec) Fit(dir string) {
	if s.Dir = dir; s.Folder == "" || !filepath.IsAbs(s.Folder) {
		s.Folder = filepath.Join(dir, s.Folder)
	}
	if s.Ready.Within == 0 {
		s.Ready.Within = yamlfile.Duration(defaultReady)
	}
}

// Program is the file that Command's first word names: as a shell would find it from
// Folder.
func (s *Spec) Program() (string, error) {
	name := s.Command[0]
	if strings.Contains(name, "/") && !filepath.IsAbs(name) {
		name = filepath.Join(s.Folder, name)
	}
	path, err := exec.LookPath(name)
	switch {
	case errors.Is(err, os.ErrPermission):
		return "", fmt.Errorf("%q is not a program: its file may not be executed", s.Command[0])
	case errors.Is(err, os.ErrNotExist):
		return "", fmt.Errorf("there is no program %q in %q", s.Command[0], s.Folder)
	case err != nil:
		return "", fmt.Errorf("there is no program %q in PATH", s.Command[0])
	}
	return path, nil
}

// notice remembers a process that outlived its contender's end. Those of its parts'
// groups were told to end with them, and may have been about to.
func (r *Running) notice(p proc.Process) {
	told := slices.ContainsFunc(r.parts, func(of *part) bool { return of.cmd.Process.Pid == p.Group })
	if known := slices.ContainsFunc(r.Left, func(q proc.Process) bool { return q.PID == p.PID }); !told && !known && !p.Zombie {
		r.Left = append(r.Left, p)
	}
}

// leftText says which processes a contender that could not be started has left.
func (r *Running) leftText() string {
	if len(r.Left) == 0 {
		return ""
	}
	return fmt.Sprintf(", and left %s behind, which was ended now: an application has to stay in the foreground", Names(r.Left))
}

// Names lists processes as a person would.
func Names(all []proc.Process) string {
	names := make([]string, len(all))
	for i, p := range all {
		names[i] = fmt.Sprintf("%q (process %d)", p.Name, p.PID)
	}
	return strings.Join(names, ", ")
}

// elsewhere says where a contender listens that does not answer where it should.
func (r *Running) elsewhere() string {
	family, err := r.Processes()
	if err != nil {
		return ""
	}
	places, err := proc.Listening(family)
	if err != nil {
		return ""
	}
	told := strings.Join(r.upstreams, ", ")
	if len(r.upstreams) == 0 || slices.Contains(places, r.upstreams[0]) {
		return ""
	}
	places = slices.DeleteFunc(places, func(p string) bool { return p == r.Address })
	if len(places) == 0 {
		return fmt.Sprintf("; its application listens nowhere, and was told to at %s", told)
	}
	return fmt.Sprintf("; its processes listen at %s, and were told to at %s", strings.Join(places, ", "), told)
}
