package backend

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"
)

const redisRemedy = "install the Debian package redis-server, or set " + EnvRedisURL

// privateRedis starts a Redis that keeps nothing on disk.
func privateRedis(ctx context.Context, o Options) (*Server, error) {
	bin := ""
	dirs := o.searchPath()
	if o.folders == nil {
		dirs = slices.Concat(dirs, []string{"/usr/local/bin", "/usr/bin", "/usr/local/sbin", "/usr/sbin"})
	}
	for _, dir := range dirs {
		if path := filepath.Join(dir, "redis-server"); executable(path) {
			bin = path
			break
		}
	}
	if bin == "" {
		return nil, o.absent(NameRedis, redisRemedy)
	}
	p, err := newProcess(NameRedis, "redis")
	if err != nil {
		return nil, fmt.Errorf("backend: redis: %w", err)
	}
	p.argv = func(port int) []string {
		return []string{
			bin, "--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", p.dir,
			"--save", "", "--appendonly", "no", "--daemonize", "no",
		}
	}
	p.ready = func(ctx context.Context, port, pid int) error {
		info, err := pingRedis(ctx, &redis.Options{Addr: fmt.Sprintf("127.0.0.1:%d", port)})
		if err != nil {
			return err
		}
		if infoField(info, "process_id") != strconv.Itoa(pid) {
			return fmt.Errorf("another server answers on port %d", port)
		}
		return nil
	}
	if err := p.launch(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("backend: redis: start: %w", err), p.close())
	}
	url := fmt.Sprintf("redis://127.0.0.1:%d/0", p.port)
	return p.server(url, fmt.Sprintf("redis, a private process on 127.0.0.1:%d (%s, no persistence: a restart forgets)", p.port, bin)), nil
}
