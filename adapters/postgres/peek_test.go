//go:build unix

package postgres

import (
	"io"
	"net"
	"testing"
	"time"
)

// pair is a connection of ours and its server's end.
func pair(t *testing.T) (client, server net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err = net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

// eventually looks until the other end's packet has crossed the loopback.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick, end := time.NewTicker(time.Millisecond), time.After(10*time.Second)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("not seen: %s", what)
		}
	}
}

func TestAPeekSeesThatTheServerHungUp(t *testing.T) {
	client, server := pair(t)
	if hungUp(client) {
		t.Fatal("a silent connection was taken for a dead one")
	}
	server.Close()
	eventually(t, "the stream's end", func() bool { return hungUp(client) })

	client, server = pair(t)
	if _, err := io.WriteString(server, "E"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "an error that nobody asked for", func() bool { return hungUp(client) })

	client.Close()
	if !hungUp(client) {
		t.Fatal("a connection that we closed was taken for a live one")
	}
}

func TestAPeekDoesNotWaitForAReader(t *testing.T) {
	client, server := pair(t)
	reading, read := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(read)
		close(reading)
		_, _ = client.Read(make([]byte, 1))
	}()
	<-reading
	looked := make(chan bool, 1)
	// The reader has surely not parked at the first look; a thousand looks cover the moment at which it does.
	go func() {
		dead := false
		for range 1000 {
			dead = dead || hungUp(client)
		}
		looked <- dead
	}()
	select {
	case dead := <-looked:
		if dead {
			t.Error("a live connection was taken for a dead one")
		}
	case <-time.After(10 * time.Second):
		t.Error("the peek waits for the reader")
	}
	server.Close()
	<-read
}
