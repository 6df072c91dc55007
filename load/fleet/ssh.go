package fleet

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// SSH returns a host that the user's ssh reaches, with the user's configuration. The destination is
// ssh's: a name of the configuration, user@host or ssh://user@host:port.
//
// The program is copied once, to the folder tare of the remote user's cache, below its checksum. Of
// several programs, the one for the machine's architecture is copied.
func SSH(destination string, programs []*Program) Host {
	s := &sshHost{destination: destination, programs: programs, used: programs[0]}
	return Host{Name: destination, Command: s.command, Install: s.install}
}

type sshHost struct {
	destination string
	programs    []*Program
	used        *Program
}

// remoteFile returns the shell's words for the folder and the file of a program on the machine. The
// file is named tare, as it appears in lists of processes.
func remoteFile(p *Program) string {
	return `d="${XDG_CACHE_HOME:-$HOME/.cache}/tare/` + p.sum + `"; f="$d/tare"`
}

// command returns the command of an agent, which reports if the program is missing. An empty line
// precedes its output: the last line that a login shell prints may lack its end.
func (s *sshHost) command(context.Context) (*exec.Cmd, error) {
	return s.ssh("echo; " + remoteFile(s.used) + `; if test -x "$f"; then exec "$f" agent; fi; echo "` + missing +
		` $(uname -s) $(uname -m)"`), nil
}

// ssh returns a command that runs a script of the POSIX shell on the machine, whatever the user's
// login shell is. Signals from the terminal reach ssh only while it reads a password: a process
// group of its own could not read one.
func (s *sshHost) ssh(script string) *exec.Cmd {
	quoted := "exec sh -c '" + strings.ReplaceAll(script, "'", `'\''`) + "'"
	return exec.Command("sh", "-c", `trap '' INT HUP; exec ssh -T -- "$@"`, "ssh", s.destination, quoted)
}

// NoProgramError is the error of a host for whose architecture there is no program.
type NoProgramError struct{ Arch string } // as GOARCH

func (e *NoProgramError) Error() string {
	return fmt.Sprintf("its architecture is %s, and no program of tare is for it: build one with GOOS=linux GOARCH=%[1]s",
		e.Arch)
}

// install copies the program to a machine that lacks it. The line holds the system and the
// architecture, as uname reports them.
func (s *sshHost) install(ctx context.Context, line string) error {
	system, machine, _ := strings.Cut(line, " ")
	if system != "Linux" {
		return fmt.Errorf("its system is %q: want Linux", system)
	}
	fits := false
	for _, p := range s.programs {
		if p.arch == goArch(machine) {
			s.used, fits = p, true
			break
		}
	}
	if !fits {
		return &NoProgramError{Arch: goArch(machine)}
	}
	file, err := os.Open(s.used.path)
	if err != nil {
		return err
	}
	defer file.Close()
	// The file appears under its name only when it is complete: a cut connection looks like the end
	// of the input.
	c := s.ssh(fmt.Sprintf(`umask 077; %s; t="$f.$$"; if test -x "$f"; then exit 0; fi; `+
		`mkdir -p "$d" && cat >"$t" && test "$(wc -c <"$t")" -eq %d && chmod 700 "$t" && mv -f "$t" "$f" && exit 0; `+
		`rm -f "$t"; rmdir "$d" 2>/dev/null; exit 1`, remoteFile(s.used), s.used.size))
	c.Stdin = file
	if err := runCommand(ctx, c); err != nil {
		return fmt.Errorf("cannot copy the program there: %w", err)
	}
	return nil
}
