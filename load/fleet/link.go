package fleet

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tarehq/tare/internal/printable"
	"github.com/tarehq/tare/load/agent"
)

// link is the channel to one agent. Its goroutines read records, send pings and wait for the
// command's end.
type link struct {
	host   *Host
	name   string
	zero   time.Time
	cmd    *exec.Cmd
	about  agent.About
	clock  *clock
	active atomic.Int64 // when the agent last sent or accepted bytes, on the controller's clock
	errors *tail        // end of the command's standard error

	sending sync.Mutex // held while writing to in
	in      io.WriteCloser
	out     *bufio.Reader
	pipe    *os.File               // below out
	ended   chan struct{}          // closed when the command has ended
	isLost  bool                   // only Fleet uses it
	givenUp atomic.Pointer[string] // why the fleet has ended the link; nil otherwise
}

// event is a record of an agent, or the end of its output if err is not nil.
type event struct {
	link   *link
	record agent.Record
	at     time.Duration // on the controller's clock
	err    error
}

const (
	maxRecord = 64 << 20 // limits the length of a record
	// maxNoise limits the bytes before the first record, such as what a login shell prints.
	maxNoise  = 1 << 20
	pingEvery = time.Second // interval of pings
	// closeTimeout limits how long a command may take to end after its input was closed.
	closeTimeout = 5 * time.Second
	// maxText is the number of bytes kept of an agent's text: the end of standard error, or the
	// beginning of an error.
	maxText   = 4096
	killAfter = time.Second // how long after SIGTERM a command is killed
)

func (l *link) now() time.Duration { return time.Since(l.zero) }

func (l *link) start(ctx context.Context) (err error) {
	if l.cmd, err = l.host.Command(ctx); err != nil {
		return err
	}
	if l.in, err = l.cmd.StdinPipe(); err != nil {
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer w.Close()
	l.pipe, l.cmd.Stdout = r, w
	l.errors = &tail{}
	l.cmd.Stderr = l.errors
	l.cmd.WaitDelay = closeTimeout
	if err := l.cmd.Start(); err != nil {
		_ = r.Close()
		return err
	}
	l.out = bufio.NewReaderSize(r, 64<<10)
	l.ended = make(chan struct{})
	l.active.Store(int64(l.now()))
	return nil
}

// greet exchanges greetings. It returns the line after missing if the host has no agent.
func (l *link) greet(silence time.Duration) (lacks string, err error) {
	_ = l.send(agent.Command{Hello: &agent.Greeting{Version: agent.Version, Silence: silence}})
	// If writing fails, the command has ended, and its output shows why.
	for noise := 0; noise < maxNoise; {
		line, err := l.readLine()
		if err != nil {
			return "", err
		}
		noise += len(line)
		if rest, ok := strings.CutPrefix(string(line), missing); ok {
			return strings.TrimSpace(rest), nil
		}
		var r agent.Record
		if json.Unmarshal(line, &r) != nil || r.Hello == nil {
			continue
		}
		l.about = *r.Hello
		if l.about.Version != agent.Version {
			return "", fmt.Errorf("its protocol has version %d: want %d (use the same tare on all machines)",
				l.about.Version, agent.Version)
		}
		return "", nil
	}
	return "", fmt.Errorf("none of the first %d bytes it printed are an agent's (is the program tare, or does a login shell print this much?)",
		maxNoise)
}

func (l *link) readLine() ([]byte, error) {
	var line []byte
	for {
		piece, err := l.out.ReadSlice('\n')
		l.active.Store(int64(l.now()))
		line = append(line, piece...)
		switch {
		case err == nil:
			return line, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		case len(line) > maxRecord:
			return nil, fmt.Errorf("a record of more than %d bytes", maxRecord)
		}
	}
}

// read passes records to events until the output ends, and then waits for the command. It handles
// replies to pings itself. Once done is closed, nothing receives events.
func (l *link) read(events chan<- event, done <-chan struct{}) {
	for {
		line, err := l.readLine()
		e := event{link: l, at: l.now()}
		if err == nil {
			err = json.Unmarshal(line, &e.record)
			makePrintable(&e.record)
		}
		if p := e.record.Pong; err == nil && p != nil {
			l.clock.receive(p.Ping, p.Clock, e.at)
			continue
		}
		if err != nil {
			e.err = l.end(err)
			select {
			case <-done:
			default:
				e.err = errors.New(l.explain(e.err.Error()))
			}
		}
		select {
		case events <- e:
		case <-done:
		}
		if err != nil {
			return
		}
	}
}

func makePrintable(r *agent.Record) {
	if r.Error != nil {
		r.Error.Text = excerpt(r.Error.Text)
	}
	if r.Result != nil {
		r.Result.Errors.First = excerpt(r.Result.Errors.First)
	}
	if r.Second != nil && r.Second.Kinds != nil {
		r.Second.Kinds.First = excerpt(r.Second.Kinds.First)
	}
}

// end ends the command because reading its output failed. It returns the reason, with the last line
// of the command's standard error if there is one.
func (l *link) end(err error) error {
	if !errors.Is(err, io.EOF) {
		l.kill()
	}
	_, _ = io.Copy(io.Discard, l.out)
	endErr := l.cmd.Wait()
	_ = l.pipe.Close()
	close(l.ended)
	if why := l.givenUp.Load(); why != nil {
		return errors.New(*why)
	}
	if !errors.Is(err, io.EOF) {
		return err
	}
	what := "its process ended"
	if failed, ok := errors.AsType[*exec.ExitError](endErr); ok {
		what += ": " + failed.String()
	}
	if text := l.errors.lastLine(); text != "" {
		what += ": " + text
	}
	return errors.New(what)
}

// explain adds to the reason of a loss what the host knows about it.
func (l *link) explain(why string) string {
	if l.host.Explain == nil {
		return why
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if more := l.host.Explain(ctx); more != "" {
		why += ": " + more
	}
	return why
}

// terminate ends a process. SIGTERM precedes SIGKILL: an ssh that reads a password then turns the
// terminal's echo on again.
func terminate(p *os.Process) {
	if p.Signal(syscall.SIGTERM) != nil {
		_ = p.Kill() // not all systems have SIGTERM
		return
	}
	time.AfterFunc(killAfter, func() { _ = p.Kill() })
}

// kill ends the command and closes its pipes, which other processes may hold open.
func (l *link) kill() {
	terminate(l.cmd.Process)
	_ = l.in.Close()
	_ = l.pipe.SetReadDeadline(time.Now().Add(closeTimeout))
}

// watch gives the agent up if nothing arrives from it.
func (l *link) watch(silence time.Duration) {
	if quiet := l.now() - time.Duration(l.active.Load()); quiet > silence {
		l.giveUp(fmt.Sprintf("nothing arrived from it for %.0f s", quiet.Seconds()))
	}
}

// giveUp ends the command. The reader reports the first reason as that of the link's end.
func (l *link) giveUp(why string) {
	if l.givenUp.CompareAndSwap(nil, &why) {
		l.kill()
	}
}

// close closes the command's input, which ends an agent, and waits for the command's end.
func (l *link) close() {
	_ = l.in.Close()
	select {
	case <-l.ended:
	case <-time.After(closeTimeout):
		l.kill()
		<-l.ended
	}
}

// pieceSize is the number of bytes written at a time. Each piece that the agent accepts shows that
// it is alive.
const pieceSize = 64 << 10

// send writes a command to the agent. Any goroutine may call it.
func (l *link) send(c agent.Command) error {
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	b = append(b, '\n')
	l.sending.Lock()
	defer l.sending.Unlock()
	for len(b) > 0 {
		n, err := l.in.Write(b[:min(len(b), pieceSize)])
		if err != nil {
			return err
		}
		if b = b[n:]; len(b) > 0 {
			l.active.Store(int64(l.now()))
		}
	}
	return nil
}

func (l *link) ping() error {
	n := l.clock.ping(l.now())
	return l.send(agent.Command{Ping: &n})
}

func (l *link) keepPinging(done <-chan struct{}) {
	t := time.NewTicker(pingEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			if l.ping() != nil {
				return // the reader reports the end
			}
		case <-done:
			return
		}
	}
}

// tripTimeout limits how long a round trip may take while clocks are compared.
const tripTimeout = 2 * time.Second

// compareClocks makes round trips until the clock's estimate rests on new ones.
func (l *link) compareClocks() {
	for range keptTrips {
		select {
		case <-l.clock.pong: // of an earlier ping
		default:
		}
		if l.ping() != nil {
			return
		}
		select {
		case <-l.clock.pong:
		case <-time.After(tripTimeout):
			return
		}
	}
}

// tail is an io.Writer that keeps the end of what is written.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if extra := len(t.text) - maxText; extra > 0 {
		t.text = append(t.text[:0], t.text[extra:]...)
	}
	return len(b), nil
}

// lastLine returns the last line that is not empty, as excerpt does.
func (t *tail) lastLine() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	text := strings.TrimSpace(string(t.text))
	return excerpt(strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:]))
}

// excerpt returns the beginning of another machine's text, which is printed on a terminal.
func excerpt(text string) string { return printable.Text(text[:min(len(text), maxText)], "") }

// runCommand runs a command until it ends, or until ctx does. The error is ctx's cause, or the last
// line of the command's standard error.
func runCommand(ctx context.Context, c *exec.Cmd) error {
	errs := &tail{}
	c.Stderr, c.WaitDelay = errs, closeTimeout
	if err := c.Start(); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { terminate(c.Process) })
	err := c.Wait()
	stop()
	switch text := errs.lastLine(); {
	case err != nil && ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil && text != "":
		return errors.New(text)
	}
	return err
}
