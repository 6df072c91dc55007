package tare

import (
	"crypto/tls"
	"net"
	"net/http"
)

// ListenAndServeTLS is ListenAndServe with TLS: it serves HTTP/2 and HTTP/1.1, with
// the certificate and the key that the files hold in PEM.
func ListenAndServeTLS(addr, certFile, keyFile string, handler http.Handler) error {
	return Wrap(&http.Server{Addr: addr, Handler: handler}).ListenAndServeTLS(certFile, keyFile)
}

// ServeTLS is Serve with TLS, as ListenAndServeTLS is ListenAndServe with it.
func ServeTLS(l net.Listener, handler http.Handler, certFile, keyFile string) error {
	return Wrap(&http.Server{Handler: handler}).ServeTLS(l, certFile, keyFile)
}

// ListenAndServeTLS listens on the TCP address Addr, ":https" if it is empty, and
// serves as ServeTLS does.
func (s *Server) ListenAndServeTLS(certFile, keyFile string) error {
	l, err := s.listen(":https")
	if err != nil {
		return err
	}
	defer l.Close()
	return s.ServeTLS(l, certFile, keyFile)
}

// ServeTLS accepts TLS connections on l and serves them as Serve does, over HTTP/2
// or HTTP/1.1, as Protocols say and clients choose. certFile holds the server's
// certificate and those of whoever signed it, keyFile its key, in PEM. They may be
// empty if TLSConfig has Certificates, GetCertificate or GetConfigForClient.
// TLSConfig is copied, and stays as it is.
//
// It does not close l if it fails before it has accepted, for want of a certificate
// for example.
func (s *Server) ServeTLS(l net.Listener, certFile, keyFile string) error {
	config, err := s.tlsConfig(certFile, keyFile)
	if err != nil {
		return err
	}
	return s.Serve(tls.NewListener(l, config))
}

// tlsConfig is TLSConfig with the protocols to offer and the files' certificate.
func (s *Server) tlsConfig(certFile, keyFile string) (*tls.Config, error) {
	s.mu.Lock() // another Serve may be tying the servers together, while the settings are away
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
