package client

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// However requests fail at the limit of connections, no slot is lost: later requests get
// connections, and no connection counts as used at the end.
func TestFailuresLoseNoSlots(t *testing.T) {
	testkit.Long(t, "it fails for seconds")
	overAll(t, func(s *site) {
		s.config.Settings.MaxConnsPerHost, s.config.Settings.MaxIdleConnsPerHost = 2, 2
		s.serve(func(_ int, c speaker) {
			for id, ok := c.head(); ok && failsAs(c, id); id, ok = c.head() {
			}
		})
		var all sync.WaitGroup
		for i := range 8 {
			r := rand.New(rand.NewPCG(uint64(i), 1))
			all.Go(func() {
				for range 40 {
					s.sendRandom(r)
				}
			})
		}
		all.Wait()
		for range 3 {
			s.must(s.request("GET", nil), "hello")
		}
	})
}

// failsAs is the end of a server that fails as a request asks. It reports whether the connection
// goes on.
func failsAs(c speaker, how string) bool {
	switch how {
	case "close":
		return false
	case "byte":
		_, _ = c.Write([]byte("H\x01"))
		return false
	case "noise":
		_, _ = c.Write([]byte("\x00\x00 noise\r\n\r\n"))
	case "early":
		c.respond("early")
	case "half":
		c.begin()
		c.send("half")
		return false
	case "silent":
		time.Sleep(3 * time.Millisecond)
	}
	for {
		switch text, ok := c.part(); {
		case !ok:
			return false
		case text == "":
			if how == "" {
				c.respond("hello")
			}
			if how == "more" {
				c.respond("hello")
				_, _ = io.WriteString(c, "stray")
			}
			return true
		}
	}
}

// sendRandom sends a request that may fail in one of many ways.
func (s *site) sendRandom(r *rand.Rand) {
	ctx, cancel := context.WithTimeout(s.Context(), time.Duration(1+r.IntN(4000))*time.Microsecond)
	defer cancel()
	var body io.Reader
	switch text := strings.Repeat("x", 1+r.IntN(100_000)); r.IntN(5) {
	case 0:
		body = strings.NewReader(text)
	case 1:
		body = hidden(text)
	case 2:
		body = io.MultiReader(hidden(text), brokenReader{})
	}
	q := s.request([]string{http.MethodGet, http.MethodPost}[r.IntN(2)], body).WithContext(ctx)
	hows := []string{"", "", "", "close", "byte", "noise", "early", "half", "silent", "more"}
	q.Header.Set("X-Id", hows[r.IntN(len(hows))])
	resp, err := s.the().RoundTrip(q)
	if err != nil {
		return
	}
	if r.IntN(4) > 0 {
		_, _ = io.Copy(io.Discard, resp.Body)
	}
	if r.IntN(4) > 0 {
		go resp.Body.Close()
	}
	resp.Body.Close()
}
