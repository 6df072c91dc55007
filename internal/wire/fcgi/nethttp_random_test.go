package fcgi

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// A maker makes connections that a web server might make, and some that none would.
type maker struct {
	*rand.Rand
	b []byte
}

func (m *maker) record(t Type, id uint16, content string) {
	m.b = append(m.b, record(t, id, content, m.IntN(9)*m.IntN(2))...)
}

// stream cuts content anywhere.
func (m *maker) stream(t Type, id uint16, content string) {
	for len(content) > 0 {
		n := 1 + m.IntN(len(content))
		m.record(t, id, content[:n])
		content = content[n:]
		m.chatter(id)
	}
	m.record(t, id, "")
}

// chatter adds what may come between any two records of a request.
func (m *maker) chatter(id uint16) {
	switch m.IntN(20) {
	case 0:
		m.record(GetValues, 0, "\x0f\x00FCGI_MPXS_CONNS")
	case 1:
		m.record(Type(12+m.IntN(9)), 0, "what")
	case 2:
		m.record([]Type{Params, Stdin, Data, AbortRequest}[m.IntN(4)], id+1, "stranger")
	case 3:
		m.record(Data, id, "data")
	}
}

func (m *maker) params(body int) (list string) {
	text := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = "abcXYZ019-_./ \xff"[m.IntN(15)]
		}
		return string(b)
	}
	add := func(name, value string) { list += string(AppendPair(nil, name, value)) }
	add("REQUEST_METHOD", []string{"GET", "POST", "PATCH"}[m.IntN(3)])
	add("SERVER_PROTOCOL", []string{"HTTP/1.1", "HTTP/1.0", "INCLUDED", "HTTP/1.1", "gopher"}[m.IntN(5)])
	add("REQUEST_URI", "/"+[]string{"", "a?b=c", "%zz", "a/b"}[m.IntN(4)])
	if body > 0 {
		add("CONTENT_LENGTH", fmt.Sprint(body))
	}
	for range m.IntN(6) {
		switch m.IntN(3) {
		case 0:
			add("HTTP_"+strings.ToUpper(text(1+m.IntN(9))), text(m.IntN(200)))
		case 1:
			add([]string{"HTTP_HOST", "REMOTE_ADDR", "REMOTE_PORT", "CONTENT_TYPE", "HTTPS",
				"QUERY_STRING"}[m.IntN(6)], []string{"on", "127.0.0.1", "80", "a.b"}[m.IntN(4)])
		case 2:
			add(text(m.IntN(300)), text(m.IntN(5)))
		}
	}
	return list
}

func (m *maker) request() {
	id := uint16(1 + m.IntN(2)*m.IntN(65534))
	begin := keeping
	switch m.IntN(8) {
	case 0:
		begin = responder
	case 1:
		begin = filter
	}
	m.chatter(id)
	m.record(BeginRequest, id, begin)
	m.chatter(id)
	if m.IntN(10) == 0 {
		m.record(AbortRequest, id, "")
		return
	}
	body := strings.Repeat("body", m.IntN(2)*m.IntN(50))
	m.stream(Params, id, m.params(len(body)))
	m.chatter(id)
	if body != "" && m.IntN(10) == 0 {
		m.record(Stdin, id, body)
		m.record(AbortRequest, id, "")
		return
	}
	m.stream(Stdin, id, body)
}

// connection makes a few requests, and corrupts some.
func (m *maker) connection() []byte {
	m.b = nil
	for range 1 + m.IntN(3) {
		m.request()
	}
	switch m.IntN(4) {
	case 0:
		m.b[m.IntN(len(m.b))] ^= 1 << m.IntN(8)
	case 1:
		m.b = m.b[:m.IntN(len(m.b))]
	}
	return m.b
}

func TestConnectionsGiveSameResultAsNetHTTP(t *testing.T) {
	const connections = 500
	m := maker{Rand: rand.New(rand.NewPCG(1, 1))}
	met := make(map[string]int)
	for range connections {
		in := m.connection()
		ours, err := compareNetHTTP(t, in)
		if err != nil {
			t.Errorf("%q\n%v", in, err)
		}
		met[ours.fault]++
		met["replies"] += ours.replies
		met["misplaced"] += ours.misplaced
		for _, x := range ours.served {
			met["served"]++
			for _, what := range []string{"refused: ", " aborted", " cut off"} {
				if strings.Contains(x, what) {
					met[what]++
				}
			}
		}
	}
	t.Log(met)
	for _, what := range []string{"", "served", "replies", "misplaced", "refused: ", " aborted", " cut off",
		"unsupported FastCGI version"} {
		if met[what] < connections/200 {
			t.Errorf("%q was met %d times", what, met[what])
		}
	}
}
