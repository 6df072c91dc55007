//go:build linux && !http3

package cli

import "errors"

// useHTTP3 fails: this build has no HTTP/3.
func (f *loadFlags) useHTTP3() (end func(), err error) {
	return nil, errors.New("load: --http3: this program was built without HTTP/3 (build it with -tags http3)")
}
