package postgres

import (
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/effectonce/effectonce/model"
)

const (
	undefinedTable  = "42P01"
	undefinedSchema = "3F000"
	undefinedColumn = "42703"
)

// ErrNotDead refuses the Replay of a record that is no dead letter. Nothing changed.
var ErrNotDead = errors.New("the record is not DEAD")

// unmigrated says that the server knows less than this version's schema.
func unmigrated(err error) bool {
	return hasCode(err, undefinedTable, undefinedSchema, undefinedColumn)
}

// failed wraps the error of a call and adds the proof that nothing changed where there is one: nothing was sent, or
// the server answered ERROR, which undoes the transaction as a whole. FATAL proves nothing: it can end a session
// whose commit is on disk.
func failed(op string, err error) error {
	if err == nil {
		return nil
	}
	wrapped := fmt.Errorf("postgres: %s: %w", op, err)
	if unmigrated(err) {
		wrapped = fmt.Errorf("postgres: %s (was the schema migrated?): %w", op, err)
	}
	var server *pgconn.PgError
	if neverSent(err) || (errors.As(err, &server) && server.SeverityUnlocalized == "ERROR") {
		return model.NoEffect(wrapped)
	}
	return wrapped
}

// neverSent says that nothing of a statement left this process. pgconn says the same of "conn closed", and is wrong
// where a simple query (the commit is one) was sent and its reply was lost: reading the reply finds the connection
// closed then, with the very error of a call that was never made.
func neverSent(err error) bool {
	return pgconn.SafeToRetry(err) && !errors.Is(err, pgconn.ErrConnClosed)
}

// notSent wraps an error from before the call's first statement.
func notSent(op string, err error) error {
	return model.NoEffect(fmt.Errorf("postgres: %s: no connection: %w", op, err))
}

func hasCode(err error, codes ...string) bool {
	var server *pgconn.PgError
	if !errors.As(err, &server) {
		return false
	}
	for _, code := range codes {
		if server.Code == code {
			return true
		}
	}
	return false
}
