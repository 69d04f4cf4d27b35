package redis

import (
	"context"
	_ "embed"
	"fmt"
)

var (
	//go:embed begin.lua
	beginSource string
	//go:embed complete.lua
	completeSource string
	//go:embed finish.lua
	finishSource string
	//go:embed release.lua
	releaseSource string
	//go:embed extend.lua
	extendSource string
	//go:embed bury.lua
	burySource string
	//go:embed replay.lua
	replaySource string
	//go:embed prune.lua
	pruneSource string
)

type scripts struct{ begin, complete, finish, release, extend, bury, replay, prune Script }

func newScripts() scripts {
	return scripts{
		begin:    NewScript(beginSource),
		complete: NewScript(completeSource),
		finish:   NewScript(finishSource),
		release:  NewScript(releaseSource),
		extend:   NewScript(extendSource),
		bury:     NewScript(burySource),
		replay:   NewScript(replaySource),
		prune:    NewScript(pruneSource),
	}
}

func (s scripts) all() []Script {
	return []Script{s.begin, s.complete, s.finish, s.release, s.extend, s.bury, s.replay, s.prune}
}

// run sends one script call.
func (s *Store) run(ctx context.Context, sc Script, keys []string, args ...string) (any, error) {
	return sc.Run(ctx, s.client, keys, args...)
}

func (s *Store) send(ctx context.Context, firstKey int8, words ...any) (any, error) {
	return Send(ctx, s.client, firstKey, words...)
}

func textOf(reply any) (string, error) {
	text, ok := reply.(string)
	if !ok {
		return "", fmt.Errorf("unexpected reply %T", reply)
	}
	return text, nil
}
