package postgres

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"strings"

	"github.com/jackc/pgx/v5"
)

// migrationFiles holds one file per version, 0001 on, in order.
//
//go:embed migrations/*.sql
var migrationFiles embed.FS

// MigrationSQL renders the schema's versions for these names, in order, for one's own migration tool. Each is to run
// once, in a transaction. The schema itself and the table of versions are [Store.Migrate]'s and not part of it.
func MigrationSQL(opts Options) ([]string, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	return renderMigrations(opts.withDefaults())
}

func renderMigrations(opts Options) ([]string, error) {
	files, err := fs.Glob(migrationFiles, "migrations/*.sql")
	if err != nil {
		return nil, fmt.Errorf("postgres: migrations: %w", err)
	}
	names := opts.names()
	texts := make([]string, 0, len(files))
	for i, file := range files {
		if !strings.HasPrefix(file, fmt.Sprintf("migrations/%04d_", i+1)) {
			return nil, fmt.Errorf("postgres: migrations: %s is out of order", file)
		}
		text, err := migrationFiles.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("postgres: migrations: %w", err)
		}
		texts = append(texts, names.Replace(string(text)))
	}
	return texts, nil
}

// Migrate brings the schema to this version, all of it in one transaction or nothing. It may run in many processes
// at once, and again at every start: an advisory lock per schema makes them take turns. A schema of a later version
// than this code knows is an error. Handles that are open go on working, and so do those of an earlier version of
// this code.
func (s *Store) Migrate(ctx context.Context) error { return s.migrate(ctx) }

// Migrate is [Store.Migrate]: one schema holds the tables of both.
func (i *Inbox) Migrate(ctx context.Context) error { return i.migrate(ctx) }

func (h *handle) migrate(ctx context.Context) error {
	const op = "migrate"
	texts, err := renderMigrations(h.opts)
	if err != nil {
		return err
	}
	conn, err := h.pool.Acquire(ctx)
	if err != nil {
		return notSent(op, err)
	}
	defer conn.Release()
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite})
	if err != nil {
		return failed(op, err)
	}
	defer rollBack(ctx, tx)
	if err := h.opts.migrateIn(ctx, tx, texts); err != nil {
		return failed(op, err)
	}
	return failed(op, tx.Commit(ctx))
}

func (o Options) migrateIn(ctx context.Context, tx pgx.Tx, texts []string) error {
	var encoding string
	if err := tx.QueryRow(ctx, "select current_setting('server_encoding')").Scan(&encoding); err != nil {
		return err
	}
	if encoding != "UTF8" {
		return fmt.Errorf("the database's encoding is %s; only UTF8 keeps every id", encoding)
	}
	names := o.names()
	_, err := tx.Exec(ctx, "select pg_advisory_xact_lock(hashtextextended('effectonce migrate ' || $1::text, 0))", o.Schema)
	if err != nil {
		return err
	}
	// Asking first spares a role that may use the schema, but not create one, a refusal.
	var exists bool
	err = tx.QueryRow(ctx, "select exists (select from pg_catalog.pg_namespace where nspname = $1::text)", o.Schema).Scan(&exists)
	if err == nil && !exists {
		_, err = tx.Exec(ctx, names.Replace("create schema {schema}"))
	}
	if err != nil {
		return err
	}
	if err := o.ensureVersions(ctx, tx, names); err != nil {
		return err
	}
	var version int
	err = tx.QueryRow(ctx, names.Replace("select coalesce(max(version), 0) from {versions} where store = $1::text"), o.Table).Scan(&version)
	if err != nil {
		return err
	}
	if version > len(texts) {
		return fmt.Errorf("the schema is at version %d, this code knows %d", version, len(texts))
	}
	for i := version; i < len(texts); i++ {
		if _, err := tx.Exec(ctx, texts[i]); err != nil {
			return fmt.Errorf("version %d: %w", i+1, err)
		}
		if _, err := tx.Exec(ctx, names.Replace("insert into {versions} (store, version) values ($1::text, $2::int)"), o.Table, i+1); err != nil {
			return err
		}
	}
	return nil
}

// ensureVersions looks before it creates: "if not exists" would answer every later start with a notice.
func (o Options) ensureVersions(ctx context.Context, tx pgx.Tx, names *strings.Replacer) error {
	var table *string
	qualified := pgx.Identifier{o.Schema, versionTable}.Sanitize()
	if err := tx.QueryRow(ctx, "select to_regclass($1::text)::text", qualified).Scan(&table); err != nil {
		return err
	}
	if table != nil {
		return nil
	}
	_, err := tx.Exec(ctx, names.Replace(`create table {versions} (store text collate "C" not null, version int not null, primary key (store, version))`))
	return err
}
