package fleet_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
	"github.com/tarehq/tare/load/agent"
	"github.com/tarehq/tare/load/fleet"
)

// A session of an agent is one of this process, over the channel.
func TestSessionOfAnAgent(t *testing.T) {
	testkit.Long(t, "it starts agents")
	url, served := server(t)
	f := open(t, 1, fleet.Options{})
	ctx := context.Background()
	var sessions []*fleet.Session
	for range 2 {
		s, err := f.OpenSession(ctx, load.Plan{URL: url, Connections: 2}, &agent.TLS{})
		testkit.Must(t, err)
		sessions = append(sessions, s)
	}
	counted := uint64(0)
	for i := range 6 {
		n := slice(t, sessions[i%2], i > 1, served)
		if i > 1 && i%2 == 0 {
			counted += n
		}
	}
	if r := sessions[0].Close(); r.Requests != counted || r.Latency.Count() != int64(counted) ||
		sessions[0].Close() != r {
		t.Errorf("%+v, want %d requests", r, counted)
	}
	if _, err := sessions[0].Slice(ctx, 1, true); err == nil {
		t.Error("a closed session has a slice")
	}
	// Interrupted in a slice, it has no result. The other one works on.
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	third, err := f.OpenSession(ctx, load.Plan{URL: url, Connections: 1}, nil)
	testkit.Must(t, err)
	if _, err := third.Slice(short, time.Second, true); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if r := third.Close(); r.Requests != 0 || !strings.Contains(r.Errors.First, "interrupted") {
		t.Errorf("%+v", r)
	}
	for late := time.Now().Add(time.Minute); ; {
		slice, err := sessions[1].Slice(ctx, 30*time.Millisecond, true)
		if err != nil || time.Now().After(late) {
			t.Fatalf("%+v, %v", slice, err)
		}
		if slice.Requests > 0 {
			break
		}
	}
	_, err = f.OpenSession(ctx, load.Plan{URL: "http://127.0.0.1:1/", Connections: 1, Timeout: time.Second}, nil)
	if _, ok := errors.AsType[*load.ConnectError](err); !ok {
		t.Error(err)
	}
	_, err = f.OpenSession(ctx, load.Plan{URL: url, Samples: 1}, nil)
	if _, ok := errors.AsType[*load.PlanError](err); !ok {
		t.Error(err)
	}
	r, err := f.Run(ctx, load.Plan{URL: url, Connections: 1, Requests: 20})
	if err != nil || r.Requests != 20 {
		t.Error(r, err)
	}
}

// slice loads the server of a session until it has served a request, and returns the number of
// requests. On a busy machine it may serve none in a short time, so each slice is longer than the
// one before.
func slice(t *testing.T, s *fleet.Session, counts bool, served *atomic.Int64) uint64 {
	t.Helper()
	for d := 30 * time.Millisecond; d < time.Minute; d *= 2 {
		before := served.Load()
		slice, err := s.Slice(t.Context(), d, counts)
		n := uint64(served.Load() - before)
		if err != nil || counts && slice.Requests != n || slice.Elapsed < d {
			t.Fatalf("%+v, %v: %d served", slice, err, n)
		}
		if n > 0 {
			return n
		}
	}
	t.Fatal("no request was served")
	return 0
}

// An agent that dies or freezes in a slice is an error that names it.
func TestSessionOfALostAgent(t *testing.T) {
	testkit.Long(t, "it starts agents")
	for name, test := range map[string]struct {
		signal  syscall.Signal
		silence time.Duration
		want    string
	}{
		"killed": {syscall.SIGKILL, time.Minute, "killed"},
		"frozen": {syscall.SIGSTOP, 2 * time.Second, "nothing arrived"},
	} {
		t.Run(name, func(t *testing.T) {
			url, _ := server(t)
			f := open(t, 1, fleet.Options{Silence: test.silence})
			s, err := f.OpenSession(context.Background(), load.Plan{URL: url, Connections: 1}, nil)
			testkit.Must(t, err)
			time.AfterFunc(100*time.Millisecond, func() { _ = f.cmds[0].Process.Signal(test.signal) })
			_, err = s.Slice(context.Background(), time.Minute, true)
			if lost, ok := errors.AsType[*fleet.Error](err); !ok || !strings.Contains(lost.Error(), test.want) {
				t.Errorf("%v, want %s", err, test.want)
			}
			if r := s.Close(); r.Requests != 0 || r.Errors.First == "" {
				t.Errorf("%+v", r)
			}
		})
	}
}
