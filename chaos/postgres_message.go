package chaos

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"strings"
)

// pgMessage reads the messages of one direction of a Postgres connection: a type, except in the client's first
// packets, a length that counts itself, a body.
type pgMessage struct {
	kind byte
	size int    // of the body
	body []byte // its beginning

	head  [5]byte
	have  int // bytes of head
	sized bool
	left  int // of the body still to come
}

const (
	maxKept    = 1 << 10 // of a body: enough for names and short statements
	maxMessage = 1 << 30
)

var errMessage = errors.New("a message of an impossible length")

// read reads at most to the end of one message, and says whether it has ended.
func (m *pgMessage) read(b []byte, typed bool) (n int, end bool, err error) {
	if !m.sized {
		skip := 0
		if !typed {
			skip = 1
			m.have = max(m.have, 1)
		}
		n = copy(m.head[m.have:], b)
		m.have += n
		if m.have < len(m.head) {
			return n, false, nil
		}
		length := int(binary.BigEndian.Uint32(m.head[1:]))
		if length < 4 || length > maxMessage || skip == 1 && length > maxStartup {
			return n, false, errMessage
		}
		m.kind, m.size, m.left, m.sized = m.head[0], length-4, length-4, true
		m.body = m.body[:0]
	}
	took := min(m.left, len(b)-n)
	m.body = append(m.body, b[n:n+min(took, maxKept-len(m.body))]...)
	m.left, n = m.left-took, n+took
	if m.left > 0 {
		return n, false, nil
	}
	m.have, m.sized = 0, false
	return n, true, nil
}

// readSQL is the word by which a statement is shown, and whether it is no step: nothing, a comment, or, outside a
// transaction, a setting of the connection's own or a bare SELECT 1. Of text, size bytes were sent, and its end is
// zero; what is too long to be seen whole is a step.
func readSQL(text []byte, size int, status byte) (word string, calm bool) {
	seen, _, whole := bytes.Cut(text, []byte{0})
	sql := strings.Trim(withoutComments(string(seen)), "; \t\r\n")
	end := strings.IndexFunc(sql, func(c rune) bool { return (c|0x20) < 'a' || (c|0x20) > 'z' })
	if end < 0 {
		end = len(sql)
	}
	word = strings.ToUpper(sql[:min(end, maxWord)])
	if !whole && size > len(text) {
		return cmp.Or(word, "?"), false
	}
	if sql == "" {
		return "nothing", true
	}
	if status != 'I' || strings.Contains(sql, ";") {
		return cmp.Or(word, "?"), false
	}
	switch word {
	case "SET", "RESET", "SHOW", "DEALLOCATE", "DISCARD":
		calm = true
	case "SELECT":
		calm = strings.Join(strings.Fields(sql), " ")[len("SELECT"):] == " 1"
	}
	return cmp.Or(word, "?"), calm
}

// withoutComments drops the comments before a statement.
func withoutComments(sql string) string {
	for {
		sql = strings.TrimLeft(sql, "; \t\r\n")
		switch {
		case strings.HasPrefix(sql, "--"):
			_, sql, _ = strings.Cut(sql, "\n")
		case strings.HasPrefix(sql, "/*"):
			end := strings.Index(sql, "*/")
			if end < 0 || strings.Contains(sql[2:end], "/*") {
				return sql // they nest, and nobody nests them before a ping
			}
			sql = sql[end+2:]
		default:
			return sql
		}
	}
}

// sqlState is the five characters of an ErrorResponse that say what kind of error it is.
func sqlState(body []byte) string {
	for field := range bytes.SplitSeq(body, []byte{0}) {
		if len(field) == 6 && field[0] == 'C' {
			return plainWord(string(field[1:]))
		}
	}
	return "?"
}

// tag is what a CommandComplete says was done: words and numbers.
func tag(body []byte) string {
	text, _, _ := bytes.Cut(body, []byte{0})
	return string(text[:min(len(text), 2*maxWord)])
}
