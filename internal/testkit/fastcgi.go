package testkit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// ReadFastCGI reads a request as an application does, without the codec that is tested. The value of
// "(twice)" has the names of parameters that occur again. keep is that of FCGI_KEEP_CONN.
func ReadFastCGI(in io.Reader) (params map[string]string, body []byte, keep bool, err error) {
	const begin, paramsStream, stdin = 1, 4, 5
	var list []byte
	for {
		var head [8]byte
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return nil, nil, false, err
		}
		content := make([]byte, int(binary.BigEndian.Uint16(head[4:]))+int(head[6]))
		if _, err := io.ReadFull(in, content); err != nil {
			return nil, nil, false, fmt.Errorf("truncated record: %w", err)
		}
		content = content[:len(content)-int(head[6])]
		switch head[1] {
		case begin:
			keep = content[2]&1 != 0
		case paramsStream:
			list = append(list, content...)
		case stdin:
			if body = append(body, content...); len(content) == 0 {
				params, err = readPairs(list)
				return params, body, keep, err
			}
		default:
			return nil, nil, false, fmt.Errorf("unexpected record type %d", head[1])
		}
	}
}

func readPairs(list []byte) (map[string]string, error) {
	params := make(map[string]string)
	length := func() (n int) {
		if n, list = int(list[0]), list[1:]; n >= 128 {
			n, list = n&0x7f<<24|int(list[0])<<16|int(list[1])<<8|int(list[2]), list[3:]
		}
		return n
	}
	for len(list) > 0 {
		n := length()
		m := length()
		if n+m > len(list) {
			return nil, errors.New("parameters that end early")
		}
		name, value := string(list[:n]), string(list[n:n+m])
		if _, twice := params[name]; twice {
			params["(twice)"] += name + " "
		}
		params[name], list = value, list[n+m:]
	}
	return params, nil
}
