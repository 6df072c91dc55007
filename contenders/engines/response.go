package engines

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"

	"github.com/tarehq/tare/internal/inmemory"
)

// response is a server's response without its date.
type response struct {
	text     []byte
	from, to int // of the date's value
}

// firstResponse sends one request to a server and reads the whole response.
func firstResponse(server Server, requests int) (*response, error) {
	var text bytes.Buffer
	l := inmemory.Listen(inmemory.Load{Request: request(), Requests: requests, Clients: 1, Total: 1,
		Responses: func() io.Writer { return &text }})
	if err := run(server, l, 1); err != nil {
		return nil, err
	}
	if err := server.Close(); err != nil {
		return nil, err
	}
	from := bufio.NewReader(bytes.NewReader(text.Bytes()))
	resp, err := http.ReadResponse(from, nil)
	if err != nil {
		return nil, fmt.Errorf("%w in the response %q", err, text.Bytes())
	}
	got, err := io.ReadAll(resp.Body)
	date := []byte(resp.Header.Get("Date"))
	at := bytes.Index(text.Bytes(), date)
	_, end := from.Peek(1)
	whole := end != nil && bytes.HasSuffix(text.Bytes(), []byte("\r\n\r\n"+body))
	if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/plain" ||
		string(got) != body || len(date) == 0 || !whole {
		return nil, fmt.Errorf("want status 200, text/plain, a date and %q, got %q", body, text.Bytes())
	}
	return &response{text.Bytes(), at, at + len(date)}, nil
}

// client compares a server's responses with the expected one. It ignores the date.
type client struct {
	want      *response
	at        int // position in the current response
	responses int // number of complete responses
	err       error
}

func (c *client) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0 && c.err == nil; {
		end := len(c.want.text)
		switch {
		case c.at < c.want.from:
			end = c.want.from
		case c.at < c.want.to:
			end = c.want.to
		}
		n := min(len(rest), end-c.at)
		isDate := c.at >= c.want.from && c.at < c.want.to
		if !isDate && !bytes.Equal(rest[:n], c.want.text[c.at:c.at+n]) {
			c.err = fmt.Errorf("response %d differs from the first: want %q, got %q",
				c.responses+1, c.want.text[c.at:], rest)
			return 0, c.err
		}
		rest = rest[n:]
		if c.at += n; c.at == len(c.want.text) {
			c.at = 0
			c.responses++
		}
	}
	return len(p), c.err
}
