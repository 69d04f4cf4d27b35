package redis

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"fmt"

	goredis "github.com/redis/go-redis/v9"
)

var (
	//go:embed begin.lua
	beginSource string
	//go:embed complete.lua
	completeSource string
	//go:embed finish.lua
	finishSource string
	//go:embed prune.lua
	pruneSource string
)

type script struct{ source, sha string }

type scripts struct{ begin, complete, finish, prune script }

func newScripts() scripts {
	return scripts{
		begin:    newScript(beginSource),
		complete: newScript(completeSource),
		finish:   newScript(finishSource),
		prune:    newScript(pruneSource),
	}
}

func newScript(source string) script {
	sum := sha1.Sum([]byte(source))
	return script{source: source, sha: hex.EncodeToString(sum[:])}
}

func (s scripts) all() []script { return []script{s.begin, s.complete, s.finish, s.prune} }

// once is a command that no layer of the driver sends a second time. A cluster client needs telling, whatever its
// MaxRetries: the loop that follows redirections also repeats after a lost reply, for commands that do not object.
type once struct{ *goredis.Cmd }

func (once) NoRetry() bool { return true }

// run sends one EVALSHA. A server that does not know the script (restarted, flushed) says so without having run
// anything, and gets the source.
func (s *Store) run(ctx context.Context, sc script, keys []string, args ...string) (any, error) {
	reply, err := s.eval(ctx, "evalsha", sc.sha, keys, args)
	if err != nil && goredis.HasErrorPrefix(err, "NOSCRIPT") {
		return s.eval(ctx, "eval", sc.source, keys, args)
	}
	return reply, err
}

func (s *Store) eval(ctx context.Context, name, body string, keys, args []string) (any, error) {
	words := make([]any, 0, 3+len(keys)+len(args))
	words = append(words, name, body, len(keys))
	for _, k := range keys {
		words = append(words, k)
	}
	for _, a := range args {
		words = append(words, a)
	}
	const firstKey = 3
	return s.send(ctx, firstKey, words...)
}

func (s *Store) send(ctx context.Context, firstKey int8, words ...any) (any, error) {
	cmd := goredis.NewCmd(ctx, words...)
	cmd.SetFirstKeyPos(firstKey)
	if err := s.client.Process(ctx, once{cmd}); err != nil {
		return nil, err
	}
	return cmd.Val(), nil
}

func textOf(reply any) (string, error) {
	text, ok := reply.(string)
	if !ok {
		return "", fmt.Errorf("unexpected reply %T", reply)
	}
	return text, nil
}
