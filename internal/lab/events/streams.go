package events

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/proc"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/trial"
	"github.com/tarehq/tare/internal/lab/yamlfile"
	"github.com/tarehq/tare/load/hist"
)

// Streams are clients that keep a stream open, each to a server of contenders/streams. Each case is
// carried out with each kind of stream and each number of clients. Its time begins when all streams
// are open.
type Streams struct {
	Clients []int             `yaml:"clients"`
	Measure yamlfile.Duration `yaml:"measure"` // the length of cases with numbers after the first, which have no plan
	Kinds   []StreamKind      `yaml:"kinds"`
}

// StreamKind describes streams. A server sends an event at once, and then a burst of them every so
// often. The client of a websocket does, and the server echoes.
type StreamKind struct {
	Name     string            `yaml:"name"`
	Title    string            `yaml:"title"`
	Protocol string            `yaml:"protocol"`
	Every    yamlfile.Duration `yaml:"every"`
	Burst    int               `yaml:"burst"`
}

const (
	openRate = 5000 // how many streams are opened in a second
	// openTimeout limits the time until all streams have received their first event.
	openTimeout    = 15 * time.Second
	filesPerStream = 2 // how many files a front opens for each stream
)

// flood is the target of a stream that the server fills as fast as its client reads.
const flood = "/flood?every=1ms&burst=1000000"

func (s *Streams) fault() string {
	switch {
	case s.Measure <= 0:
		return "measure: want a time"
	case slices.ContainsFunc(s.Clients, func(n int) bool { return n < 1 || n > maxConnections }):
		return fmt.Sprintf("clients: want numbers from 1 to %d", maxConnections)
	}
	for _, k := range s.Kinds {
		if k.Name == "" || k.Title == "" || !slices.Contains([]string{SSE, Websocket, GRPC}, k.Protocol) ||
			k.Every <= 0 || k.Burst < 1 {
			return fmt.Sprintf("kinds: want name, title, protocol %s, %s or %s, every, a time, and burst, a number",
				SSE, Websocket, GRPC)
		}
	}
	return ""
}

// Adjust changes the numbers of streams, or that of slow clients, and the time from one step to the
// next. Without numbers or a time it keeps those of the plan.
func (e *Plan) Adjust(clients []int, measure yamlfile.Duration) error {
	s := &e.Streams
	if len(s.Kinds) == 0 {
		switch {
		case measure != 0:
			return errors.New("the experiment has no streams, whose measured time it is")
		case len(clients) == 0:
			return nil
		case len(clients) > 1 || clients[0] < 1 || clients[0] > maxConnections:
			return fmt.Errorf("want one number of slow clients, 1 to %d, got %v", maxConnections, clients)
		}
		e.Crowd.Connections = clients[0]
		return nil
	}
	if len(clients) > 0 {
		s.Clients = clients
	}
	if measure != 0 {
		scaled := func(d yamlfile.Duration) yamlfile.Duration {
			return yamlfile.Duration(float64(d) * float64(measure) / float64(s.Measure))
		}
		for i := range e.Cases {
			e.Cases[i].Plan = slices.Clone(e.Cases[i].Plan) // cases may share it
			for j := range e.Cases[i].Plan {
				e.Cases[i].Plan[j].At = scaled(e.Cases[i].Plan[j].At)
			}
		}
		e.Length, s.Measure = scaled(e.Length), measure
	}
	if what := s.fault(); what != "" {
		return errors.New(what)
	}
	return nil
}

// with returns each case with each kind of stream and number of clients.
func (s *Streams) with(cases []Case) (all []Case) {
	for n, clients := range s.Clients {
		for i := range s.Kinds {
			for _, c := range cases {
				c.kind, c.clients = &s.Kinds[i], clients
				c.Name = fmt.Sprintf("%s-%s-%d", c.Name, c.kind.Name, clients)
				c.copies = 1 + filesPerStream*clients/(int(proc.OpenFiles())-trial.SpareFiles)
				c.Set = maps.Clone(c.Set)
				if c.Set == nil {
					c.Set = make(map[string]string)
				}
				c.Set["protocol"] = c.kind.Protocol
				if n > 0 {
					c.Plan, c.length = nil, s.Measure
				}
				all = append(all, c)
			}
		}
	}
	return all
}

func (k *StreamKind) open(ctx context.Context, conn *grpcConn, address string) (*stream, error) {
	target := fmt.Sprintf("/?every=%v&burst=%d", time.Duration(k.Every), k.Burst)
	switch k.Protocol {
	case Websocket:
		return openWebsocket(ctx, address, time.Duration(k.Every))
	case GRPC:
		return conn.open(ctx, address, target)
	}
	return openSSE(ctx, address, target)
}

func (k *StreamKind) ready(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn := newGRPCConn()
	defer conn.CloseIdleConnections()
	s, err := k.open(ctx, conn, address)
	if err != nil {
		return err
	}
	defer s.Close()
	_, err = s.next()
	return err
}

type streams struct {
	kind    *StreamKind
	running []*contender.Running
	conns   []*grpcConn // of streamsPerConn streams each
	crowd   *crowd      // counts open streams
	clients sync.WaitGroup
	look    look           // at the begin of the last phase
	before  []proc.Process // at the last step that began a phase

	mu     sync.Mutex // guards result
	result *sample.Streams
}

// phaseSteps returns the actions with which a phase of the streams begins.
func phaseSteps() []string { return []string{Stall, Reload, Upgrade, Restart} }

// stream opens the streams and lets the plan happen while their clients receive events.
func (h *happening) stream(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		h.streams.close()
	}()
	if err := h.openStreams(ctx); err != nil {
		return err
	}
	h.started = time.Now()
	err := h.follow(ctx, time.Duration(cmp.Or(h.of.length, h.plan.Length)))
	endErr := h.beginPhase("end")
	if err == nil && endErr == nil {
		err = h.checkEnd(ctx)
	}
	h.streams.mu.Lock()
	defer h.streams.mu.Unlock()
	phases := &h.streams.result.Phases
	*phases = (*phases)[:len(*phases)-1] // the end began no phase
	return errors.Join(err, endErr)
}

// checkEnd waits until a server that was reloaded or upgraded accepts a new stream, and after an
// upgrade until it has a new process. It returns an error if that takes too long.
func (h *happening) checkEnd(ctx context.Context) error {
	last := h.streams.result.Phases[len(h.streams.result.Phases)-2].Step // the one before "end"
	if last != Reload && last != Upgrade {
		return nil
	}
	isNew := func(p proc.Process) bool {
		return !slices.ContainsFunc(h.streams.before, func(old proc.Process) bool { return old.PID == p.PID })
	}
	for deadline := time.Now().Add(openTimeout); ; {
		all, err := processes(h.running)
		if err == nil && last == Upgrade && !slices.ContainsFunc(all, isNew) {
			err = errors.New("no process has replaced the old one")
		}
		if err == nil {
			err = h.of.kind.ready(ctx, h.running[0].Address)
		}
		if err == nil || !time.Now().Before(deadline) || !pause(ctx, tick) {
			return err
		}
	}
}

// openStreams opens the streams of a case, evenly over a time, and returns when each has received
// an event or failed. They end with ctx.
func (h *happening) openStreams(ctx context.Context) error {
	s := &streams{kind: h.of.kind, running: h.running, crowd: h.crowd,
		result: &sample.Streams{Kind: h.of.kind.Title, Clients: h.of.clients}}
	h.streams, h.result.Streams = s, s.result
	if err := h.beginPhase(sample.Opening); err != nil {
		return err
	}
	for range 1 + h.of.clients/streamsPerConn {
		s.conns = append(s.conns, newGRPCConn())
	}
	var opening sync.WaitGroup
	for n := range h.of.clients {
		opening.Add(1)
		s.clients.Go(func() {
			opened := sync.OnceFunc(opening.Done)
			defer opened()
			if pause(ctx, time.Duration(n)*time.Second/openRate) {
				s.client(ctx, n, opened)
			}
		})
	}
	tried := make(chan struct{})
	go func() { defer close(tried); opening.Wait() }()
	select {
	case <-tried:
	case <-time.After(openTimeout):
	}
	s.mu.Lock()
	none, why := s.result.Opened == 0, cmp.Or(s.result.Failure, "no event arrived")
	s.mu.Unlock()
	if none {
		return fmt.Errorf("no stream could be opened: %s", why)
	}
	return h.beginPhase("")
}

// client is the client number n. It calls opened after its first event.
func (s *streams) client(ctx context.Context, n int, opened func()) {
	group := n / streamsPerConn
	stream, err := s.kind.open(ctx, s.conns[group], s.running[group%len(s.running)].Address)
	if err == nil {
		defer stream.Close()
		_, err = stream.next()
	}
	s.mu.Lock()
	if err != nil {
		s.result.Failure = cmp.Or(s.result.Failure, err.Error())
	} else {
		s.result.Opened++
	}
	s.mu.Unlock()
	if err != nil {
		return
	}
	s.crowd.open.Add(1)
	defer s.crowd.open.Add(-1)
	opened()
	for {
		written, err := stream.next()
		took := monotonic() - written
		if ctx.Err() != nil {
			return
		}
		s.received(took, err)
		if err != nil {
			s.crowd.ended.Add(1)
			return
		}
	}
}

// received counts an event, or with an error a lost stream.
func (s *streams) received(took time.Duration, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.result.Phases[len(s.result.Phases)-1]
	if err != nil {
		p.Lost++
		return
	}
	p.Latency.Record(took)
}

// beginPhase ends the phase of the streams and begins that of a step. It records the memory before
// streams are opened, and before the first step.
func (h *happening) beginPhase(step string) error {
	now, err := lookAt(h.running, &h.processors)
	if err != nil {
		return err
	}
	memory, s := proc.Resident(now.processes), h.streams
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.result.Phases); n > 0 {
		work := s.look.until(&now, len(h.cpus))
		s.result.Phases[n-1].Length, s.result.Phases[n-1].Server = work.Length, work.Server
		if s.result.Phases[n-1].Step == "" {
			s.result.Memory[1] = memory
		}
	} else {
		s.result.Memory[0] = memory
	}
	if s.look = now; slices.Contains(phaseSteps(), step) {
		s.before = now.processes
	}
	s.result.Phases = append(s.result.Phases, sample.Phase{Step: step, Latency: hist.New()})
	return nil
}

// stall opens a stream whose client reads nothing, and to which the server sends as much as
// possible. A websocket's client also sends as much as possible, so that there are as many echoes.
func (s *streams) stall(ctx context.Context) {
	address := s.running[0].Address
	s.clients.Go(func() {
		var conn io.WriteCloser
		var err error
		switch s.kind.Protocol {
		case GRPC:
			if stream, err := s.conns[0].open(ctx, address, flood); err == nil {
				defer stream.Close()
			}
		case Websocket:
			conn, _, _, err = requestOn(ctx, address, "/", upgradeFields, http.StatusSwitchingProtocols)
			for err == nil {
				_, err = conn.Write(appendMessage(nil, 0))
			}
		default:
			_, _, _, _ = requestOn(ctx, address, flood, "", http.StatusOK)
		}
		<-ctx.Done()
	})
}

// close waits until all clients have left, whose context has ended.
func (s *streams) close() {
	s.clients.Wait()
	for _, c := range s.conns {
		c.CloseIdleConnections()
	}
}
