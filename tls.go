package tare

import (
	"cmp"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
)

// ListenAndServeTLS is ListenAndServe over TLS. It serves HTTP/2 and HTTP/1.1. The files hold the
// certificate and its key in PEM.
func ListenAndServeTLS(addr, certFile, keyFile string, handler http.Handler) error {
	return Wrap(&http.Server{Addr: addr, Handler: handler}).ListenAndServeTLS(certFile, keyFile)
}

// ServeTLS is Serve over TLS. See ListenAndServeTLS.
func ServeTLS(l net.Listener, handler http.Handler, certFile, keyFile string) error {
	return Wrap(&http.Server{Handler: handler}).ServeTLS(l, certFile, keyFile)
}

// ListenAndServeTLS listens on the TCP address Addr, or on ":https" if that is empty, and calls
// ServeTLS.
func (s *Server) ListenAndServeTLS(certFile, keyFile string) error {
	if err := s.attachHook(true); err != nil {
		return err
	}
	defer s.detachHook(true)
	l, err := net.Listen("tcp", cmp.Or(s.Addr, ":https"))
	if err != nil {
		return err
	}
	defer l.Close()
	return s.ServeTLS(l, certFile, keyFile)
}

// ServeTLS accepts TLS connections on l and serves them as Serve does, over HTTP/2 or HTTP/1.1:
// Protocols lists the supported ones, and each client chooses. The files are in PEM: certFile holds
// the server's certificate, followed by any intermediate certificates, and keyFile its key. Both
// names may be empty if TLSConfig has Certificates, GetCertificate or GetConfigForClient. As
// with net/http, NextProtos of TLSConfig then lists HTTP/2, if it is enabled.
//
// It does not close l if it fails before accepting, for example because there is no certificate.
func (s *Server) ServeTLS(l net.Listener, certFile, keyFile string) error {
	if err := s.attachHook(true); err != nil {
		if errors.Is(err, http.ErrServerClosed) {
			l.Close()
		}
		return err
	}
	defer s.detachHook(true)
	config, err := s.tlsConfig(certFile, keyFile)
	if err != nil {
		return err
	}
	return s.run().ServeTLS(l, config)
}

// tlsConfig returns TLSConfig with the protocols to negotiate and the certificate of the files.
func (s *Server) tlsConfig(certFile, keyFile string) (*tls.Config, error) {
	config := s.TLSConfig.Clone()
	if config == nil {
		config = new(tls.Config)
	}
	config.NextProtos = s.run().NextProtos(config.NextProtos)
	has := len(config.Certificates) > 0 || config.GetCertificate != nil || config.GetConfigForClient != nil
	if has && certFile == "" && keyFile == "" {
		return config, nil
	}
	certificate, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, err
	}
	config.Certificates = []tls.Certificate{certificate}
	return config, nil
}
