package chaos

import (
	"bytes"
	"errors"
	"strconv"
)

// respReplies reads the answers of a Redis server, of RESP 2 and 3.
type respReplies struct {
	line []byte
	skip int         // bytes of the bulk string being read still to come, with its line end
	in   []aggregate // the arrays, maps and the like that are being read, the outermost first
	said string
}

// aggregate is one that has begun.
type aggregate struct {
	left  int // elements still to come
	aside bool
}

// maxDepth is deeper than anything a server answers.
const maxDepth = 128

var errReply = errors.New("an answer that is no RESP")

func (r *resp) heard(b []byte) (n int, end bool, err error) {
	n, end, counts, err := r.replies.read(b)
	if counts && r.open > 0 {
		r.open--
	}
	return n, end, err
}

// read reads at most to the end of one answer, and says whether it is one to a command: what the server pushes, and
// an attribute before an answer, are not.
func (r *respReplies) read(b []byte) (n int, end, counts bool, err error) {
	for n < len(b) {
		if r.skip > 0 {
			took := min(r.skip, len(b)-n)
			r.skip, n = r.skip-took, n+took
			if r.skip == 0 {
				if end, counts = r.ended(false); end {
					return n, end, counts, nil
				}
			}
			continue
		}
		i := bytes.IndexByte(b[n:], '\n')
		if i < 0 {
			r.line, n = append(r.line, b[n:]...), len(b)
			if len(r.line) > maxLine {
				return n, false, false, errReply
			}
			break
		}
		r.line, n = append(r.line, b[n:n+i+1]...), n+i+1
		end, counts, err = r.item(bytes.TrimRight(r.line, "\r\n"))
		r.line = r.line[:0]
		if end || err != nil {
			return n, end, counts, err
		}
	}
	return n, false, false, nil
}

// item reads the first line of a value.
func (r *respReplies) item(line []byte) (end, counts bool, err error) {
	if len(line) == 0 {
		return false, false, errReply
	}
	switch line[0] {
	case '-':
		if len(r.in) == 0 {
			code, _, _ := bytes.Cut(line[1:], []byte(" "))
			r.said = "error " + plainWord(string(code))
		}
	case '+', ':', '_', '#', ',', '(':
	case '$', '!', '=', '*', '~', '%', '|', '>':
		size, err := strconv.Atoi(string(line[1:]))
		if err != nil || size < -1 || size > maxBulk {
			return false, false, errReply
		}
		return r.sized(line[0], size)
	default:
		return false, false, errReply
	}
	end, counts = r.ended(false)
	return end, counts, nil
}

// sized begins a value of known size; -1 stands for null.
func (r *respReplies) sized(kind byte, size int) (end, counts bool, err error) {
	if kind == '$' || kind == '!' || kind == '=' {
		if size >= 0 {
			r.skip = size + 2
			return false, false, nil
		}
	} else if size > 0 {
		if len(r.in) == maxDepth {
			return false, false, errReply
		}
		if kind == '%' || kind == '|' {
			size *= 2
		}
		r.in = append(r.in, aggregate{left: size, aside: kind == '|' || kind == '>'})
		return false, false, nil
	}
	end, counts = r.ended(kind == '|' || kind == '>')
	return end, counts, nil
}

// ended ends a value, and all that end with it.
func (r *respReplies) ended(aside bool) (end, counts bool) {
	for len(r.in) > 0 {
		last := &r.in[len(r.in)-1]
		if !aside {
			last.left--
		}
		if last.left > 0 {
			return false, false
		}
		aside = last.aside
		r.in = r.in[:len(r.in)-1]
	}
	return true, !aside
}
