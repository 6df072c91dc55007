// Package server runs what an nginx.conf or a [conf.Config] describes: it opens the sockets,
// serves certificates by name, writes logs, reloads without losing requests, and drains. "tare
// serve" is this package with flags.
//
//	app := server.Bind("app", handler) // proxy_pass http://app calls it
//	err := server.Run(ctx, server.File{Path: "nginx.conf"}, server.Options{}, app)
//
// # Life of a Server
//
//	open       reads the configuration, opens certificates, logs, caches and sockets
//	confined   gives up privileges, for good
//	serving    Reload and Reopen work; Ready has been called
//	draining   no new connections; requests in progress end, at most for Options.Grace
//
// Everything that requires privileges happens in the first state. An error in the first three
// states undoes it: no socket, PID file or goroutine remains.
//
// # Certificates
//
// Certificates are files, which are read again when they change, or are issued by ACME and renewed
// while the Server runs: see conf.Issuer. Handshakes for the names of an issued certificate fail
// until it exists. At the end, orders in progress are canceled, so that another process can make
// them.
//
// # Signals
//
// Unless Options.NoSignals is set, Run handles these signals as nginx does:
//
//	SIGHUP           Reload
//	SIGUSR1          Reopen
//	SIGQUIT          finish the requests in progress, and end
//	SIGUSR2          Upgrade, with Options.Upgrade
//	SIGTERM, SIGINT  finish them within Options.Grace, and end; a second one aborts them, and a
//	                 start or a reload that waits
//
// # Reloads
//
// Reload applies a configuration completely or not at all, and then reopens the logs. Sockets whose
// address stays remain open. New servers replace those of the socket, with a duplicate of the
// descriptor. The old ones end their connections after their next response, and after
// worker_shutdown_timeout at the latest. Settings that only a start can apply are reported.
//
// The socket for all addresses of a port accepts for its single addresses, too. Each address has a
// server of its own: for its TLS, versions of HTTP, PROXY protocol and timeouts. front.Handler
// rejects requests on connections that lack what their address requires since a reload.
//
// # HTTP/3
//
// Options.HTTP3 serves "listen … quic": see package front/http3. Its settings change without
// another socket. Open connections end with GOAWAY if they depend on what changed, such as a
// timeout or a TLS setting of their address.
//
// # Upgrades
//
// With Options.Upgrade another process of the program, which may have another version, replaces
// this one without losing a request: see package upgrade. The new process reads the configuration,
// opens what it names, and receives the listening sockets. Until it is ready nothing changes for
// clients. If it fails, this process prints why and serves on.
//
// Then the old process ends each connection after its next response, with Connection: close or
// GOAWAY, and idle ones after keepalive_timeout. It ends after its last request, or after
// worker_shutdown_timeout. SIGQUIT closes idle connections at once, SIGTERM limits the time of
// requests to Options.Grace. As with nginx, a file with the suffix .oldbin contains its process ID.
// Unlike with nginx, it needs no SIGQUIT to end.
//
// The new process has the privileges of the old one. It cannot open what only root may: the user
// must be able to read the configuration and the keys, and to replace the PID file. A process that
// is confined to a folder cannot be replaced.
package server
