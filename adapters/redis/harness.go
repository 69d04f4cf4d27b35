package redis

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/effectonce/effectonce/model"
)

// The functions below are what a harness needs beside the Store, for one server given as a URL. Each opens a
// connection of its own and closes it.

const (
	scanCount   = 500
	ledgerPage  = 1000
	quietRounds = 3
	settlePause = 5 * time.Millisecond
)

// Prepare makes a namespace with the default number of partitions: it reaches the server, loads the scripts and
// writes the layout down. Once per namespace is enough, more often is harmless.
func Prepare(ctx context.Context, url, namespace string) error {
	s, err := Open(ctx, url, Options{Namespace: namespace, PoolSize: 1})
	if err != nil {
		return fmt.Errorf("redis: prepare: %w", err)
	}
	return s.Close()
}

// Drop removes every key of a namespace, its ledger and its counters too: tokens start again. It walks the server's
// keys with SCAN, a few hundred a step, and ends early when ctx does. No Store of the namespace may be at work.
func Drop(ctx context.Context, url, namespace string) error {
	return control(url, "drop", namespace, func(client *goredis.Client) error {
		cursor := uint64(0)
		for {
			keys, next, err := client.Scan(ctx, cursor, namespacePrefix(namespace)+"*", scanCount).Result()
			if err != nil {
				return err
			}
			if len(keys) > 0 {
				if err := client.Unlink(ctx, keys...).Err(); err != nil {
					return err
				}
			}
			if next == 0 {
				return nil
			}
			cursor = next
		}
	})
}

// Effects returns the ledger of a namespace, whatever its number of partitions; in order within one key.
func Effects(ctx context.Context, url, namespace string) ([]model.Applied, error) {
	var all []model.Applied
	err := control(url, "effects", namespace, func(client *goredis.Client) error {
		partitions, err := client.Get(ctx, layoutKey(namespace)).Int()
		if errors.Is(err, goredis.Nil) {
			return errors.New("the namespace was never prepared")
		}
		if err != nil {
			return err
		}
		for _, p := range newSlots(namespace, partitions) {
			all, err = appendLedger(ctx, client, p.ledger, all)
			if err != nil {
				return err
			}
		}
		return nil
	})
	return all, err
}

func appendLedger(ctx context.Context, client *goredis.Client, ledger string, all []model.Applied) ([]model.Applied, error) {
	for from := int64(0); ; from += ledgerPage {
		rows, err := client.LRange(ctx, ledger, from, from+ledgerPage-1).Result()
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			applied, err := parseEffectRow(row)
			if err != nil {
				return nil, err
			}
			all = append(all, applied)
		}
		if len(rows) < ledgerPage {
			return all, nil
		}
	}
}

// Control is one small round trip over addr: dial, PING, and any whole answer that shows a server at work. A server
// that wants a password first is at work. TLS is not spoken. ctx bounds it; without a deadline, 5 s do.
func Control(ctx context.Context, addr string) error {
	ctx, cancel := context.WithTimeout(ctx, ioTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("redis: control: %w", err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if _, err := conn.Write([]byte("*1\r\n$4\r\nPING\r\n")); err != nil {
		return fmt.Errorf("redis: control: %w", err)
	}
	answer, err := bufio.NewReaderSize(conn, 256).ReadString('\n')
	if err != nil {
		return fmt.Errorf("redis: control: %w", err)
	}
	if answer = strings.TrimSpace(answer); answer != "+PONG" && !strings.HasPrefix(answer, "-NOAUTH") {
		return fmt.Errorf("redis: control: answer %q", answer)
	}
	return nil
}

// Settled returns when nothing that Stores of the namespace sent before the call can still take effect; it waits
// until then or until ctx ends. The connections are those that bear the namespace as their client name, as Open's do.
//
// Why that is enough. A Store's connection has its name before its first call goes out, since the driver awaits the
// answer to the naming. Redis runs a command that it has read at once and alone, so what CLIENT LIST does not catch
// running is over or unread. Unread bytes in the server's receive buffer keep their connection in the list: one that
// its client has closed leaves only when Redis has read to the end of the stream, past the last command. So a
// connection that is gone has nothing left.
//
// A connection that stays may be one that its Store holds idle, or one whose bytes wait. Bytes that had arrived before
// a request of ours was sent are read in the same turn of the event loop as that request, or in an earlier one. A
// command too long for one read is then in the query buffer in part. So a connection that is without a partial
// command in three answers in a row, each asked for after the one before had come, has been served.
//
// What that cannot see are bytes still on their way on the network between here and the server. To a remote server,
// close the Stores, or cut their proxies, before the call. And it holds for the one server of the URL, not for a
// cluster; miniredis has no CLIENT LIST, and the error says so.
func Settled(ctx context.Context, url, namespace string) error {
	return control(url, "settled", namespace, func(client *goredis.Client) error {
		tick := time.NewTicker(settlePause)
		defer tick.Stop()
		for quiet := 0; quiet < quietRounds; {
			list, err := client.ClientList(ctx).Result()
			switch {
			case err == nil:
				open, served := connections(list, namespace)
				if open == 0 {
					return nil
				}
				if served == open {
					quiet++
					continue
				}
			case !goredis.HasErrorPrefix(err, "BUSY "):
				return err
			}
			quiet = 0
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-tick.C:
			}
		}
		return nil
	})
}

// connections counts the connections of a CLIENT LIST that bear a name, and those among them that hold no part of a
// command and wait for nothing.
func connections(list, name string) (open, served int) {
	for line := range strings.Lines(list) {
		info := make(map[string]string)
		for word := range strings.FieldsSeq(line) {
			if field, value, found := strings.Cut(word, "="); found {
				info[field] = value
			}
		}
		if info["name"] != name {
			continue
		}
		open++
		// Flags: b waits in a blocking call, c closes after its reply, u is unblocked, A closes at once.
		if info["qbuf"] == "0" && info["argv-mem"] == "0" && !strings.ContainsAny(info["flags"], "bcuA") {
			served++
		}
	}
	return open, served
}

// control runs do on a client of its own, under a name that no namespace can have: Settled does not count itself.
func control(url, op, namespace string, do func(*goredis.Client) error) error {
	if err := checkNamespace(namespace); err != nil {
		return fmt.Errorf("redis: %s: %w", op, err)
	}
	settings, err := settingsFor(url, Options{PoolSize: 1})
	if err != nil {
		return fmt.Errorf("redis: %s: %w", op, err)
	}
	settings.ClientName = "effectonce-control{}"
	client := goredis.NewClient(settings)
	err = do(client)
	if closing := client.Close(); err == nil {
		err = closing
	}
	return named(op, err)
}
