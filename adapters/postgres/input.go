package postgres

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/effectonce/effectonce/model"
)

// MaxKeyBytes bounds each of consumer, message id and nonce. Two parts of this length fit a B-tree entry (2,704
// bytes on Postgres' 8 KiB pages, headers included) also where they do not compress.
const MaxKeyBytes = 1280

// MaxReasonBytes bounds the reason of a Release or a Bury, MaxResultBytes what CompleteResult keeps.
const (
	MaxReasonBytes = 64 << 10
	MaxResultBytes = 64 << 20
)

// The instants that timestamptz can hold, the second one exclusive.
var (
	firstInstant = time.Date(-4713, time.November, 24, 0, 0, 0, 0, time.UTC)
	endOfTime    = time.Date(294277, time.January, 1, 0, 0, 0, 0, time.UTC)
)

func refused(op string, why error) error {
	return fmt.Errorf("postgres: %s: %w: %w", op, why, model.ErrRefused)
}

func checkText(what, s string) error {
	switch {
	case s == "":
		return fmt.Errorf("%s is empty", what)
	case len(s) > MaxKeyBytes:
		return fmt.Errorf("%s has %d bytes, the limit is %d", what, len(s), MaxKeyBytes)
	}
	return checkUTF8(what, s)
}

func checkUTF8(what, s string) error {
	switch {
	case strings.IndexByte(s, 0) >= 0:
		return fmt.Errorf("%s contains NUL", what)
	case !utf8.ValidString(s):
		return fmt.Errorf("%s is not valid UTF-8", what)
	}
	return nil
}

func checkKey(consumer, messageID string) error {
	if err := checkText("consumer", consumer); err != nil {
		return err
	}
	return checkText("message id", messageID)
}

func checkReason(reason string) error {
	if len(reason) > MaxReasonBytes {
		return fmt.Errorf("reason has %d bytes, the limit is %d", len(reason), MaxReasonBytes)
	}
	return checkUTF8("reason", reason)
}

func checkNow(now time.Time) error {
	if now.IsZero() {
		return errors.New("now is zero")
	}
	return checkInstant("now", now)
}

func checkInstant(what string, t time.Time) error {
	if t.Before(firstInstant) || !t.Before(endOfTime) {
		return fmt.Errorf("%s lies outside the instants that Postgres holds (4714 BC to 294276 AD)", what)
	}
	return nil
}

// micros cuts an instant down to a microsecond. Not Truncate, which counts from the year 1 and therefore rounds
// earlier instants up.
func micros(t time.Time) time.Time {
	return time.Unix(t.Unix(), int64(t.Nanosecond()/1000*1000)).UTC()
}

// microsUp rounds an instant up to a microsecond.
func microsUp(t time.Time) time.Time {
	cut := micros(t)
	if cut.Before(t) {
		return cut.Add(time.Microsecond)
	}
	return cut
}

// span turns now and lease into what is stored: the claim's instant cut down, the lease's end rounded up.
func span(now time.Time, lease time.Duration) (from, until time.Time, err error) {
	if err := checkNow(now); err != nil {
		return from, until, err
	}
	if lease <= 0 {
		return from, until, fmt.Errorf("lease %v is not positive", lease)
	}
	if lease < time.Microsecond {
		return from, until, fmt.Errorf("lease %v is shorter than a microsecond", lease)
	}
	end := now.Add(lease)
	until = microsUp(end)
	if err := checkInstant("the lease's end", until); err != nil {
		return from, until, err
	}
	return micros(now), until, nil
}

// tokenOf reads a claim's token; ok is false for what no claim of this store can bear. Only the form that the store
// writes is a token, since two texts must not name one claim.
func tokenOf(claim model.Record) (token int64, ok bool) {
	n, err := strconv.ParseUint(claim.Token, 10, 64)
	if err != nil || n == 0 || n > math.MaxInt64 || strconv.FormatUint(n, 10) != claim.Token {
		return 0, false
	}
	return int64(n), true
}
