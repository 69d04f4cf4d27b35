package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/effectonce/effectonce/model"
)

// Prune removes the DONE records whose UpdatedAt lies before the given instant, in batches of Options.PruneBatch,
// each a transaction and a round trip; see [model.Store]. What was old and DONE during the whole call is gone at its
// return; a record whose claim began after the call did is left to the next one, so that the work is finite.
//
// The count is of records that this call removed: two prunes at once share them out. With an error it says how many
// are gone for certain; the batch that failed may have removed more, unless the error proves otherwise.
func (s *Store) Prune(ctx context.Context, before time.Time) (int, error) {
	return s.prune(ctx, s.sql.prune, s.opts.Table, before)
}

// prune repeats a statement that removes one batch and answers how many rows it found, how many it removed, and how
// far the first batch could see.
func (h *handle) prune(ctx context.Context, statement, table string, before time.Time) (int, error) {
	const op = "prune"
	if err := checkInstant("before", before); err != nil {
		return 0, refused(op, err)
	}
	qualified := pgx.Identifier{h.opts.Schema, table}.Sanitize()
	cut := micros(before)
	var horizon *int64
	total := 0
	for {
		var found, removed int
		batch := &pgx.Batch{}
		batch.Queue(isolationSQL)
		batch.Queue(statement, cut, horizon, qualified)
		err := h.send(ctx, op, batch, func(results pgx.BatchResults) error {
			return results.QueryRow().Scan(&found, &removed, &horizon)
		})
		if err != nil {
			return total, partly(total, err)
		}
		total += removed
		// Fewer than a batch means that the scan came to its end: rows that were no longer old or DONE once their
		// lock was had are not among the found, and the limit counts the found alone.
		if found < h.opts.PruneBatch {
			return total, nil
		}
	}
}

// partly takes back the proof that nothing changed once an earlier batch removed something.
func partly(total int, err error) error {
	if total == 0 || model.OutcomeOf(err) != model.NotApplied {
		return err
	}
	return fmt.Errorf("%v (after %d records were removed)", err, total)
}
