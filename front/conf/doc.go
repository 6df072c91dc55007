// Package conf describes a front: virtual hosts, locations, upstreams, caches and limits. A Config
// is plain data that compiles nothing, opens nothing and resolves nothing. Package nginxconf makes
// one of an nginx.conf, a program may write its own, and front.New makes a handler of it.
//
// Words of this package:
//
//   - Text: a string with variables, as in nginx.
//   - place: where Settings are, a host or a location.
//   - step: a directive of the rewrite phase.
package conf
