package client

import (
	"errors"
	"fmt"
	"testing"
)

// A body that was received with its head is written by one Write, once.
func TestWholeBodyIsWrittenOnce(t *testing.T) {
	b := &WholeBody{Text: "hello"}
	var once [1]byte
	if n, err := b.Read(once[:]); n != 1 || err != nil {
		t.Error(n, err)
	}
	var w writes
	for _, want := range []int64{4, 0} {
		if n, err := b.WriteTo(&w); n != want || err != nil {
			t.Error(n, err)
		}
	}
	if fmt.Sprint(w) != "[ello]" {
		t.Error(w)
	}
	_ = b.Close()
	if _, err := b.WriteTo(&w); !errors.Is(err, ErrClosedBody) {
		t.Error(err)
	}
}

type writes []string

func (w *writes) Write(p []byte) (int, error) { *w = append(*w, string(p)); return len(p), nil }
