package consume

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/effectonce/effectonce/model"
)

// Claim is what a handler works under.
type Claim struct {
	Consumer, MessageID string
	// Record is what Begin answered: Attempts counts from 1, Token fences writes elsewhere where the store promises
	// an order. LeaseUntil is the first lease's; a heartbeat prolongs it without a word.
	Record model.Record
	now    func() time.Time
}

// Now reads the loop's clock. A handler that completes by itself ([Loop.DeliverCommitted]) gives the store this
// instant, read at the commit.
func (c Claim) Now() time.Time { return c.now() }

// EffectKey names the message's effect towards others, such as a payment provider's idempotency key: 64 hex digits,
// the same in every attempt and every process, and different for every (consumer, message id).
func (c Claim) EffectKey() string {
	// The length keeps "a"+"bc" and "ab"+"c" apart.
	sum := sha256.Sum256([]byte(strconv.Itoa(len(c.Consumer)) + ":" + c.Consumer + c.MessageID))
	return hex.EncodeToString(sum[:])
}

// reasonAtMost is how many bytes of an error are kept as a reason: enough to find the cause, little enough for any
// store's column.
const reasonAtMost = 1024

// reason is an error as a record can keep it: valid UTF-8 without NUL, which Postgres would refuse.
func reason(err error) string {
	text := strings.ReplaceAll(err.Error(), "\x00", "")
	return strings.ToValidUTF8(text[:min(len(text), reasonAtMost)], "")
}
