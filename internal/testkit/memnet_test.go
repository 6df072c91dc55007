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
		Check(t, client.CloseWrite())
		Reads(t, server, "hello")
		FailsWith(client.Write([]byte("x")))(t, io.ErrClosedPipe, "write behind CloseWrite")
		io.WriteString(server, "last words")
		server.Close()
		FailsWith(server.Read(make([]byte, 1)))(t, net.ErrClosed, "read behind Close")
		Reads(t, client, "last words")
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
	FailsWith(nw.Dial())(t, net.ErrClosed)
	FailsWith(l.Accept())(t, net.ErrClosed)
}
