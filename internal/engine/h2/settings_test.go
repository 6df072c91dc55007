package h2_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"

	"github.com/tarehq/tare/internal/engine/h2"
)

// respond makes n streams, from an identifier on, send responses that are larger than the client's
// windows. Each handler has a goroutine; the result waits for them.
func (p *peer) respond(from uint32, n int) (wait func()) {
	var handlers sync.WaitGroup
	for i := range n {
		p.get(from + uint32(2*i))
	}
	p.receive()
	for st := p.session.Next(); st != nil; st = p.session.Next() {
		handlers.Go(func() {
			st.Run(nil, 0)
			st.Settle()
		})
	}
	return handlers.Wait
}

// awaitWaiting waits until n responses wait for windows.
func (p *peer) awaitWaiting(n int) {
	for p.session.Waiting() < n {
		runtime.Gosched()
	}
}

// A client that opens the windows of many streams by one byte, with one frame, makes all of them
// send a small piece. It pays for each.
func TestFrameThatOpensManyWindowsPaysForEach(t *testing.T) {
	const streams, most = 50, 100 // a frame costs a unit; so many would be no flood
	for name, open := range map[string]func(p *peer, round uint32){
		"SETTINGS": func(p *peer, round uint32) {
			p.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: round})
		},
		"WINDOW_UPDATE": func(p *peer, round uint32) {
			p.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: round})
			p.framer.WriteWindowUpdate(0, streams)
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeer(t, nil, func(w http.ResponseWriter, _ *http.Request) { w.Write(make([]byte, 100_000)) })
			p.open(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			var waits []func()
			await := func() {
				for _, wait := range waits {
					wait()
				}
			}
			defer await()
			if name == "SETTINGS" {
				p.framer.WriteWindowUpdate(0, 1<<20)
			} else { // a stream takes all of the connection's window
				p.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<16 - 1})
				waits = append(waits, p.respond(1, 1))
				p.awaitWaiting(1)
				p.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
			}
			waits = append(waits, p.respond(3, streams))
			for round := uint32(1); ; round++ {
				p.awaitWaiting(streams)
				open(p, round)
				if !p.receive() {
					break
				}
				p.session.Flush()
				if round > most {
					p.session.Closed()
					t.Fatal("the session continues")
				}
			}
			await() // handlers may send, too
			p.session.Flush()
			if got := p.rest(); !strings.HasSuffix(got, "GOAWAY ENHANCE_YOUR_CALM") {
				t.Errorf("the server ends with %s", got[max(0, len(got)-100):])
			}
		})
	}
}

// A frame with several initial windows has the effect of several frames with one each.
func TestInitialWindowsOfOneFrameTakeEffectInOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	values := []uint32{0, 1, 1000, 65535, 1 << 20, 1<<31 - 1001, 1<<31 - 1}
	for range 200 {
		var settings []http2.Setting
		for range 1 + random.IntN(5) {
			settings = append(settings, http2.Setting{ID: http2.SettingInitialWindowSize,
				Val: values[random.IntN(len(values))]})
		}
		increment := random.Uint32N(3) * 500
		run := func(frames ...[]http2.Setting) string {
			p := newPeer(t, nil, hello)
			p.open()
			p.post(1)
			p.post(3)
			if increment > 0 {
				p.framer.WriteWindowUpdate(3, increment)
			}
			alive := true
			for _, frame := range frames {
				p.framer.WriteSettings(frame...)
				alive = alive && p.receive()
			}
			if !alive {
				p.session.Flush()
				got := p.rest()
				return got[strings.LastIndex(got, "GOAWAY"):]
			}
			return fmt.Sprint(p.session.SendWindows())
		}
		var one [][]http2.Setting
		for _, set := range settings {
			one = append(one, []http2.Setting{set})
		}
		if got, want := run(settings), run(one...); got != want {
			t.Errorf("%v after %d: got %q, want %q", settings, increment, got, want)
		}
	}
}

// Each field of http.HTTP2Config has an effect, except those of clients and of a dynamic table for
// the fields of responses, which the server does not use.
func TestEveryFieldOfHTTP2ConfigIsRead(t *testing.T) {
	const valid = 1 << 17 // for each integer; also a time
	without := h2.NewConfig(nil, nil, 0)
	for f := range reflect.TypeFor[http.HTTP2Config]().Fields() {
		set := new(http.HTTP2Config)
		v := reflect.ValueOf(set).Elem().FieldByIndex(f.Index)
		switch {
		case f.Name == "MaxDecoderHeaderTableSize":
			v.SetInt(1)
		case v.CanInt():
			v.SetInt(valid)
		case v.Kind() == reflect.Bool:
			v.SetBool(true)
		default:
			v.Set(reflect.MakeFunc(f.Type, func([]reflect.Value) []reflect.Value { return nil }))
		}
		isRead := !reflect.DeepEqual(h2.NewConfig(nil, set, 0), without)
		if want := f.Name != "StrictMaxConcurrentRequests" && f.Name != "MaxEncoderHeaderTableSize"; isRead != want {
			t.Errorf("%s is read: %v", f.Name, isRead)
		}
	}
}
