package tare

import (
	"crypto/tls"
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
	l, err := s.listen(":https", true)
	if err != nil {
		return err
	}
	defer l.Close()
	return s.ServeTLS(l, certFile, keyFile)
}

// ServeTLS accepts TLS connections on l and serves them as Serve does, over HTTP/2 or HTTP/1.1:
// Protocols lists the supported ones, and each client chooses. The files are in PEM: certFile holds
// the server's certificate, followed by any intermediate certificates, and keyFile its key. Both
// names may be empty if TLSConfig has Certificates, GetCertificate or GetConfigForClient. TLSConfig
// is copied and not changed.
//
// It does not close l if it fails before accepting, for example because there is no certificate.
func (s *Server) ServeTLS(l net.Listener, certFile, keyFile string) error {
	_ = s.closed(true) // net/http sets TLSNextProto even if there is no certificate
	config, err := s.tlsConfig(certFile, keyFile)
	if err != nil {
		return err
	}
	return s.serve(l, config)
}

// tlsConfig returns TLSConfig with the protocols to negotiate and the certificate of the files.
func (s *Server) tlsConfig(certFile, keyFile string) (*tls.Config, error) {
	s.mu.Lock() // while another Serve attaches the close hook, TLSConfig is nil
	defer s.mu.Unlock()
	config := s.TLSConfig.Clone()
	if config == nil {
		config = new(tls.Config)
	}
	protos, err := s.run().NextProtos(config.NextProtos)
	if err != nil {
		return nil, err
	}
	config.NextProtos = protos
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
