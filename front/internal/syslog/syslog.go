// Package syslog sends lines of logs to a syslog server as nginx does: a datagram each, in the
// format of RFC 3164.
package syslog

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
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
	// reportEvery is the minimum time between two reports of lost messages.
	reportEvery = 10 * time.Second
)

// Severity is the severity of a message.
type Severity int

// Severities of messages.
const (
	Emerg Severity = iota
	Alert
	Crit
	Error
	Warn
	Notice
	Info
	Debug
)

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
	t := &Target{severity: Info, facility: facilityOf(defaultFacility)}
	tag, hasHostname := defaultTag, true
	for parameter := range strings.SplitSeq(strings.TrimPrefix(text, Prefix), ",") {
		name, value, _ := strings.Cut(parameter, "=")
		var err error
		switch name {
		case "server":
			err = t.setServer(value)
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
	if t.address == "" {
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
	t.network, t.address = "udp", value
	host, port, err := net.SplitHostPort(value)
	if err != nil {
		host, port = strings.TrimSuffix(strings.TrimPrefix(value, "["), "]"), defaultPort
		t.address = net.JoinHostPort(host, port)
	}
	if n, err := strconv.ParseUint(port, 10, 16); host == "" || err != nil || n == 0 {
		return fmt.Errorf("invalid server %q: want an address and perhaps a port, or unix: and a path", value)
	}
	return nil
}

func isTag(tag string) bool {
	for _, c := range []byte(tag) {
		if (c|0x20 < 'a' || c|0x20 > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return tag != "" && len(tag) <= maxTag
}

// facilityOf returns the number of a facility, or -1.
func facilityOf(name string) int {
	return slices.Index([]string{"kern", "user", "mail", "daemon", "auth", "intern", "lpr", "news", "uucp", "clock",
		"authpriv", "ftp", "ntp", "audit", "alert", "cron", "local0", "local1", "local2", "local3", "local4", "local5",
		"local6", "local7"}, name)
}

// severityOf returns a severity by its name, or -1.
func severityOf(name string) Severity {
	return Severity(slices.Index([]string{"emerg", "alert", "crit", "error", "warn", "notice", "info", "debug"}, name))
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

// sender sends messages. One goroutine uses it at a time.
type sender struct {
	target     *Target
	report     func(text string)
	conn       net.Conn // nil until it is needed, and after an error
	lost       int      // messages that were not reported
	lastReport time.Time
}

// Write implements io.Writer.
func (s *sender) Write(lines []byte) (int, error) {
	for line := range bytes.Lines(lines) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		s.send(line[:min(len(line), maxMessage)])
	}
	return len(lines), nil
}

// send sends a message. A connected socket reports with a later message that nobody has received an
// earlier one, so it tries twice.
func (s *sender) send(message []byte) {
	err := s.try(message)
	if err != nil {
		err = s.try(message)
	}
	if err == nil {
		return
	}
	if s.lost++; time.Since(s.lastReport) >= reportEvery {
		s.report(fmt.Sprintf("%d messages lost: %v", s.lost, err))
		s.lost, s.lastReport = 0, time.Now()
	}
}

func (s *sender) try(message []byte) (err error) {
	if s.conn == nil {
		if s.conn, err = net.DialTimeout(s.target.network, s.target.address, sendTimeout); err != nil {
			s.conn = nil
			return err
		}
	}
	if err = s.conn.SetWriteDeadline(time.Now().Add(sendTimeout)); err == nil {
		_, err = s.conn.Write(message)
	}
	if err != nil {
		_ = s.Close()
	}
	return err
}

// Close implements io.Closer.
func (s *sender) Close() error {
	if s.conn == nil {
		return nil
	}
	err := s.conn.Close()
	s.conn = nil
	return err
}
