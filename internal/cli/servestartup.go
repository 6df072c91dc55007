package cli

import (
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/tarehq/tare/internal/privilege"
)

// printStartup prints what is served, where and as which user, and what will not work.
func (s *fileServer) printStartup(o *privilege.Outcome) {
	s.stderrLog.print(fmt.Sprintf("serving %s%s", s.plan.dir, s.describeFiles()))
	for _, l := range s.listeners {
		s.stderrLog.print("listening on " + urlOf(l, s.certs != nil))
	}
	s.stderrLog.print("running as " + describeUser(o))
	if o.UID == 0 {
		s.stderrLog.print("warning: running as root; set --user to drop privileges")
	}
	if o.Unconfined != "" {
		s.stderrLog.print("not sandboxed: " + o.Unconfined)
	}
	s.printCertificate(o)
	s.printAccessLog(o)
}

// describeFiles describes how the folder is served.
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

// urlOf returns a listener's URL.
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

// describeUser describes the user that serves, and the restrictions.
func describeUser(o *privilege.Outcome) string {
	text := fmt.Sprintf("user %d", o.UID)
	if o.User != "" {
		text = fmt.Sprintf("%s (%d), group %s (%d), no other groups", o.User, o.UID, o.Group, o.GID)
	}
	if o.Chroot {
		text += "; chroot to the folder"
	}
	if o.NoNewPrivs {
		text += "; no new privileges"
	}
	if o.Landlock > 0 {
		text += fmt.Sprintf("; sandboxed by Landlock version %d", o.Landlock)
	}
	return text
}

// printCertificate prints the certificate, and whether it can be reloaded.
func (s *fileServer) printCertificate(o *privilege.Outcome) {
	if s.certs == nil {
		return
	}
	text := "certificate: " + s.certs.Describe(time.Now())
	if _, err := s.certs.Reload(); err != nil {
		s.stderrLog.print(fmt.Sprintf("%s; %s cannot reload it, so a new one requires a restart: %v", text, userName(o),
			err))
		return
	}
	s.canReloadCert = true
	s.stderrLog.print(text + "; reloaded when it changes")
}

// printAccessLog prints the access log, and whether it can be rotated.
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
		s.stderrLog.print(fmt.Sprintf("%s; %s cannot reopen it, so rotate it by copying and truncating: %v", text,
			userName(o), err))
		return
	}
	file.Close()
	s.stderrLog.print(text + "; SIGUSR1 reopens it")
}

func userName(o *privilege.Outcome) string {
	if o.User != "" {
		return o.User
	}
	return fmt.Sprintf("user %d", os.Getuid())
}
