package chaos

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// pieces cuts text where the bytes of cuts say.
func pieces(text string, cuts []byte) []string {
	var all []string
	for i := 0; len(text) > 0; i++ {
		n := len(text)
		if i < len(cuts) {
			n = min(n, int(cuts[i])+1)
		}
		all, text = append(all, text[:n]), text[n:]
	}
	return all
}

// FuzzFramers holds all framers to two things: whatever they are told, they do not panic and read on, and how it is
// cut makes no difference to what they find.
func FuzzFramers(f *testing.F) {
	f.Add(cmd("set", "k", "v")+cmd("get", "k"), "+OK\r\n$1\r\nv\r\n", []byte{0, 3, 1})
	f.Add("*-1\r\n\r\nPING\r\n*1\r\n$-1\r\n", "*2\r\n|1\r\n+a\r\n+b\r\n:1\r\n%0\r\n", []byte{9})
	f.Add(said(startup(), &pgproto3.Parse{Query: "x"}, &pgproto3.Bind{}, &pgproto3.Execute{}, &pgproto3.Sync{}),
		answers(&pgproto3.ParseComplete{}, &pgproto3.ReadyForQuery{TxStatus: 'I'}), []byte{0, 0, 7})
	f.Add(said(startup(), &pgproto3.Query{String: "/*"}, &pgproto3.CopyData{}, &pgproto3.CopyFail{}),
		answers(&pgproto3.CopyInResponse{}, &pgproto3.ErrorResponse{Code: "1"}), []byte{255})
	f.Fuzz(func(t *testing.T, client, server string, cuts []byte) {
		for _, protocol := range []Protocol{Redis, Postgres, QuietTime} {
			one, many := protocol.framer(), protocol.framer()
			a, b := found(one, client), found(many, pieces(client, cuts)...)
			if protocol != QuietTime && !slices.Equal(a, b) {
				t.Fatalf("%s: whole %q, in pieces %q", protocol, a, b)
			}
			endsA, okA := hear(one, server)
			var endsB []int
			at, okB := 0, true
			for _, piece := range pieces(server, cuts) {
				var ends []int
				if ends, okB = hear(many, piece); !okB {
					break
				}
				for _, end := range ends {
					endsB = append(endsB, at+end)
				}
				at += len(piece)
			}
			if okA != okB || okA && (!slices.Equal(endsA, endsB) || one.idle() != many.idle() || one.answer() != many.answer()) {
				t.Fatalf("%s: heard whole %v %v %q, in pieces %v %v %q", protocol, endsA, one.idle(), one.answer(), endsB, many.idle(), many.answer())
			}
		}
	})
}
