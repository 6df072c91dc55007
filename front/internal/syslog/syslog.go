// Package syslog sends lines of logs to a syslog server as nginx does: a datagram each, in the
// format of RFC 3164.
package syslog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/front/internal/grammar"
)

const (
	// Prefix is how the text of a Target begins.
	Prefix = "syslog:"

	defaultPort     = "514"
	defaultTag      = "nginx" // rules of servers select messages by it
	defaultFacility = "local7"
	maxTag          = 32
	// maxMessage is the length at which a datagram is cut.
	maxMessage = 16 << 10
	// sendTimeout limits how long a full socket of a local server holds up the other lines.
	sendTimeout = time.Second
	// writeTimeout limits how long all lines of one Write are held up.
	writeTimeout = 3 * time.Second
	// reportEvery is the minimum time between two reports of lost messages.
	reportEvery = 10 * time.Second
)

// Severity is the severity of a message: an index of Severities.
type Severity int

// Severities returns the names of severities, the worst first.
func Severities() [8]string {
	return [...]string{"emerg", "alert", "crit", "error", "warn", "notice", "info", "debug"}
}

// Target is a server, and how messages to it begin.
type Target struct {
	network, address string
	facility         int
	severity         Severity // of messages without one of their own
	start            string   // between the time and the text
}

// Parse parses the address of a log: "syslog:server=192.0.2.1:514,facility=local7,severity=info,
// tag=nginx,nohostname". Only the server is required. It may be a name, or "unix:" and a path.
func Parse(text string) (*Target, error) {
	t := &Target{severity: severityOf("info"), facility: facilityOf(defaultFacility)}
	tag, hasHostname, hasServer := defaultTag, true, false
	for parameter := range strings.SplitSeq(strings.TrimPrefix(text, Prefix), ",") {
		name, value, _ := strings.Cut(parameter, "=")
		var err error
		switch name {
		case "server":
			if err = t.setServer(value); hasServer {
				err = fmt.Errorf("a second server %q: want one (use a second log)", value)
			}
			hasServer = true
		case "facility":
			if t.facility = facilityOf(value); t.facility < 0 {
				err = fmt.Errorf("unknown facility %q", value)
			}
		case "severity":
			if t.severity = severityOf(value); t.severity < 0 {
				err = fmt.Errorf("unknown severity %q", value)
			}
		case "tag":
			if tag = value; !isTag(tag) {
				err = fmt.Errorf("invalid tag %q: want 1 to %d letters, digits and underscores", value, maxTag)
			}
		case "nohostname":
			hasHostname = false
		default:
			err = fmt.Errorf("unknown parameter %q: want server=, facility=, severity=, tag= or nohostname", parameter)
		}
		if err != nil {
			return nil, fmt.Errorf("syslog: %w", err)
		}
	}
	if !hasServer {
		return nil, errors.New("syslog: missing server=")
	}
	t.start = " "
	if hasHostname {
		name, _ := os.Hostname() // without one it is empty
		t.start = " " + strings.ToLower(name) + " "
	}
	t.start += tag + ": "
	return t, nil
}

func (t *Target) setServer(value string) error {
	if path, ok := strings.CutPrefix(value, "unix:"); ok {
		if t.network, t.address = "unixgram", path; path == "" {
			return errors.New("server=unix: lacks a path")
		}
		return nil
	}
	host, port := grammar.SplitPort(value, defaultPort)
	t.network, t.address = "udp", host+":"+port
	if _, err := grammar.ParsePort(port); err != nil || !isHost(strings.Trim(host, "[]")) {
		return fmt.Errorf("invalid server %q: want an address and perhaps a port, or unix: and a path", value)
	}
	return nil
}

// isHost reports whether a server is an IP address, or may be a name.
func isHost(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return host != "" && !strings.ContainsAny(host, ":[]$/ ")
}

func isTag(tag string) bool {
	for _, c := range []byte(tag) {
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return tag != "" && len(tag) <= maxTag
}

func facilityOf(name string) int {
	return slices.Index([]string{"kern", "user", "mail", "daemon", "auth", "intern", "lpr", "news", "uucp", "clock",
		"authpriv", "ftp", "ntp", "audit", "alert", "cron", "local0", "local1", "local2", "local3", "local4", "local5",
		"local6", "local7"}, name)
}

func severityOf(name string) Severity {
	all := Severities()
	return Severity(slices.Index(all[:], name))
}

// Severity returns the severity of messages without one of their own.
func (t *Target) Severity() Severity { return t.severity }

// AppendStart appends what precedes the text of a message.
func (t *Target) AppendStart(b []byte, s Severity, at time.Time) []byte {
	b = append(strconv.AppendInt(append(b, '<'), int64(t.facility<<3)|int64(s), 10), '>')
	return append(at.AppendFormat(b, time.Stamp), t.start...)
}

// Open returns a writer of whole lines, which sends each as a message. It connects when it is used.
// It never fails: lost messages are reported.
func (t *Target) Open(report func(text string)) io.WriteCloser {
	return &sender{target: t, report: report}
}

// sender sends messages. One goroutine writes, and any one closes.
type sender struct {
	target   *Target
	report   func(text string)
	isClosed atomic.Bool

	mu         sync.Mutex // guards the rest; held while messages are sent
	conn       net.Conn   // nil until it is needed, and after an error
	lost       int        // messages that were not reported
	cause      error      // of the last one
	lastReport time.Time
}

// Write implements io.Writer. It takes at most writeTimeout: a server that accepts nothing would
// otherwise delay reopening and closing by a second for each line that waits.
func (s *sender) Write(lines []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	end, isStuck := time.Now().Add(writeTimeout), false
	for line := range bytes.Lines(lines) {
		if s.isClosed.Load() {
			s.cause, isStuck = net.ErrClosed, true
		}
		if isStuck {
			s.lost++
			continue
		}
		line = bytes.TrimSuffix(line, []byte("\n"))
		if err := s.send(line[:min(len(line), maxMessage)], end); err != nil {
			s.lost, s.cause, isStuck = s.lost+1, err, isTimeout(err)
		}
	}
	if s.lost > 0 && time.Since(s.lastReport) >= reportEvery {
		s.reportLost()
	}
	return len(lines), nil
}

func (s *sender) reportLost() {
	s.report(fmt.Sprintf("%d messages lost: %v", s.lost, s.cause))
	s.lost, s.lastReport = 0, time.Now()
}

// send sends a message. A connected socket reports with a later message that nobody has received an
// earlier one, so it tries twice.
func (s *sender) send(message []byte, end time.Time) error {
	err := s.try(message, end)
	if err != nil && !isTimeout(err) {
		err = s.try(message, end)
	}
	return err
}

func (s *sender) try(message []byte, end time.Time) (err error) {
	if s.conn == nil {
		dialer := net.Dialer{Timeout: sendTimeout, Deadline: end}
		if s.conn, err = dialer.Dial(s.target.network, s.target.address); err != nil {
			s.conn = nil
			return err
		}
	}
	deadline := time.Now().Add(sendTimeout)
	if end.Before(deadline) {
		deadline = end
	}
	if err = s.conn.SetWriteDeadline(deadline); err == nil {
		_, err = s.conn.Write(message)
	}
	if err != nil {
		s.disconnect()
	}
	return err
}

func isTimeout(err error) bool {
	ne, ok := errors.AsType[net.Error](err)
	return ok && ne.Timeout()
}

func (s *sender) disconnect() {
	if s.conn != nil {
		_ = s.conn.Close() // datagrams are sent at once
		s.conn = nil
	}
}

// Close implements io.Closer. A Write of another goroutine ends soon. Its caller calls Close, too.
func (s *sender) Close() error {
	s.isClosed.Store(true)
	if s.mu.TryLock() {
		defer s.mu.Unlock()
		if s.disconnect(); s.lost > 0 {
			s.reportLost()
		}
	}
	return nil
}
