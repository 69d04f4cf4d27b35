package postgres

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
)

// The values that zero fields of [Options] stand for.
const (
	DefaultSchema     = "effectonce"
	DefaultTable      = "dedup"
	DefaultLedger     = "dedup_ledger"
	DefaultInbox      = DefaultTable + inboxSuffix
	DefaultPruneBatch = 1000
	DefaultCommitIdle = 30 * time.Second
)

const (
	// maxIdentifier is Postgres' NAMEDATALEN-1: longer names are cut silently, and two stores could meet in one table.
	maxIdentifier = 63
	// maxTable leaves room for the names that are made from the table's: "_token_seq" is the longest.
	maxTable = maxIdentifier - len("_token_seq")
	// maxInbox leaves room for the index's name, and holds the longest name that is made from a table's.
	maxInbox    = maxIdentifier - len(indexSuffix)
	inboxSuffix = "_inbox"
	indexSuffix = "_old"
	// maxPruneBatch bounds the row locks and the WAL of one batch.
	maxPruneBatch = 100_000

	versionTable = "effectonce_migrations"
)

// Options say where a store and an inbox live. The zero value is usable.
type Options struct {
	// Schema, Table and Ledger are names, not SQL: any name that Postgres can hold is quoted as needed.
	Schema, Table, Ledger string
	// Inbox is the table of [Inbox], a name like the others. Empty: the Table's with "_inbox" behind.
	Inbox string
	// PruneBatch is how many records one transaction of Prune removes at most, 1 to 100,000.
	PruneBatch int
	// CommitIdle is how long the server lets the transaction of CommitTx or ApplyTx wait for its client between two
	// statements, from 1ms, before it ends that session. Until then others who want the key wait behind it.
	CommitIdle time.Duration
	_          struct{}
}

func (o Options) withDefaults() Options {
	if o.Schema == "" {
		o.Schema = DefaultSchema
	}
	if o.Table == "" {
		o.Table = DefaultTable
	}
	if o.Ledger == "" {
		o.Ledger = DefaultLedger
	}
	if o.Inbox == "" {
		o.Inbox = o.Table + inboxSuffix
	}
	if o.PruneBatch == 0 {
		o.PruneBatch = DefaultPruneBatch
	}
	if o.CommitIdle == 0 {
		o.CommitIdle = DefaultCommitIdle
	}
	return o
}

// Validate says what is wrong, naming the field; nil if a store can be made.
func (o Options) Validate() error {
	o = o.withDefaults()
	for _, name := range []struct {
		field, value string
		limit        int
	}{{"Schema", o.Schema, maxIdentifier}, {"Table", o.Table, maxTable}, {"Ledger", o.Ledger, maxIdentifier}, {"Inbox", o.Inbox, maxInbox}} {
		if err := checkName(name.value, name.limit); err != nil {
			return fmt.Errorf("postgres: options: %s %w", name.field, err)
		}
	}
	tables := []string{o.Table, o.Ledger, o.Inbox, versionTable}
	slices.Sort(tables)
	switch {
	case strings.HasPrefix(o.Schema, "pg_"):
		return fmt.Errorf("postgres: options: Schema %q: names with pg_ are the server's own", o.Schema)
	case len(slices.Compact(tables)) < 4:
		return fmt.Errorf("postgres: options: Table %q, Ledger %q, Inbox %q and %q must be four names", o.Table, o.Ledger, o.Inbox, versionTable)
	case o.PruneBatch < 1 || o.PruneBatch > maxPruneBatch:
		return fmt.Errorf("postgres: options: PruneBatch %d is not within 1 and %d", o.PruneBatch, maxPruneBatch)
	case o.CommitIdle < time.Millisecond || o.CommitIdle > math.MaxInt32*time.Millisecond:
		return fmt.Errorf("postgres: options: CommitIdle %v is not within 1ms and %v", o.CommitIdle, math.MaxInt32*time.Millisecond)
	}
	return nil
}

func checkName(name string, limit int) error {
	switch {
	case len(name) > limit:
		return fmt.Errorf("%q has %d bytes; at most %d are kept apart", name, len(name), limit)
	case !utf8.ValidString(name):
		return errors.New("is not valid UTF-8")
	case strings.ContainsRune(name, 0):
		return errors.New("contains NUL")
	}
	return nil
}

// names fills the identifiers of one store into SQL text. Replacement is one pass, so a name that looks like a
// placeholder stays a name.
func (o Options) names() *strings.Replacer {
	quoted := func(name string) string { return pgx.Identifier{o.Schema, name}.Sanitize() }
	return strings.NewReplacer(
		"{schema}", pgx.Identifier{o.Schema}.Sanitize(),
		"{table}", quoted(o.Table),
		"{table_text}", literal(quoted(o.Table)),
		"{states_check}", pgx.Identifier{o.Table + "_states"}.Sanitize(),
		"{inbox}", quoted(o.Inbox),
		"{inbox_index}", pgx.Identifier{o.Inbox + indexSuffix}.Sanitize(),
		"{prune_index}", pgx.Identifier{o.Table + "_prune"}.Sanitize(),
		"{ledger}", quoted(o.Ledger),
		"{versions}", quoted(versionTable),
		"{seed}", "'"+strconv.FormatInt(o.lockSeed(), 10)+"'::bigint",
		"{batch}", strconv.Itoa(o.PruneBatch),
	)
}

// literal quotes a text for SQL, as standard_conforming_strings (the server's default) reads it.
func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// lockSeed keeps the advisory locks of two tables of one database apart.
func (o Options) lockSeed() int64 {
	h := fnv.New64a()
	h.Write([]byte(o.Schema + "\x00" + o.Table))
	return int64(h.Sum64())
}
