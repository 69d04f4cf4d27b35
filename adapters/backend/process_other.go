//go:build !linux

package backend

import "context"

// process cannot be had here: ending a server with all its descendants needs /proc.
type process struct{}

func privatePostgres(_ context.Context, o Options) (*Server, error) {
	return nil, o.absent(NamePostgres, "private processes need Linux; set "+EnvPostgresDSN)
}

func privateRedis(_ context.Context, o Options) (*Server, error) {
	return nil, o.absent(NameRedis, "private processes need Linux; set "+EnvRedisURL)
}
