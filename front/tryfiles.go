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
type tries struct {
	all    []try
	last   text
	status int // instead of last, if it is not 0
}

type try struct {
	name text
	kind files.Kind
}

// run finds the first that exists. What answers then sees its path.
func (t *tries) run(x *exchange) outcome {
	f := x.loc.files
	for i := range t.all {
		name, kind := t.all[i].name.of(x), t.all[i].kind
		if x.stuck {
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
		if f.tried(x, name) == kind {
			f.found(x, name)
			return proceed
		}
	}
	last := t.last.of(x)
	switch {
	case x.stuck:
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
func (f *fileSet) tried(x *exchange, name string) files.Kind {
	before := x.behind
	x.behind = name
	kind := f.kind(x, name)
	x.behind = before
	return kind
}

// found has the exchange go on with a file that try_files has found. With an alias its path is one of the location's.
func (f *fileSet) found(x *exchange, name string) {
	switch {
	case !f.alias:
		x.path = name
	case f.part == "":
		x.behind = name
	default:
		rest, _ := strings.CutPrefix(name, f.part)
		x.path = f.part + rest
	}
}

// tries compiles TryFiles.
func (c *compiler) tries(from []Text) (*tries, error) {
	if len(from) == 0 {
		return nil, nil
	}
	if len(from) == 1 {
		return nil, fmt.Errorf("%q is where to go if no file exists, but there is none to look for", from[0])
	}
	t := &tries{}
	for _, f := range from[:len(from)-1] {
		one := try{kind: files.File}
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
		t.all = append(t.all, one)
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
		err = c.leads(&t.last)
	}
	return t, err
}

// leads has an error come up if a named location that is gone to does not exist.
func (c *compiler) leads(to *text) error {
	if !to.constant() {
		return nil
	}
	switch {
	case strings.HasPrefix(to.literal, "@"):
		c.goals = append(c.goals, to.literal)
	case to.literal == "":
		return errors.New("there is no path and no named location")
	}
	return nil
}

// emptyPicture answers with a transparent picture of one pixel.
type emptyPicture struct{}

const emptyGIF = "GIF89a\x01\x00\x01\x00\x80\x01\x00\x00\x00\x00\xff\xff\xff!\xf9\x04\x01\x00\x00\x01\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02L\x01\x00;"

func (emptyPicture) serve(x *exchange) outcome {
	if x.method != http.MethodGet && x.method != http.MethodHead {
		return x.fail(http.StatusMethodNotAllowed)
	}
	header := x.w.Header()
	header["Content-Type"] = []string{"image/gif"}
	header["Content-Length"] = []string{strconv.Itoa(len(emptyGIF))}
	header["Last-Modified"] = []string{"Mon, 28 Sep 1970 06:00:00 GMT"}
	x.w.WriteHeader(x.statusOf(http.StatusOK))
	if x.method != http.MethodHead {
		_, _ = x.w.Write([]byte(emptyGIF))
	}
	return answered
}
