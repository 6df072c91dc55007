package front

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/tarehq/tare/front/files"
)

// tries are what try_files tries.
type tryFiles struct {
	files  []tryFile
	last   text
	status int // instead of last, if it is not 0
}

type tryFile struct {
	name text
	kind files.Kind
}

// run finds the first that exists. What answers then sees its path.
func (t *tryFiles) run(x *exchange) outcome {
	f := x.loc.files
	for i := range t.files {
		name, kind := t.files[i].name.eval(x), t.files[i].kind
		if x.regexTimedOut {
			break
		}
		if strings.HasPrefix(name, "/") {
			var ok bool
			if name, ok = cleanPath(name, x.host.keepSlashes); !ok {
				continue
			}
		}
		if kind == files.File && strings.HasSuffix(name, "/") || !f.alias && !strings.HasPrefix(name, "/") {
			continue
		}
		if f.triedKind(x, name) == kind {
			f.useTried(x, name)
			return proceed
		}
	}
	last := t.last.eval(x)
	switch {
	case x.regexTimedOut:
		return x.fail(http.StatusInternalServerError)
	case t.status != 0:
		return x.fail(t.status)
	}
	if strings.HasPrefix(last, "@") {
		return x.redirectNamed(last)
	}
	path, args := splitArgs(last)
	if !strings.HasPrefix(path, "/") { // as in nginx a regular expression may match it, and no prefix does
		clean, ok := cleanPath("/"+path, true)
		if !ok {
			return x.fail(http.StatusInternalServerError)
		}
		return x.redirectTo(clean[1:], args)
	}
	return x.redirect(path, args)
}

// tried looks what a name is that try_files tries. It may be the request's own, and stands behind an alias of a regular expression all the
// same.
func (f *fileSet) triedKind(x *exchange, name string) files.Kind {
	before := x.triedFile
	x.triedFile = name
	kind := f.kind(x, name)
	x.triedFile = before
	return kind
}

// found has the exchange go on with a file that try_files has found. With an alias its path is one of the location's.
func (f *fileSet) useTried(x *exchange, name string) {
	switch {
	case !f.alias:
		x.path = name
	case f.prefix == "":
		x.triedFile = name
	default:
		rest, _ := strings.CutPrefix(name, f.prefix)
		x.path = f.prefix + rest
	}
}

// tries compiles TryFiles.
func (c *compiler) tryFiles(from []Text) (*tryFiles, error) {
	if len(from) == 0 {
		return nil, nil
	}
	if len(from) == 1 {
		return nil, fmt.Errorf("%q is where to go if no file exists, but there is none to look for", from[0])
	}
	t := &tryFiles{}
	for _, f := range from[:len(from)-1] {
		one := tryFile{kind: files.File}
		if rest, ok := strings.CutSuffix(string(f), "/"); ok {
			f, one.kind = Text(rest), files.Directory
		}
		var err error
		if one.name, err = c.text(f); err != nil {
			return nil, err
		}
		if one.name.empty() && one.kind == files.Directory {
			one.name.literal = "/"
		}
		t.files = append(t.files, one)
	}
	last := string(from[len(from)-1])
	if code, ok := strings.CutPrefix(last, "="); ok {
		n, err := strconv.Atoi(code)
		if err != nil || !isFinal(n) {
			return nil, fmt.Errorf("%q is no status, want one such as =404", last)
		}
		t.status = n
		return t, nil
	}
	var err error
	t.last, err = c.text(Text(last))
	if err == nil {
		err = c.checkNamedTarget(&t.last)
	}
	return t, err
}

// leads has an error come up if a named location that is gone to does not exist.
func (c *compiler) checkNamedTarget(to *text) error {
	if !to.constant() {
		return nil
	}
	switch {
	case strings.HasPrefix(to.literal, "@"):
		c.namedTargets = append(c.namedTargets, to.literal)
	case to.literal == "":
		return errors.New("there is no path and no named location")
	}
	return nil
}

// emptyPicture answers with a transparent picture of one pixel.
type emptyGIFContent struct{}

const emptyGIF = "GIF89a\x01\x00\x01\x00\x80\x01\x00\x00\x00\x00\xff\xff\xff!\xf9\x04\x01\x00\x00\x01\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02L\x01\x00;"

func (emptyGIFContent) serve(x *exchange) outcome {
	if x.method != http.MethodGet && x.method != http.MethodHead {
		return x.fail(http.StatusMethodNotAllowed)
	}
	header := x.w.Header()
	header["Content-Type"] = []string{"image/gif"}
	header["Content-Length"] = []string{strconv.Itoa(len(emptyGIF))}
	header["Last-Modified"] = []string{"Mon, 28 Sep 1970 06:00:00 GMT"}
	x.w.WriteHeader(x.pageStatus(http.StatusOK))
	if x.method != http.MethodHead {
		_, _ = x.w.Write([]byte(emptyGIF))
	}
	return responded
}
