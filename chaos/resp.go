package chaos

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
)

// The bounds that a Redis server has too, beyond which it ends the connection.
const (
	maxLine      = 64 << 10
	maxArguments = 1 << 20
	maxBulk      = 512 << 20
)

// resp finds the commands of RESP, one request each, and counts what of them is answered. A command that only
// prepares the connection or asks about the server is no step. MULTI, each command that is queued after it, and EXEC
// are requests as all others are: EXEC is the COMMIT of Redis, and sent in one write they are one batch.
type resp struct {
	open int // commands without an answer

	line      []byte // the line being read
	arguments int    // bulk strings of this command still to come
	skip      int    // bytes of the bulk string being read still to come, with its line end
	size      int    // bytes of this command so far
	words     [2]string
	have      int    // how many of words are complete
	word      []byte // the one being read

	replies respReplies
}

func (*resp) name() string      { return string(Redis) }
func (r *resp) mid() bool       { return r.size > 0 }
func (r *resp) idle() bool      { return r.open == 0 && r.size == 0 }
func (*resp) invites() bool     { return false }
func (r *resp) answer() string  { return r.replies.said }
func (r *resp) backend() uint32 { return 0 }

func (r *resp) sent(b []byte) (n int, _ request, err error) {
	for n < len(b) {
		if r.skip > 0 {
			n += r.bulk(b[n:])
			if r.skip == 0 && r.arguments == 0 {
				q, err := r.command()
				return n, q, err
			}
			continue
		}
		end := bytes.IndexByte(b[n:], '\n')
		took := b[n:]
		if end >= 0 {
			took = took[:end+1]
		}
		r.line, r.size, n = append(r.line, took...), r.size+len(took), n+len(took)
		if len(r.line) > maxLine {
			return n, request{}, errors.New("a line without an end")
		}
		if end < 0 {
			break
		}
		whole, err := r.header(strings.TrimRight(string(r.line), "\r\n"))
		r.line = r.line[:0]
		if err != nil {
			return n, request{}, err
		}
		if whole {
			q, err := r.command()
			return n, q, err
		}
	}
	return n, request{word: r.words[0]}, nil
}

// header reads a line: how many bulk strings come, or how long the next one is, or a whole command in the old style.
func (r *resp) header(line string) (whole bool, err error) {
	switch {
	case r.arguments > 0:
		size, err := strconv.Atoi(strings.TrimPrefix(line, "$"))
		if err != nil || line[0] != '$' || size < 0 || size > maxBulk {
			return false, errors.New("no length of a bulk string where one was due")
		}
		r.arguments, r.skip, r.word = r.arguments-1, size+2, r.word[:0]
		return false, nil
	case strings.HasPrefix(line, "*"):
		n, err := strconv.Atoi(line[1:])
		if err != nil || n > maxArguments {
			return false, errors.New("no number of arguments where one was due")
		}
		r.arguments = max(n, 0)
		return n <= 0, nil // the server passes over an empty one
	}
	for word := range strings.FieldsSeq(line) {
		r.keep(word)
	}
	return true, nil
}

// bulk reads on in a bulk string, and keeps the command's first two words.
func (r *resp) bulk(b []byte) (n int) {
	n = min(r.skip, len(b))
	if r.have < len(r.words) {
		text := min(n, max(r.skip-2, 0)) // the last two are the line end
		r.word = append(r.word, b[:min(text, maxWord+1-len(r.word))]...)
	}
	r.skip, r.size = r.skip-n, r.size+n
	if r.skip == 0 {
		r.keep(string(r.word))
	}
	return n
}

func (r *resp) keep(word string) {
	if r.have < len(r.words) {
		r.words[r.have] = plainWord(word)
		r.have++
	}
}

// command ends the command that was read.
func (r *resp) command() (request, error) {
	q := request{whole: true, plain: true}
	name, sub := r.words[0], r.words[1]
	if r.have > 0 {
		if r.open++; r.open == 1 {
			r.replies.said = ""
		}
		if !prepares(name, sub) {
			q.runs, q.word, q.commands = r.size, name, 1
		}
	}
	r.size, r.have, r.words = 0, 0, [2]string{}
	if cannotFollow(name, sub) {
		return q, errors.New("after " + name + " the server speaks unasked or not at all")
	}
	return q, nil
}

// prepares reports whether a command is no step: it has no effect that another connection could see, and no answer
// that depends on what others do.
func prepares(name, sub string) bool {
	switch name {
	case "hello", "auth", "select", "client", "ping", "echo", "quit", "reset", "command", "info", "cluster",
		"readonly", "readwrite", "asking", "role", "sentinel":
		return true
	case "script", "function":
		return sub == "load" || sub == "exists" || sub == "list"
	case "config":
		return sub == "get"
	}
	return false
}

// cannotFollow reports whether answers can no longer be counted after a command.
func cannotFollow(name, sub string) bool {
	switch name {
	case "subscribe", "psubscribe", "ssubscribe", "unsubscribe", "punsubscribe", "sunsubscribe", "monitor", "sync", "psync":
		return true
	}
	return name == "client" && sub == "reply"
}

const maxWord = 32

// plainWord is a word in lower case if it can be the name of something, else a question mark: what is shown of a
// request must not be a key or a value that stands where a name was expected.
func plainWord(word string) string {
	if word == "" || len(word) > maxWord {
		return "?"
	}
	for i := range len(word) {
		c := word[i] | 0x20
		if (c < 'a' || c > 'z') && (word[i] < '0' || word[i] > '9') && word[i] != '.' && word[i] != '_' {
			return "?"
		}
	}
	return strings.ToLower(word)
}
