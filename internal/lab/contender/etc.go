package contender

import (
	"errors"
	"os"
	"path/filepath"
)

// The files that configurations include, for fronts on machines without nginx.
const (
	mimeTypes = `types {
	text/html html htm;
	text/css css;
	text/plain txt;
	text/javascript js mjs;
	application/json json;
	application/wasm wasm;
	image/png png;
	image/jpeg jpeg jpg;
	image/svg+xml svg;
	font/woff2 woff2;
	application/octet-stream bin;
}
`
	fastcgiParams = `fastcgi_param GATEWAY_INTERFACE CGI/1.1;
fastcgi_param SERVER_SOFTWARE nginx/$nginx_version;
fastcgi_param QUERY_STRING $query_string;
fastcgi_param REQUEST_METHOD $request_method;
fastcgi_param CONTENT_TYPE $content_type;
fastcgi_param CONTENT_LENGTH $content_length;
fastcgi_param SCRIPT_NAME $fastcgi_script_name;
fastcgi_param REQUEST_URI $request_uri;
fastcgi_param DOCUMENT_URI $document_uri;
fastcgi_param DOCUMENT_ROOT $document_root;
fastcgi_param SERVER_PROTOCOL $server_protocol;
fastcgi_param REQUEST_SCHEME $scheme;
fastcgi_param HTTPS $https if_not_empty;
fastcgi_param REMOTE_ADDR $remote_addr;
fastcgi_param REMOTE_PORT $remote_port;
fastcgi_param SERVER_ADDR $server_addr;
fastcgi_param SERVER_PORT $server_port;
fastcgi_param SERVER_NAME $server_name;
fastcgi_param REDIRECT_STATUS 200;
`
)

// etc returns the folder of the files that the front's configuration includes: nginx's, or one that
// it makes in the scratch folder.
func (r *Running) etc() (string, error) {
	if r.Nginx != nil {
		return r.Nginx.Etc, nil
	}
	dir := filepath.Join(r.dir, "etc")
	return dir, errors.Join(os.MkdirAll(dir, 0o755),
		os.WriteFile(filepath.Join(dir, "mime.types"), []byte(mimeTypes), 0o644),
		os.WriteFile(filepath.Join(dir, "fastcgi_params"), []byte(fastcgiParams), 0o644))
}
