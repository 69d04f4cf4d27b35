package chaos

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
)

// found is what a framer makes of what a client says: where each request ends, and what it is.
func found(f framer, pieces ...string) []string {
	var all []string
	at, begin := 0, 0
	for _, piece := range pieces {
		for b := []byte(piece); len(b) > 0; {
			n, r, err := f.sent(b)
			if err != nil {
				return append(all, "lost")
			}
			b, at = b[n:], at+n
			if r.whole {
				text := fmt.Sprintf("%d %s", at, r.word)
				if r.runs > 0 {
					text += fmt.Sprintf(" runs at %d, %d in it", begin+r.runs, r.commands)
				}
				if r.refusal != 0 {
					text += " refused"
				}
				all, begin = append(all, text), at
			}
		}
	}
	if f.mid() {
		all = append(all, "more")
	}
	return all
}

// words are those of the requests that are steps, and "-" for those that are none.
func words(found []string) []string {
	var all []string
	for _, f := range found {
		if !strings.Contains(f, "runs at") {
			all = append(all, "-")
			continue
		}
		_, rest, _ := strings.Cut(f, " ")
		word, _, _ := strings.Cut(rest, " runs at")
		all = append(all, word)
	}
	return all
}

// splits are ways to cut a stream into pieces: one byte each, and in two at every place.
func splits(s string) [][]string {
	all := [][]string{strings.Split(s, "")}
	for i := 0; i < len(s); {
		i += 1 + len(s)/300
		i = min(i, len(s))
		all = append(all, []string{s[:i], s[i:]})
	}
	return all
}

// cmd is a command as clients send it.
func cmd(words ...string) string {
	text := fmt.Sprintf("*%d\r\n", len(words))
	for _, w := range words {
		text += fmt.Sprintf("$%d\r\n%s\r\n", len(w), w)
	}
	return text
}

// split is not strings.Split, which cuts between runes.
func bytewise(s string) []string {
	all := make([]string, len(s))
	for i := range len(s) {
		all[i] = s[i : i+1]
	}
	return all
}

// said is what a Postgres client writes for these messages.
func said(messages ...pgproto3.FrontendMessage) string {
	var b []byte
	for _, m := range messages {
		var err error
		if b, err = m.Encode(b); err != nil {
			panic(err)
		}
	}
	return string(b)
}

// answers are what a Postgres server writes for these messages.
func answers(messages ...pgproto3.BackendMessage) string {
	var b []byte
	for _, m := range messages {
		var err error
		if b, err = m.Encode(b); err != nil {
			panic(err)
		}
	}
	return string(b)
}

func startup() *pgproto3.StartupMessage {
	return &pgproto3.StartupMessage{ProtocolVersion: pgproto3.ProtocolVersion30, Parameters: map[string]string{"user": "u"}}
}

func TestRedisCommandsAreFoundWhereTheyEnd(t *testing.T) {
	big := strings.Repeat("\r\n*1$", 3000)
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"one", cmd("SET", "k", "v"), []string{"set"}},
		{"several in one breath", cmd("set", "k", "v") + cmd("GET", "k") + cmd("PING"), []string{"set", "get", "-"}},
		{"binary and large", cmd("set", "k\r\n", big) + cmd("incr", big), []string{"set", "incr"}},
		{"empty arguments", cmd("set", "", "") + cmd("get", ""), []string{"set", "get"}},
		{"the old style", "set k v\r\nPING\r\n\r\nget k\n", []string{"set", "-", "-", "get"}},
		{"nothing", "*0\r\n*-1\r\n", []string{"-", "-"}},
		{"set-up", cmd("HELLO", "3", "AUTH", "u", "p") + cmd("CLIENT", "SETINFO", "LIB-NAME", "x") + cmd("SELECT", "1") +
			cmd("SCRIPT", "LOAD", "return 1") + cmd("CLUSTER", "SLOTS") + cmd("COMMAND"), []string{"-", "-", "-", "-", "-", "-"}},
		{"a change of the server's own", cmd("script", "flush") + cmd("config", "set", "a", "b"), []string{"script", "config"}},
		{"a transaction", cmd("multi") + cmd("set", "k", "v") + cmd("exec"), []string{"multi", "set", "exec"}},
		{"a name that is none", cmd("s3cret token", "x"), []string{"?"}},
		{"half", cmd("set", "k", "v")[:12], []string{"-"}},
		{"no RESP", "*x\r\n", []string{"-"}},
		{"pub/sub", cmd("SUBSCRIBE", "c"), []string{"-"}},
	} {
		whole := found(&resp{}, c.text)
		if got := words(whole); !slices.Equal(got, c.want) {
			t.Errorf("%s: found %q, want %q (%q)", c.name, got, c.want, whole)
		}
		for _, s := range append(splits(c.text), bytewise(c.text)) {
			if got := found(&resp{}, s...); !slices.Equal(got, whole) {
				t.Fatalf("%s: in pieces of %d and more: found %q, whole %q", c.name, len(s[0]), got, whole)
			}
		}
	}
}

func TestRedisAnswersAreCounted(t *testing.T) {
	for text, want := range map[string]int{ // how many are counted
		"+OK\r\n:1\r\n$-1\r\n*-1\r\n":                       4,
		"$5\r\na\r\nbc\r\n-ERR no\r\n":                      2,
		"*2\r\n*1\r\n:1\r\n$1\r\nx\r\n*0\r\n":               2,
		"%1\r\n+a\r\n*2\r\n:1\r\n_\r\n#t\r\n,1.5\r\n(9\r\n": 4,
		">2\r\n+message\r\n+x\r\n+OK\r\n":                   1,
		"|1\r\n+ttl\r\n:9\r\n+OK\r\n":                       1,
		"*2\r\n|1\r\n+a\r\n:9\r\n:1\r\n:2\r\n":              1,
		"~1\r\n!3\r\nERR\r\n=5\r\ntxt:x\r\n":                2,
		"*3\r\n:1\r\n:2\r\n":                                0,
	} {
		for _, s := range append(splits(text), []string{text}) {
			f := &resp{open: 100}
			for _, piece := range s {
				if _, ok := hear(f, piece); !ok {
					t.Fatalf("%q: lost", text)
				}
			}
			if got := 100 - f.open; got != want {
				t.Fatalf("%q in %q: %d answers, want %d", text, s, got, want)
			}
		}
	}
	for _, text := range []string{"hello\r\n", "*x\r\n", "$99999999999\r\n", "\r\n", strings.Repeat("*1\r\n", maxDepth+1)} {
		if _, ok := hear(&resp{open: 1}, text); ok {
			t.Errorf("%q was taken for an answer", text)
		}
	}
}

// hear lets a framer hear all of a text and answers where messages end.
func hear(f framer, text string) (ends []int, ok bool) {
	for at := 0; at < len(text); {
		n, end, err := f.heard([]byte(text[at:]))
		if err != nil {
			return ends, false
		}
		if at += n; end {
			ends = append(ends, at)
		}
	}
	return ends, true
}

func TestPostgresRequestsAreFoundWhereTheyEnd(t *testing.T) {
	parse := func(name, sql string) *pgproto3.Parse { return &pgproto3.Parse{Name: name, Query: sql} }
	bind := func(name string) *pgproto3.Bind { return &pgproto3.Bind{PreparedStatement: name} }
	query := func(sql string) *pgproto3.Query { return &pgproto3.Query{String: sql} }
	describe, execute, sync, flush := &pgproto3.Describe{ObjectType: 'S'}, &pgproto3.Execute{}, &pgproto3.Sync{}, &pgproto3.Flush{}
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"start and password", said(startup(), &pgproto3.PasswordMessage{Password: "p"}), []string{"-", "-"}},
		{"encryption", said(&pgproto3.GSSEncRequest{}, &pgproto3.SSLRequest{}, startup()), []string{"-", "-", "-"}},
		{"cancel", said(&pgproto3.CancelRequest{ProcessID: 1, SecretKey: []byte{1, 2, 3, 4}}), []string{"-"}},
		{"queries", said(startup(), query("begin"), query(" /* x */ COMMIT;"), query("-- x\nselect 1+1")),
			[]string{"-", "query: BEGIN", "query: COMMIT", "query: SELECT"}},
		{"pings", said(startup(), query("-- ping"), query(";"), query(""), query(" select  1 ;")), []string{"-", "-", "-", "-", "-"}},
		{"settings", said(startup(), query("SET search_path = x"), query("DISCARD ALL;"), query("set a = b; insert into t values (1)")),
			[]string{"-", "-", "-", "query: SET"}},
		{"prepare and use", said(startup(), parse("s", "insert into t values ($1)"), describe, sync, bind("s"), execute, sync),
			[]string{"-", "-", "execute: INSERT"}},
		{"in one", said(startup(), parse("", "update t"), bind(""), describe, execute, sync), []string{"-", "execute: UPDATE"}},
		{"a batch", said(startup(), parse("", "insert"), bind(""), execute, parse("", "delete"), bind(""), execute, sync),
			[]string{"-", "execute: INSERT"}},
		{"a prepared ping", said(startup(), parse("", ""), bind(""), execute, sync), []string{"-", "-"}},
		{"flushed", said(startup(), parse("", "insert"), flush, bind(""), execute, flush, sync, sync),
			[]string{"-", "-", "execute: INSERT", "sync", "-"}},
		{"a long statement", said(startup(), query("insert into t values ('"+strings.Repeat("x", 5000)+"')"), query("-- "+strings.Repeat("x", 5000))),
			[]string{"-", "query: INSERT", "query: ?"}},
		{"goodbye", said(startup(), &pgproto3.Close{ObjectType: 'S', Name: "s"}, sync, &pgproto3.Terminate{}), []string{"-", "-", "-"}},
		{"garbage", said(startup()) + "~~~~~~~~~~~", []string{"-", "-"}},
	} {
		whole := found(newPostgres(), c.text)
		if got := words(whole); !slices.Equal(got, c.want) {
			t.Errorf("%s: found %q, want %q (%q)", c.name, got, c.want, whole)
		}
		for _, s := range append(splits(c.text), bytewise(c.text)) {
			if got := found(newPostgres(), s...); !slices.Equal(got, whole) {
				t.Fatalf("%s: in pieces of %d and more: found %q, whole %q", c.name, len(s[0]), got, whole)
			}
		}
	}
}

// TestPostgresKnowsWhenAllIsAnswered plays conversations: what the client says, what the server says, and whether an
// answer is still due after it.
func TestPostgresKnowsWhenAllIsAnswered(t *testing.T) {
	ready := func(status byte) *pgproto3.ReadyForQuery { return &pgproto3.ReadyForQuery{TxStatus: status} }
	done := func(tag string) *pgproto3.CommandComplete { return &pgproto3.CommandComplete{CommandTag: []byte(tag)} }
	failed := &pgproto3.ErrorResponse{Severity: "ERROR", Code: "23505", Message: "secret"}
	parsed, bound := &pgproto3.ParseComplete{}, &pgproto3.BindComplete{}
	parse, bind := &pgproto3.Parse{Query: "insert"}, &pgproto3.Bind{}
	execute, sync, flush := &pgproto3.Execute{}, &pgproto3.Sync{}, &pgproto3.Flush{}
	copyIn := &pgproto3.CopyInResponse{}
	type turn struct {
		client, server string
		idle           bool
		answer         string
	}
	query := said(&pgproto3.Query{String: "insert"})
	for name, turns := range map[string][]turn{
		"a query":    {{query, answers(done("INSERT 0 1"), ready('I')), true, "INSERT 0 1"}},
		"two in one": {{query, answers(done("INSERT 0 1"), done("COMMIT")), false, "COMMIT"}, {"", answers(ready('I')), true, "COMMIT"}},
		"an error":   {{query, answers(failed), false, "error 23505"}, {"", answers(ready('E')), true, "error 23505"}},
		"pipelined":  {{query + query, answers(done("X"), ready('I')), false, "X"}, {"", answers(done("Y"), ready('I')), true, "Y"}},
		"flushed": {
			{said(parse, bind, execute, flush), answers(parsed, bound), false, ""},
			{"", answers(done("INSERT 0 1")), true, "INSERT 0 1"},
			{said(sync), "", false, ""}, {"", answers(ready('I')), true, ""}},
		"an error before a flush": {
			{said(parse, bind, execute, flush), answers(parsed, failed), true, "error 23505"},
			{said(bind, execute, sync), answers(ready('I')), true, ""}},
		"notices": {{query, answers(&pgproto3.NoticeResponse{}, &pgproto3.ParameterStatus{}, &pgproto3.NotificationResponse{}), false, ""}},
		"copy": {
			{query, answers(copyIn), false, ""},
			{said(&pgproto3.CopyData{Data: []byte("x")}, &pgproto3.CopyDone{}), answers(done("COPY 1"), ready('I')), true, "COPY 1"}},
		"copy, data first": {
			{query + said(&pgproto3.CopyData{}, &pgproto3.CopyDone{}), answers(copyIn), false, ""},
			{"", answers(done("COPY 1"), ready('I')), true, "COPY 1"}},
		"copy, extended": {
			{said(parse, bind, execute, sync), answers(parsed, bound, copyIn), false, ""},
			{said(&pgproto3.CopyDone{}, sync), answers(done("COPY 0"), ready('I')), true, "COPY 0"}},
		"copy that fails": {
			{query, answers(copyIn), false, ""},
			{said(&pgproto3.CopyData{}), answers(failed, ready('I')), true, "error 23505"},
			{said(&pgproto3.CopyData{}, &pgproto3.CopyDone{}), "", true, "error 23505"}},
	} {
		for _, inBytes := range []bool{false, true} {
			p := newPostgres()
			found(p, said(startup()))
			hear(p, answers(&pgproto3.AuthenticationOk{}, &pgproto3.BackendKeyData{ProcessID: 77, SecretKey: []byte{1, 2, 3, 4}}, ready('I')))
			if !p.idle() || p.backend() != 77 {
				t.Fatalf("after the start: idle %v, process %d", p.idle(), p.backend())
			}
			for i, turn := range turns {
				found(p, turn.client)
				pieces := []string{turn.server}
				if inBytes {
					pieces = bytewise(turn.server)
				}
				for _, piece := range pieces {
					if _, ok := hear(p, piece); !ok {
						t.Fatalf("%s: lost", name)
					}
				}
				if p.idle() != turn.idle || p.answer() != turn.answer {
					t.Errorf("%s, turn %d: idle %v, answer %q; want %v, %q", name, i+1, p.idle(), p.answer(), turn.idle, turn.answer)
				}
			}
		}
	}
}

func TestWhatIsASettingOutsideATransactionIsAStepInOne(t *testing.T) {
	for sql, calm := range map[string]bool{"select 1": true, "SET x = y": true, "insert into t values (1)": false} {
		if _, got := readSQL([]byte(sql+"\x00"), len(sql)+1, 'I'); got != calm {
			t.Errorf("%q outside: %v", sql, got)
		}
		if _, got := readSQL([]byte(sql+"\x00"), len(sql)+1, 'T'); got {
			t.Errorf("%q inside is no step", sql)
		}
	}
}

func TestTheProtocolIsKnownByItsFirstBytes(t *testing.T) {
	for text, want := range map[string]Protocol{
		cmd("PING"):                  Redis,
		said(startup()):              Postgres,
		said(&pgproto3.SSLRequest{}): Postgres,
		"GET / HTTP/1.1\r\n":         QuietTime,
		"\x00\x00\x00\x08abcd":       QuietTime,
	} {
		if p, ok, err := (&Proxy{}).detect([]byte(text)); p != want || !ok || err != nil {
			t.Errorf("%q: %q, %v, %v; want %q", text, p, ok, err, want)
		}
	}
	if _, ok, err := (&Proxy{}).detect([]byte{0, 0, 0}); ok || err != nil {
		t.Errorf("three bytes: %v, %v", ok, err)
	}
	for _, told := range []Protocol{Detected, Redis, Postgres} {
		if _, _, err := (&Proxy{protocol: told}).detect([]byte{tlsHandshake, 3, 1}); err == nil {
			t.Errorf("told %q: TLS was not recognised", told)
		}
	}
	if p, ok, err := (&Proxy{protocol: QuietTime}).detect([]byte{tlsHandshake}); p != QuietTime || !ok || err != nil {
		t.Errorf("told to go by quiet time: %q, %v, %v", p, ok, err)
	}
}

// A reply that the gate cannot read proves nothing, also if it began as one that it can.
func TestAReplyThatCannotBeReadProvesNothing(t *testing.T) {
	for _, kind := range []Kind{ReplyLost, HalfReply, ConnectionCut} {
		p := &Proxy{}
		armed, err := p.Arm(Fault{Kind: kind, Request: 1})
		if err != nil {
			t.Fatal(err)
		}
		w, _ := gated(p, []string{cmd("set", "k", "v")})
		w.heard([]byte("*2\r\n:1\r\n"), time.Now())
		if o := armed.State().Outcome(); o != Unknown {
			t.Errorf("%v, half of the reply: %v", kind, o)
		}
		w.heard([]byte("what?\r\n"), time.Now())
		if s := armed.State(); s.Outcome() != Unknown || s.Protocol != QuietTime {
			t.Errorf("%v: %v, %+v", kind, s.Outcome(), s)
		}
	}
}
