package front_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/tlstest"
)

// Attacks 48 and 49: a client cannot avoid the required certificate by naming one host in the
// handshake and another in the request, or by a connection that is older than the requirement.
func TestClientCertificateIsOfRequestsHost(t *testing.T) {
	var config conf.Config
	for name, clientAuth := range map[string]tls.ClientAuthType{"open": tls.NoClientCert,
		"closed": tls.RequireAndVerifyClientCert, "optional": tls.VerifyClientCertIfGiven} {
		h := hostListening(name, "127.0.0.1:1")
		if h.Listen[0].TLS = true; clientAuth != tls.NoClientCert {
			h.Listen[0].TLSConfig = &tls.Config{ClientAuth: clientAuth}
		}
		h.Listen[0].Default = name == "open"
		config.Hosts = append(config.Hosts, h)
	}
	h, good := newFront(t, config), []*x509.Certificate{{}}
	for _, test := range []struct {
		sniName, received string
		verified          bool
		status            int
	}{
		{"open", "open", false, 200}, {"open", "closed", false, 421}, {"", "closed", false, 421},
		{"none", "closed", false, 421}, {"open", "CLOSED:443", false, 421},
		{"optional", "closed", true, 421}, {"closed", "optional", true, 421}, {"open", "optional", false, 421},
		{"closed", "open", true, 200},
		{"closed", "closed", true, 200}, {"Closed", "closed.", true, 200}, {"closed", "closed", false, 400},
		{"optional", "optional", false, 200},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Host, r.TLS = test.received, &tls.ConnectionState{ServerName: test.sniName}
		if test.verified {
			r.TLS.PeerCertificates, r.TLS.VerifiedChains = good, [][]*x509.Certificate{good}
		}
		local := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}
		r = r.WithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, net.Addr(local)))
		got := responseTo(h, r)
		testkit.Equal(t, got.status, test.status, "a handshake with", test.sniName, "a request for", test.received)
		testkit.Equal(t, test.status != 200 && strings.Contains(got.body, "closed"), false, got.body)
	}
}

// Attacks 15 and 40: an HTTP/2 stream ends if its body does not arrive or its response is not read.
// A body whose length differs from the declared one is an error.
func TestStalledStreamsEnd(t *testing.T) {
	testkit.Long(t, "it waits for timeouts")
	noLeaks(t)
	arrived := make(chan string, 10)
	to := serve(t, func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err == nil {
			arrived <- r.URL.Path + " " + string(b)
		}
		_, _ = io.WriteString(w, "answer")
	})
	s := serveHTTP2(t, confFront(t, "", "client_body_timeout 100ms; send_timeout 100ms; root "+site(t, "file")+
		"; location /say { return 200 said; } location /error { return 404; }"+
		"location /pass { proxy_pass http://"+to+"; }", nil))
	for _, test := range []struct {
		name, method, path, length, body string
		unended                          bool
	}{
		{"no body", "POST", "/pass/1", "", "", true},
		{"half a body", "POST", "/pass/2", "10", "half", true},
		{"a body that is too short", "POST", "/pass/3", "10", "short", false},
		{"a body that is too long", "POST", "/pass/4", "2", "long", false},
		{"an upstream's response", "GET", "/pass/5", "", "", false},
		{"a text", "GET", "/say", "", "", false},
		{"an error's page", "GET", "/error", "", "", false},
		{"a file", "GET", "/file", "", "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			st := startH2(t, overTLS(t, s.Listener.Addr().String(), ""), 0) // it reads no byte of a body
			st.request(t, ":method", test.method, ":scheme", "https", ":authority", "front.test", ":path", test.path,
				"content-length", test.length)
			if test.method == "POST" {
				testkit.Must(t, st.WriteData(1, !test.unended, []byte(test.body)))
			}
			_, _, isReset := st.response(t)
			testkit.Equal(t, isReset, true, "the stream is reset")
		})
	}
	s.Close()
	for len(arrived) > 0 {
		testkit.Equal(t, <-arrived, "/pass/5 ", "the upstream received")
	}
}

// response reads to the end of the stream. It returns the status and the body, and whether the stream
// was reset.
func (c *h2Client) response(t *testing.T) (status, body string, isReset bool) {
	t.Helper()
	for {
		frame := testkit.Value(c.ReadFrame())(t)
		switch frame := frame.(type) {
		case *http2.MetaHeadersFrame:
			status = frame.PseudoValue("status")
		case *http2.DataFrame:
			body += string(frame.Data())
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return status, body, true
		}
		if frame.Header().StreamID == 1 && frame.Header().Flags.Has(http2.FlagDataEndStream) {
			return status, body, false
		}
	}
}

// A request over HTTP/2 and TLS that names the scheme http gets what one with https gets: no client
// avoids a required certificate so.
func TestSchemeDoesNotHideTLS(t *testing.T) {
	newHost := func(name string, certs *conf.ClientCerts) conf.Host {
		return conf.Host{Names: []string{name}, ClientCerts: certs, Steps: []conf.Step{
			conf.Return{Status: 200, Text: "$scheme,$https,$http2,$ssl_server_name,$ssl_client_verify"}}}
	}
	config := &tls.Config{Certificates: []tls.Certificate{tlstest.ServerCertificate()},
		ClientAuth: tls.RequestClientCert,
		NextProtos: []string{"h2"}}
	h := newFront(t, conf.Config{Hosts: []conf.Host{newHost("open.example", nil),
		newHost("closed.example", &conf.ClientCerts{Depth: 1})}})
	l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	ours, ended := tare.Wrap(&http.Server{TLSConfig: config.Clone(), Handler: h}), make(chan error, 1)
	go func() { ended <- ours.ServeTLS(l, "", "") }()
	theirs := serveTest(t, h, func(s *httptest.Server) { s.EnableHTTP2, s.TLS = true, config })
	for _, addr := range []string{l.Addr().String(), theirs.Listener.Addr().String()} {
		for _, scheme := range []string{"https", "http"} {
			// without a certificate
			for host, want := range map[string]string{"open.example": "200", "closed.example": "400"} {
				c := startH2(t, overTLS(t, addr, host), 1<<16)
				c.request(t, ":method", "GET", ":scheme", scheme, ":authority", host, ":path", "/")
				status, body, _ := c.response(t)
				testkit.Equal(t, status, want, addr, scheme, host)
				if status == "200" {
					testkit.Equal(t, body, "https,on,h2,open.example,NONE", addr, scheme)
				}
			}
		}
	}
	testkit.Must(t, ours.Close())
	<-ended
}

// Certificates for upstreams are read from files that variables name. Missing ones fail the request
// and not the server, and a changed file is read again.
func TestCertificateForUpstreamsFromVariables(t *testing.T) {
	s := serveTLS(t, &tls.Config{ClientAuth: tls.RequestClientCert}, func(w http.ResponseWriter, r *http.Request) {
		if len(r.TLS.PeerCertificates) > 0 {
			fmt.Fprint(w, r.TLS.PeerCertificates[0].Subject.CommonName)
		}
	})
	dir := t.TempDir()
	write := func(name, commonName string) {
		t.Helper()
		cert, key := tlstest.SelfSign(t, x509.Certificate{Subject: pkix.Name{CommonName: commonName}})
		testkit.WriteFile(t, filepath.Join(dir, name+".pem"), string(cert))
		testkit.WriteFile(t, filepath.Join(dir, name+".key"), string(key))
	}
	write("a", "first")
	write("b", "second")
	testkit.WriteFile(t, filepath.Join(dir, "bad.pem"), "x")
	testkit.WriteFile(t, filepath.Join(dir, "bad.key"), "x")
	testkit.Must(t, os.Mkdir(filepath.Join(dir, "folder.pem"), 0o700))
	// a file that never ends, and that Linux reports to be a regular one
	_ = os.Symlink("/proc/kmsg", filepath.Join(dir, "endless.pem"))
	a := serveHandler(t, newFront(t, proxyTo(conf.Proxy{
		Protocol: "https", To: conf.Text(s.Listener.Addr().String()),
		TLS: conf.ProxyTLS{Cert: "$arg_cert$arg_pem", Key: "$arg_cert.key", Dir: dir, NoResumption: true},
	})))
	for _, test := range []struct {
		query  string
		status int
		body   string
	}{
		{"", 200, ""}, {"cert=a&pem=.pem", 200, "first"}, {"cert=b&pem=.pem", 200, "second"},
		{"cert=missing&pem=.pem", 500, ""}, {"cert=bad&pem=.pem", 500, ""}, {"cert=folder&pem=.pem", 500, ""},
		{"cert=endless&pem=.pem", 500, ""},
		{"cert=" + filepath.Join(dir, "b") + "&pem=.pem", 200, "second"}, {"cert=a&pem=.pem", 200, "first"},
	} {
		if got := a.get("/?" + test.query); got.status != test.status || got.status == 200 && got.body != test.body {
			t.Errorf("%q: %d %q, want %d %q", test.query, got.status, got.body, test.status, test.body)
		}
	}
	write("a", "renewed")
	later := time.Now().Add(time.Minute) // a different time for sure
	testkit.Must(t, os.Chtimes(filepath.Join(dir, "a.pem"), later, later))
	a.get("/?cert=a&pem=.pem").is(t, 200, "renewed")
	testkit.Must(t, os.Remove(filepath.Join(dir, "a.pem")))
	a.get("/?cert=a&pem=.pem").is(t, 200, "renewed")
}

// With NoResumption every connection makes a full handshake; otherwise sessions are resumed.
func TestSessionsWithUpstreams(t *testing.T) {
	s := serveTLS(t, new(tls.Config), func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.TLS.DidResume) })
	for reuse, resumes := range map[string]bool{"on": true, "off": false} {
		a := serveConf(t, "", "location / { proxy_pass "+s.URL+"; proxy_ssl_session_reuse "+reuse+"; }")
		for i := range 3 {
			testkit.Equal(t, a.get("/").body, fmt.Sprint(i > 0 && resumes), reuse, "connection", i)
		}
	}
}

// A certificate is valid for the names that nginx accepts it for, and an invalid name does not skip
// the check.
func TestCertificateNamesAreNginxs(t *testing.T) {
	common := func(names ...string) pkix.Name {
		var n pkix.Name
		for _, name := range names {
			n.ExtraNames = append(n.ExtraNames, pkix.AttributeTypeAndValue{Type: []int{2, 5, 4, 3}, Value: name})
		}
		return n
	}
	for name, c := range map[string]struct {
		certificate x509.Certificate
		good, bad   string // names
	}{
		"DNS name": {x509.Certificate{DNSNames: []string{"good.example"},
			Subject: common("other.example")}, "good.example GOOD.example good.example:443",
			"other.example bad.example a.good.example"},
		"wild DNS name": {x509.Certificate{DNSNames: []string{"*.good.example"}},
			"a.good.example A.Good.Example", "good.example a.b.good.example"},
		"wild domain": {x509.Certificate{DNSNames: []string{"*.example", "Other.Example"}}, "other.example",
			"a.example A.EXAMPLE a.b.example"},
		"IP address": {x509.Certificate{IPAddresses: []net.IP{net.IPv4(10, 0, 0, 1), net.IPv6loopback},
			Subject: common("10.0.0.2")}, "10.0.0.1 [::1] [::1]:1 ::1", "10.0.0.2 [::2]"},
		"common name": {x509.Certificate{Subject: common("Good.example")},
			"good.example GOOD.EXAMPLE good.example:1", "bad.example a.good.example example"},
		"several common names": {x509.Certificate{Subject: common("one.example", "two.example")},
			"one.example two.example", "three.example"},
		"wild common name": {x509.Certificate{Subject: common("*.good.example")}, "a.good.example",
			"good.example a.b.good.example .good.example"},
		"wild everything":    {x509.Certificate{Subject: common("*.example")}, "", "a.example"},
		"star inside":        {x509.Certificate{Subject: common("a*.good.example")}, "", "ab.good.example"},
		"common name for IP": {x509.Certificate{Subject: common("10.0.0.1")}, "10.0.0.1", "10.0.0.2"},
		"mail beside": {x509.Certificate{Subject: common("good.example"),
			EmailAddresses: []string{"a@b.example"}}, "good.example", "b.example"},
		"constraint": {x509.Certificate{Subject: common("good.example"),
			PermittedDNSDomains: []string{"other.example"}}, "", "good.example"},
		"case beyond ASCII": {x509.Certificate{Subject: common("\u212a.good.example")}, "", "k.good.example"},
		"no name":           {x509.Certificate{Subject: common("")}, "", "good.example"},
	} {
		cert, key := tlstest.SelfSign(t, c.certificate)
		pair := testkit.Value(tls.X509KeyPair(cert, key))(t)
		s := serveTLS(t, &tls.Config{Certificates: []tls.Certificate{pair}}, shows)
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(cert)
		a := serveHandler(t, newFront(t, proxyTo(conf.Proxy{
			Protocol: "https", To: conf.Text(s.Listener.Addr().String()),
			TLS: conf.ProxyTLS{Config: &tls.Config{RootCAs: roots}, Name: "$arg_n"},
		})))
		for _, good := range strings.Fields(c.good) {
			testkit.Equal(t, a.get("/?n="+good).status, 200, name, good)
		}
		for _, bad := range append(strings.Fields(c.bad), "a..b", "a/b", "..", ".", "a%20b", "-", "[", "[::1", "a:b",
			"a,b", "") {
			testkit.Equal(t, a.get("/?n="+bad).status, 502, name, bad)
		}
	}
}

func hostListening(name string, listen ...string) conf.Host {
	h := conf.Host{Steps: []conf.Step{conf.Return{Status: 200, Text: conf.Text(name)}}, Names: []string{name}}
	for _, l := range listen {
		h.Listen = append(h.Listen, conf.Listen{Addr: l})
	}
	return h
}

// The host is one of the local address.
func TestHostIsOfLocalAddress(t *testing.T) {
	elsewhere := hostListening("elsewhere", "*:81")
	elsewhere.Listen[0].Default = true
	h := newFront(t, conf.Config{Hosts: []conf.Host{
		hostListening("all", "*:80"), hostListening("one", "10.0.0.1:80", "*:81"),
		hostListening("two", "10.0.0.1:80"), hostListening("six", "[::]:80", "[::1]:82"),
		hostListening("socket", "unix:/run/x"), elsewhere,
	}})
	tcp := func(ip string, port int) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: port} }
	for _, test := range []struct {
		local net.Addr
		host  string
		want  string
	}{
		{tcp("10.0.0.2", 80), "one", "all"}, {tcp("10.0.0.1", 80), "x", "one"}, {tcp("10.0.0.1", 80), "two", "two"},
		{tcp("10.0.0.1", 80), "all", "one"}, {tcp("10.0.0.1", 81), "x", "elsewhere"},
		{tcp("10.0.0.1", 81), "one", "one"},
		{tcp("::1", 80), "x", "six"}, {tcp("::1", 82), "x", "six"}, {tcp("::2", 82), "x", ""},
		{&net.UnixAddr{Name: "/run/x"}, "x", "socket"}, {&net.UnixAddr{Name: "/run/y"}, "x", ""},
		{tcp("10.0.0.1", 99), "all", ""}, {nil, "all", ""},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Host = test.host
		if test.local != nil {
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, test.local))
		}
		if got := responseTo(h, r); test.want == "" {
			testkit.Equal(t, got.status, http.StatusMisdirectedRequest, test.local, test.host)
		} else {
			testkit.Equal(t, got.body, test.want, test.local, test.host)
		}
	}
	withBody := httptest.NewRequest("POST", "/", strings.NewReader("x"))
	testkit.Equal(t, responseTo(h, withBody).status, http.StatusMisdirectedRequest, "a request with a body")
}

// If all hosts listen on the same addresses the address does not matter.
func TestSameHostsEverywhereNeedNoAddress(t *testing.T) {
	first, second := hostListening("first", "127.0.0.1:80", "[::1]:80"),
		hostListening("second", "[::1]:80", "127.0.0.1:80")
	h := newFront(t, conf.Config{Hosts: []conf.Host{first, second}})
	get(t, h, "/", "Host", "second").is(t, 200, "second")
	get(t, h, "/", "Host", "x").is(t, 200, "first")
	get(t, h, "/", "Host", "a/b").is(t, 400)
	anywhere := newFront(t, conf.Config{Hosts: []conf.Host{hostListening("anywhere"), hostListening("first",
		"127.0.0.1:80")}})
	for host, want := range map[string]string{"x": "anywhere", "first": "anywhere"} {
		get(t, anywhere, "/", "Host", host).is(t, 200, want)
	}
}

// The corpus compares HTTP/1 requests with nginx; its client does not support HTTP/2.
func TestMalformedHTTP2RequestsGet400(t *testing.T) {
	h := confFront(t, "", "return 200 fine;", nil)
	for name, c := range map[string]struct {
		method, authority string
		header            http.Header
		want              int
	}{
		"as usual":              {"GET", "a.example", nil, 200},
		"no :authority":         {"GET", "a.example", http.Header{"Host": {"a.example"}}, 200},
		"both alike":            {"GET", "a.example", http.Header{"Host": {"A.example"}}, 200},
		"both differ":           {"GET", "a.example", http.Header{"Host": {"b.example"}}, 400},
		"two hosts":             {"GET", "a.example", http.Header{"Host": {"a.example", "b.example"}}, 400},
		"two hosts alike":       {"GET", "a.example", http.Header{"Host": {"a.example", "a.example"}}, 400},
		"no host":               {"GET", "", nil, 400},
		"another port":          {"GET", "a.example:1", http.Header{"Host": {"a.example:2"}}, 400},
		"lower case":            {"get", "a.example", nil, 400},
		"two passwords":         {"GET", "a.example", http.Header{"Authorization": {"Basic YTpi", "Basic YTpj"}}, 400},
		"two conditions":        {"GET", "a.example", http.Header{"If-None-Match": {`"a"`, `"b"`}}, 400},
		"two lengths":           {"POST", "a.example", http.Header{"Content-Length": {"1", "1"}}, 400},
		"what may be repeated":  {"GET", "a.example", http.Header{"Cookie": {"a=1", "b=2"}, "X-A": {"1", "2"}}, 200},
		"a method with letters": {"M-SEARCH", "a.example", nil, 200},
	} {
		r := httptest.NewRequest(c.method, "https://a.example/", nil)
		r.Proto, r.ProtoMajor, r.ProtoMinor, r.Host = "HTTP/2.0", 2, 0, c.authority
		for name, values := range c.header {
			r.Header[name] = values
		}
		testkit.Equal(t, responseTo(h, r).status, c.want, name)
	}
}

// net/http leaves a Host field in the header of an HTTP/2 request. An application receives one
// HTTP_HOST, and no HTTP_PROXY.
func TestApplicationGetsOneHost(t *testing.T) {
	h := confFront(t, "", "location / { fastcgi_pass "+application(t, nil, "")+"; }", nil)
	r := httptest.NewRequest("GET", "https://a.example/", nil)
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/2.0", 2, 0
	r.Header["Host"], r.Header["Proxy"] = []string{"a.example"}, []string{"http://evil/"}
	var params map[string]string
	testkit.Must(t, json.Unmarshal([]byte(responseTo(h, r).body), &params))
	testkit.Equal(t, []string{params["(twice)"], params["HTTP_HOST"], params["HTTP_PROXY"]}, []string{"", "a.example", ""})
}

// CONNECT needs a host and a port. After CONNECT and TRACE a connection of HTTP/1 closes.
func TestConnectAndTraceAreRejected(t *testing.T) {
	h := confFront(t, "", "return 200 fine;", nil)
	for line, want := range map[string]int{
		"TRACE /": 405, "CONNECT a.example:443": 405, "CONNECT [::1]:443": 405, "CONNECT a.example": 400,
		"CONNECT a.example:": 400, "CONNECT a.example:0": 400, "CONNECT a.example:65536": 400, "CONNECT :443": 400,
		"CONNECT /": 400,
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Method, r.RequestURI, _ = strings.Cut(line, " ")
		got := responseTo(h, r)
		got.is(t, want)
		testkit.Fields(t, got.header, line, "Connection", "close")
	}
}
