package engine_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// What a socket or a pipe provides is sent at once if the response is not framed, as in net/http.
func TestPiecesOfStreamsAreSentAtOnce(t *testing.T) {
	const piece, pieces = 3000, 3
	sent := make(chan bool)
	bothPaths(t, handle(func(w http.ResponseWriter, r *http.Request) {
		src, feed, err := os.Pipe()
		if err != nil {
			t.Error(err)
			return
		}
		defer src.Close()
		w.Header().Set("Content-Length", fmt.Sprint(piece*pieces))
		go func() {
			defer feed.Close()
			for range pieces {
				_, _ = feed.Write(make([]byte, piece))
				<-sent
			}
		}()
		if r.Method == http.MethodPost {
			_, err = io.Copy(w, src)
		} else {
			_, err = io.CopyN(w, src, piece*pieces)
		}
		if err != nil {
			t.Error(err)
		}
	}), func(s *site) {
		for _, request := range []string{get, post} {
			c := s.connect()
			io.WriteString(c, request)
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			testkit.Must(s, err)
			for range pieces {
				if _, err := io.ReadFull(resp.Body, make([]byte, piece)); err != nil {
					s.Fatal(err)
				}
				sent <- true
			}
		}
	})
}
