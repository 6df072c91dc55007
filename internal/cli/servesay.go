package cli

import (
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/tarehq/tare/internal/privilege"
)

// introduce says what is served, where, and as whom, and what will not work.
func (s *fileServer) printStartup(o *privilege.Outcome) {
	s.stderrLog.print(fmt.Sprintf("serving %s%s", s.plan.dir, s.describeFiles()))
	for _, l := range s.listeners {
		s.stderrLog.print("on " + urlOf(l, s.certs != nil))
	}
	s.stderrLog.print("as " + describeUser(o))
	if o.UID == 0 {
		s.stderrLog.print("root serves this: give --user to have somebody else do it")
	}
	if o.Unconfined != "" {
		s.stderrLog.print("not confined: " + o.Unconfined)
	}
	s.printCertificate(o)
	s.printAccessLog(o)
}

// manner is how the folder is served.
func (s *fileServer) describeFiles() string {
	f, words := s.plan.files, []string{}
	if len(f.Index) > 0 {
		words = append(words, "index "+strings.Join(f.Index, " or "))
	}
	if f.Listing {
		words = append(words, "listings")
	}
	if f.Dotfiles {
		words = append(words, "dotfiles")
	}
	if len(words) == 0 {
		return ""
	}
	return ", with " + strings.Join(words, ", ")
}

// urlOf is where a listener can be reached.
func urlOf(l net.Listener, secure bool) string {
	scheme := "http"
	if secure {
		scheme = "https"
	}
	switch a := l.Addr().(type) {
	case *net.TCPAddr:
		if a.IP.IsUnspecified() {
			return fmt.Sprintf("%s://localhost:%d/ and all other addresses", scheme, a.Port)
		}
		return fmt.Sprintf("%s://%s/", scheme, a)
	default:
		return fmt.Sprintf("%s over the unix socket %s", scheme, a)
	}
}

// whom is as whom is served, and what he cannot do.
func describeUser(o *privilege.Outcome) string {
	text := fmt.Sprintf("user %d", o.UID)
	if o.User != "" {
		text = fmt.Sprintf("%s (%d), group %s (%d), without other groups", o.User, o.UID, o.Group, o.GID)
	}
	if o.Chroot {
		text += "; the folder is the root"
	}
	if o.NoNewPrivs {
		text += "; no new privileges"
	}
	if o.Landlock > 0 {
		text += fmt.Sprintf("; confined by Landlock %d", o.Landlock)
	}
	return text
}

// introduceKeys says what is served over TLS, and whether that can be renewed.
func (s *fileServer) printCertificate(o *privilege.Outcome) {
	if s.certs == nil {
		return
	}
	text := "certificate: " + s.certs.Describe(time.Now())
	if _, err := s.certs.Reload(); err != nil {
		s.stderrLog.print(fmt.Sprintf("%s; %s cannot read it again, a new one needs a new start: %v", text, userName(o), err))
		return
	}
	s.canReloadCert = true
	s.stderrLog.print(text + "; read again when it changes")
}

// introduceLog says where the log is, and whether it can be rotated.
func (s *fileServer) printAccessLog(o *privilege.Outcome) {
	switch {
	case s.log == nil:
		return
	case s.logFile == nil:
		s.stderrLog.print(fmt.Sprintf("access log: %s, %s", s.plan.accessLog, s.plan.format))
		return
	}
	text := fmt.Sprintf("access log: %s, %s", s.plan.accessLog, s.plan.format)
	file, err := s.logFile.Open(logFlags, 0)
	if err != nil {
		s.stderrLog.print(fmt.Sprintf("%s; %s cannot open it again, rotate it by copying and truncating: %v", text, userName(o), err))
		return
	}
	file.Close()
	s.stderrLog.print(text + "; SIGUSR1 opens it again")
}

func userName(o *privilege.Outcome) string {
	if o.User != "" {
		return o.User
	}
	return fmt.Sprintf("user %d", os.Getuid())
}
