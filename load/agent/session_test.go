package agent_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/load/agent"
)

// about returns a condition for records of a session.
func about(id int) func(agent.Record) bool {
	return func(r agent.Record) bool { return r.Session != nil && r.Session.ID == id }
}

// Sessions of one agent load servers in turn, and report each slice and the sum of those that
// count.
func TestSessionsTakeTurns(t *testing.T) {
	url, served := counting(t)
	s := serve(t, agent.Options{})
	for id := 1; id <= 2; id++ {
		s.send(t, `{"session":{"id":%d,"plan":{"url":%q,"connections":2}}}`, id, url)
		if r := s.next(t, about(id)); !r.Session.IsOpen || r.Error != nil {
			t.Fatalf("%+v", r)
		}
	}
	counted := uint64(0)
	for _, counts := range []bool{false, true, true} {
		for id := 1; id <= 2; id++ {
			requests := s.slice(t, id, counts, served)
			if counts && id == 2 {
				counted += requests
			}
		}
	}
	s.send(t, `{"session":{"id":2,"close":true}}`)
	if r := s.next(t, about(2)); r.Result == nil || r.Result.Requests != counted {
		t.Errorf("%+v, want %d requests", r.Result, counted)
	}
	// The number is free again, and the end of the input ends the other session in its slice.
	s.send(t, `{"session":{"id":2,"plan":{"url":"http://127.0.0.1:1/","connections":1,"timeoutNs":1000000000}}}`)
	if r := s.next(t, about(2)); r.Error == nil || r.Error.Kind != agent.NoConnection {
		t.Errorf("%+v", r)
	}
	s.send(t, `{"session":{"id":1,"slice":{"forNs":%d,"counts":true}}}`, time.Hour)
	s.in.Close()
	if r := s.next(t, about(1)); r.Error == nil || r.Error.Kind != agent.Interrupted {
		t.Errorf("%+v", r)
	}
	if err := s.end(t); err != nil {
		t.Error(err)
	}
}

// slice loads the server of a session until it has served a request, and returns the number of
// requests. On a busy machine it may serve none in a short time, so each slice is longer than the
// one before.
func (s *served) slice(t *testing.T, id int, counts bool, served *atomic.Int64) uint64 {
	t.Helper()
	for d := 50 * time.Millisecond; d < patience; d *= 2 {
		before := served.Load()
		s.send(t, `{"session":{"id":%d,"slice":{"forNs":%d,"counts":%v}}}`, id, d, counts)
		r := s.next(t, about(id))
		slice, n := r.Session.Slice, uint64(served.Load()-before)
		if slice == nil || counts && slice.Requests != n || slice.Elapsed < d {
			t.Fatalf("%+v: %d requests served", r, n)
		}
		if n > 0 {
			return n
		}
	}
	t.Fatalf("no request of session %d was served", id)
	return 0
}

// Invalid plans and closed sessions are reported, and the agent goes on. Commands in the wrong
// order end it.
func TestInvalidSessionsAreReported(t *testing.T) {
	url, _ := counting(t)
	s := serve(t, agent.Options{})
	for command, kind := range map[string]agent.ErrorKind{
		`{"id":1,"plan":{"url":"ftp://x"}}`:                         agent.BadPlan,
		`{"id":1,"plan":{"url":"http://127.0.0.1:1/","samples":1}}`: agent.BadPlan,
		`{"id":1,"close":true}`:                                     agent.Failed,
		`{"id":7,"slice":{"forNs":1}}`:                              agent.Failed,
	} {
		s.send(t, `{"session":%s}`, command)
		if r := s.next(t, func(r agent.Record) bool { return r.Session != nil }); r.Error == nil ||
			r.Error.Kind != kind {
			t.Errorf("%s: %+v, want %s", command, r.Error, kind)
		}
	}
	for want, command := range map[string]string{
		"session 1, which is open": fmt.Sprintf(`{"id":1,"plan":{"url":%q}}`, url),
		"two commands":             `{"id":1,"slice":{"forNs":3600000000000}}`,
	} {
		s := serve(t, agent.Options{})
		s.send(t, `{"session":{"id":1,"plan":{"url":%q,"connections":1}}}`, url)
		s.next(t, about(1))
		go func() {
			for range 3 { // at most one runs and one waits
				fmt.Fprintf(s.in, "{\"session\":%s}\n", command)
			}
		}()
		if err := s.end(t); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", command, err, want)
		}
	}
}
