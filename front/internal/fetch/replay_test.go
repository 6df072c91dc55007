package fetch

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/tarehq/tare/internal/testkit"
)

func TestReplayRepeatsTheStart(t *testing.T) {
	for name, wrap := range map[string]func(io.Reader) io.Reader{
		"whole": func(r io.Reader) io.Reader { return r }, "bytes": iotest.OneByteReader,
		"data with EOF": iotest.DataErrReader,
	} {
		text := strings.Repeat("0123456789", 100)
		r := newReplay(io.NopCloser(wrap(strings.NewReader(text))))
		for _, part := range []int64{0, 1, 500, 1000} {
			body := testkit.Value(r.open())(t)
			got, err := io.ReadAll(io.LimitReader(body, part))
			if err != nil || string(got) != text[:part] {
				t.Errorf("%s: %d bytes of %d, %v", name, len(got), part, err)
			}
		}
		body := testkit.Value(r.open())(t)
		r.end()
		testkit.Equal(t, string(testkit.Value(io.ReadAll(body))(t)), text, name, "after the response")
		if _, err := r.open(); !errors.Is(err, ErrBodyConsumed) {
			t.Errorf("%s: opened after the response: %v", name, err)
		}
	}
}

func TestReplayIsBounded(t *testing.T) {
	text := strings.Repeat("0123456789", maxReplay)
	r := newReplay(io.NopCloser(strings.NewReader(text)))
	body := testkit.Value(r.open())(t)
	testkit.Equal(t, string(testkit.Value(io.ReadAll(body))(t)), text)
	if _, err := r.open(); !errors.Is(err, ErrBodyConsumed) || len(r.kept) > 0 {
		t.Errorf("opened again: %v, %d bytes are kept", err, len(r.kept))
	}
}

// What an old reader receives while a new one waits belongs to the new one.
func TestReplayReaderTakesOver(t *testing.T) {
	from, to := io.Pipe()
	r := newReplay(from)
	first := testkit.Value(r.open())(t)
	stopped := make(chan error)
	go func() {
		_, err := io.ReadAll(first)
		stopped <- err
	}()
	testkit.Send(t, to, "one ")
	second := testkit.Value(r.open())(t)
	go func() {
		_, _ = to.Write([]byte("two"))
		to.Close()
	}()
	testkit.Equal(t, string(testkit.Value(io.ReadAll(second))(t)), "one two")
	if err := <-stopped; !errors.Is(err, ErrBodyConsumed) {
		t.Errorf("the old reader ended with %v", err)
	}
}
