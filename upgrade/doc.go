// Package upgrade replaces a running server by a new process of its program, which may have another
// version, without losing a request. It works with tare.Server, fcgi.Server and http.Server, and
// with systemd.
//
//	u, err := upgrade.New(upgrade.Options{PIDFile: "/run/app.pid"})
//	…
//	l, err := u.Listen("tcp", ":8080")
//	…
//	u.Serve(tare.Wrap(&http.Server{Handler: u.Handler(mux)}), l)
//	log.Fatal(u.Run(context.Background()))
//
// When the process receives SIGUSR2, Run starts the program's file again with the same arguments.
// Then, in this order:
//
//	old process                         new process
//	passes its listening sockets ─────▶ New, Listen: receives them
//	serves                              reads its configuration, fills caches
//	serves                    ◀───────  Run, Ready: reports that it is ready
//	confirms, accepts no more ───────▶  accepts connections
//	finishes its requests, exits        serves
//
// The sockets stay open all the time: connections that arrive between two processes wait in their
// queue. If the new process fails before it is ready, or is not ready in time, the old process ends
// it, logs why and serves on.
//
// # How connections end
//
// The old process closes no connection on which a request may be on its way. The next response on a
// keep-alive connection has Connection: close, or GOAWAY follows it. Idle connections that bring no
// request are closed after Options.IdleGrace. Requests in progress, downloads and websockets end by
// themselves, or after Options.DrainTimeout. A websocket is waited for if its handler runs inside
// of Upgrader.Handler until the connection ends.
//
// # systemd
//
// If the service manager has set NOTIFY_SOCKET, Run reports READY, RELOADING, STOPPING, the main
// process and, at half of WatchdogSec, WATCHDOG (sd_notify(3)). Sockets of socket units replace
// those that Listen would open.
//
// # Systems
//
// The package builds everywhere. Upgrades need a Unix system. On Windows, Upgrade returns an error
// that wraps errors.ErrUnsupported, and everything else works.
package upgrade
