package syslog_test

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/front/internal/syslog"
	"github.com/tarehq/tare/internal/testkit"
)

// A message begins as nginx's do.
func TestStartOfMessage(t *testing.T) {
	host, _ := os.Hostname()
	host = strings.ToLower(host)
	at := time.Date(2024, 5, 1, 2, 3, 4, 0, time.UTC)
	for text, want := range map[string]string{
		"syslog:server=127.0.0.1": "<187>May  1 02:03:04 " + host + " nginx: ",
		"syslog:server=[::1]":     "<187>May  1 02:03:04 " + host + " nginx: ",
		"syslog:server=log.a-b":   "<187>May  1 02:03:04 " + host + " nginx: ",
		"syslog:facility=user,server=[::1]:5140,tag=a_1,nohostname": "<11>May  1 02:03:04 a_1: ",
	} {
		to := testkit.Value(syslog.Parse(text))(t)
		testkit.Equal(t, string(to.AppendStart(nil, syslog.Severity(3), at)), want, text)
	}
	testkit.Equal(t, testkit.Value(syslog.Parse("syslog:severity=alert,server=x"))(t).Severity(), syslog.Severity(1))
}

func TestInvalidTargets(t *testing.T) {
	for text, want := range map[string]string{
		"syslog:":                                        "unknown parameter",
		"syslog:tag=x":                                   "missing server=",
		"syslog:server=":                                 "invalid server",
		"syslog:server=x:http":                           "invalid server",
		"syslog:server=127.0.0.1:514:514":                "invalid server",
		"syslog:server=$host":                            "invalid server",
		"syslog:server=a,server=b":                       "a second server",
		"syslog:server=unix:":                            "lacks a path",
		"syslog:server=x,facility=local8":                "unknown facility",
		"syslog:server=x,severity=fatal":                 "unknown severity",
		"syslog:server=x,tag=a-b":                        "invalid tag",
		"syslog:server=x,hostname":                       "unknown parameter",
		"syslog:server=x,tag=" + strings.Repeat("a", 33): "invalid tag",
	} {
		testkit.Fails(syslog.Parse(text))(t, want, text)
	}
}

// received returns the next message of a server.
func received(t *testing.T, server net.PacketConn) string {
	t.Helper()
	b := make([]byte, 64<<10)
	testkit.Must(t, server.SetReadDeadline(time.Now().Add(time.Minute)))
	n, _, err := server.ReadFrom(b)
	testkit.Must(t, err)
	return string(b[:n])
}

// Each line is a message, a long one is cut, and messages arrive again once a server has returned.
func TestMessagesAreSent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	listen := func() net.PacketConn {
		_ = os.Remove(path) // it may not exist
		return testkit.Value(net.ListenPacket("unixgram", path))(t)
	}
	to := testkit.Value(syslog.Parse("syslog:server=unix:" + path))(t)
	var reports []string
	out := to.Open(func(text string) { reports = append(reports, text) })
	defer out.Close()
	write := func(text string) {
		testkit.Equal(t, testkit.Value(out.Write([]byte(text)))(t), len(text))
	}
	write("before\n")
	write("before, too\n")
	testkit.Matches(t, strings.Join(reports, "|"), "^1 messages lost: [^|]*$")
	for range 2 {
		server := listen()
		write("one\n" + strings.Repeat("x", 20<<10) + "\n")
		testkit.Equal(t, received(t, server), "one")
		testkit.Equal(t, received(t, server), strings.Repeat("x", 16<<10))
		server.Close()
	}
}

// A server that receives nothing costs one wait for all lines of a Write, and Close ends it.
func TestStuckServerDoesNotHoldLinesUp(t *testing.T) {
	testkit.Long(t, "it waits for a timeout")
	path := filepath.Join(t.TempDir(), "s")
	server := testkit.Value(net.ListenPacket("unixgram", path))(t)
	defer server.Close()
	to := testkit.Value(syslog.Parse("syslog:server=unix:" + path))(t)
	const lines = 20_000 // each of which could wait for a second
	lost := 0
	out := to.Open(func(text string) {
		n, why, _ := strings.Cut(text, " messages lost: ")
		testkit.Matches(t, why, "timeout|"+net.ErrClosed.Error())
		more, _ := strconv.Atoi(n)
		lost += more
	})
	written := make(chan int)
	go func() {
		n, _ := out.Write([]byte(strings.Repeat("line\n", lines)))
		written <- n
		n, _ = out.Write([]byte("another\n"))
		written <- n
	}()
	for _, want := range []int{5 * lines, len("another\n")} {
		testkit.Equal(t, <-written, want, "written bytes")
		testkit.Check(t, out.Close()) // perhaps while the second Write waits
	}
	testkit.Between(t, lost, 1, lines+1, "lost lines")
}
