package testkit

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

func TestMemConnReadsEOFAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := Pair()
		io.WriteString(client, "hello")
		if err := client.CloseWrite(); err != nil {
			t.Error(err)
		}
		if b, err := io.ReadAll(server); string(b) != "hello" || err != nil {
			t.Errorf("%q %v", b, err)
		}
		if _, err := client.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("write behind CloseWrite: %v", err)
		}
		io.WriteString(server, "last words")
		server.Close()
		if _, err := server.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("read behind Close: %v", err)
		}
		if b, err := io.ReadAll(client); string(b) != "last words" || err != nil {
			t.Errorf("%q %v", b, err)
		}
		if data, eof := client.Received(); len(data) != 0 || !eof {
			t.Errorf("%q %v", data, eof)
		}
	})
}

func TestMemConnHasDeadlinesAndBuffers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := Pair()
		start := time.Now()
		client.SetReadDeadline(start.Add(time.Hour))
		if _, err := client.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) ||
			time.Since(start) != time.Hour {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		client.SetDeadline(time.Now().Add(time.Minute))
		if n, err := client.Write(make([]byte, pipeSize+1)); n != pipeSize || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%d bytes, %v", n, err)
		}
		client.SetDeadline(time.Time{})
		if data, eof := server.Received(); len(data) != pipeSize || eof {
			t.Errorf("%d bytes, %v", len(data), eof)
		}
		if n, err := client.Write([]byte("x")); n != 1 || err != nil {
			t.Error(n, err)
		}
	})
}

func TestClosedNetworkRejectsDial(t *testing.T) {
	var nw Network
	l := nw.Listen()
	l.Close()
	if _, err := nw.Dial(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
}
