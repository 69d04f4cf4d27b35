package backend

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

const postgresRemedy = "install the Debian package postgresql, or set " + EnvPostgresDSN

// privatePostgres makes a cluster of its own and starts it: loopback TCP only, trust authentication, locale C,
// UTF8, 200 connections.
func privatePostgres(ctx context.Context, o Options) (*Server, error) {
	bin := findPostgres(o.searchPath(), o.debianPostgres())
	if bin == "" {
		return nil, o.absent(NamePostgres, postgresRemedy)
	}
	p, err := newProcess(NamePostgres, "postgres")
	if err != nil {
		return nil, fmt.Errorf("backend: postgres: %w", err)
	}
	if err := startPostgres(ctx, p, bin, o.Fsync); err != nil {
		return nil, errors.Join(fmt.Errorf("backend: postgres: start: %w", err), p.close())
	}
	fsync := "fsync off: proves nothing about power loss"
	if o.Fsync {
		fsync = "fsync on"
	}
	url := postgresURL(p.port)
	return p.server(url, fmt.Sprintf("postgres, a private process on 127.0.0.1:%d (%s, %s)", p.port, bin, fsync)), nil
}

func postgresURL(port int) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port)
}

func startPostgres(ctx context.Context, p *process, bin string, fsync bool) error {
	data := filepath.Join(p.dir, "data")
	initdb := []string{
		filepath.Join(bin, "initdb"), "-D", data, "-A", "trust", "-U", "postgres", "--encoding=UTF8", "--locale=C",
	}
	if !fsync {
		initdb = append(initdb, "-N")
	}
	if err := p.run(ctx, initdb...); err != nil {
		return err
	}
	// dynamic_shared_memory_type=mmap keeps its segments in the folder, where they are removed with it; the
	// default leaves them in /dev/shm when the server is killed.
	p.argv = func(port int) []string {
		return []string{
			filepath.Join(bin, "postgres"), "-D", data,
			"-c", "listen_addresses=127.0.0.1", "-c", "port=" + strconv.Itoa(port), "-c", "unix_socket_directories=",
			"-c", "max_connections=200", "-c", "fsync=" + strconv.FormatBool(fsync),
			"-c", "dynamic_shared_memory_type=mmap", "-c", "timezone=UTC", "-c", "log_timezone=UTC",
		}
	}
	p.ready = func(ctx context.Context, port, _ int) error {
		conn, err := pgx.Connect(ctx, postgresURL(port))
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		var answering string
		if err := conn.QueryRow(ctx, "SELECT current_setting('data_directory')").Scan(&answering); err != nil {
			return err
		}
		if answering != data {
			return fmt.Errorf("another server answers on port %d", port)
		}
		return nil
	}
	return p.launch(ctx)
}

// debianPostgres lists where Debian and its kin keep the server's programs, out of PATH.
func (o Options) debianPostgres() []string {
	if o.folders != nil {
		return nil
	}
	dirs, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return nil
	}
	version := func(dir string) float64 {
		v, _ := strconv.ParseFloat(filepath.Base(filepath.Dir(dir)), 64) // not a number: the lowest
		return v
	}
	slices.SortFunc(dirs, func(a, b string) int { return cmp.Compare(version(b), version(a)) })
	return dirs
}

// findPostgres picks the folder with both programs: what PATH names comes first, then the highest version. A
// wrapper script is the last choice: what it starts is not for us to know.
func findPostgres(path, debian []string) string {
	scripted := ""
	for _, dir := range slices.Concat(path, debian) {
		server, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres"))
		if err != nil || !executable(server) {
			continue
		}
		for _, candidate := range []string{filepath.Dir(server), dir} {
			if !executable(filepath.Join(candidate, "initdb")) || !executable(filepath.Join(candidate, "postgres")) {
				continue
			}
			if !script(filepath.Join(candidate, "postgres")) && !script(filepath.Join(candidate, "initdb")) {
				return candidate
			}
			scripted = cmp.Or(scripted, candidate)
		}
	}
	return scripted
}

// searchPath is PATH as a list.
func (o Options) searchPath() []string {
	if o.folders != nil {
		return o.folders
	}
	var dirs []string
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if filepath.IsAbs(dir) { // a relative entry would mean another program in another folder
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

func script(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 2)
	n, _ := f.Read(head) // an unreadable program is not a script
	return bytes.Equal(head[:n], []byte("#!")) || strings.HasSuffix(path, ".sh")
}
