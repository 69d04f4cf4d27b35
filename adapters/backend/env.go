package backend

import (
	"fmt"
	"os"
	"strings"
)

// The environment variables that FromEnv reads.
const (
	EnvBackend     = "EFFECTONCE_BACKEND"      // dsn, process or docker: this kind or none
	EnvRequire     = "EFFECTONCE_REQUIRE"      // postgres, redis, separated by commas: absence is a failure
	EnvPostgresDSN = "EFFECTONCE_POSTGRES_DSN" // a connection string as pgx reads it
	EnvRedisURL    = "EFFECTONCE_REDIS_URL"    // redis:// or rediss://
)

// FromEnv makes Options from the environment. A value that means nothing is an error with its name and text, at
// once, so that a misspelt demand is never a silent skip. The text of a connection string is never part of one.
func FromEnv() (Options, error) { return fromEnv(os.Getenv) }

func fromEnv(getenv func(string) string) (Options, error) {
	o := Options{
		Force:       Kind(getenv(EnvBackend)),
		PostgresDSN: getenv(EnvPostgresDSN),
		RedisURL:    getenv(EnvRedisURL),
	}
	if list := getenv(EnvRequire); list != "" {
		for name := range strings.SplitSeq(list, ",") {
			o.Require = append(o.Require, strings.TrimSpace(name))
		}
	}
	if err := o.validate(); err != nil {
		return Options{}, err
	}
	if o.PostgresDSN != "" {
		if _, err := parsePostgres(o.PostgresDSN); err != nil {
			return Options{}, fmt.Errorf("backend: %w", err)
		}
	}
	if o.RedisURL != "" {
		if _, err := parseRedis(o.RedisURL); err != nil {
			return Options{}, fmt.Errorf("backend: %w", err)
		}
	}
	return o, nil
}
