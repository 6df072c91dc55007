package agent

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/tarehq/tare/load"
)

// Plan is a load.Plan in a form that can be sent.
type Plan struct {
	load.Plan
	HTTP      string `json:"http,omitempty"`       // its Version: "1.0", "1.1" (default) or "2"
	BodyBytes []byte `json:"bodyBase64,omitempty"` // a Body that is not UTF-8
	TLS       *TLS   `json:"tls,omitempty"`
}

// TLS is a TLS configuration in a form that can be sent. The zero value is Go's default.
type TLS struct {
	Insecure   bool   `json:"insecure,omitempty"`       // accept any certificate
	CA         string `json:"caPem,omitempty"`          // trusted certificates; empty means the system's
	Cert       string `json:"certificatePem,omitempty"` // client certificate
	Key        string `json:"keyPem,omitempty"`         // its key; empty means that Cert holds it
	ServerName string `json:"serverName,omitempty"`
	// MinVersion and Curves are tls.Config's MinVersion and CurvePreferences.
	MinVersion uint16        `json:"minVersion,omitempty"`
	Curves     []tls.CurveID `json:"curves,omitempty"`
	// Sessions is the number of TLS sessions that are kept, which later handshakes resume.
	Sessions int `json:"sessions,omitempty"`
}

// Config returns the configuration.
func (t *TLS) Config() (*tls.Config, error) {
	config := &tls.Config{InsecureSkipVerify: t.Insecure, ServerName: t.ServerName, MinVersion: t.MinVersion,
		CurvePreferences: t.Curves}
	if t.Sessions > 0 {
		config.ClientSessionCache = tls.NewLRUClientSessionCache(t.Sessions)
	}
	if t.CA != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(t.CA)) {
			return nil, errors.New("trusted certificates: no certificate in PEM form")
		}
	}
	if t.Cert != "" {
		key := t.Key
		if key == "" {
			key = t.Cert
		}
		pair, err := tls.X509KeyPair([]byte(t.Cert), []byte(key))
		if err != nil {
			return nil, fmt.Errorf("client certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// NewPlan returns the form of a plan. Its TLS is described by t, and its Trace is left out.
func NewPlan(p load.Plan, t *TLS) (*Plan, error) {
	out := &Plan{Plan: p, TLS: t, HTTP: map[load.Version]string{load.HTTP10: "1.0", load.HTTP2: "2"}[p.Version]}
	if !utf8.ValidString(p.Body) {
		out.Body, out.BodyBytes = "", []byte(p.Body)
	}
	texts := slices.Concat([]string{p.URL, p.Method}, p.Header, p.Params)
	for _, r := range p.List {
		texts = append(append(texts, r.URL, r.Method, r.Body), r.Header...)
	}
	for _, text := range texts {
		if !utf8.ValidString(text) {
			return nil, &load.PlanError{Reason: fmt.Sprintf("%q is not UTF-8, which an agent requires", text)}
		}
	}
	return out, nil
}

// Load returns the plan with its TLS configuration.
func (p *Plan) Load() (out load.Plan, err error) {
	out = p.Plan
	if len(p.BodyBytes) > 0 {
		out.Body = string(p.BodyBytes)
	}
	versions := map[string]load.Version{"": load.HTTP11, "1.1": load.HTTP11, "1.0": load.HTTP10, "2": load.HTTP2}
	var isKnown bool
	if out.Version, isKnown = versions[p.HTTP]; !isKnown {
		return out, &load.PlanError{Reason: fmt.Sprintf("HTTP version %q: want 1.0, 1.1 or 2", p.HTTP)}
	}
	if p.TLS != nil {
		if out.TLS, err = p.TLS.Config(); err != nil {
			return out, &load.PlanError{Reason: "TLS: " + err.Error()}
		}
	}
	return out, nil
}
