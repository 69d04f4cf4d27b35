package redis

import (
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"time"

	"github.com/effectonce/effectonce/model"
)

const (
	keyPrefix          = "effectonce:"
	maxNamespace       = 128
	maxMicro     int64 = 1 << 53 // beyond it a double no longer tells two microseconds apart
)

// slot is what the keys of one partition have in common, made once.
type slot struct {
	records, done, counter, ledger string
	number                         string
}

// namespacePrefix opens every key of a namespace and no key of another: the length says where the name ends.
func namespacePrefix(namespace string) string {
	return keyPrefix + "{" + strconv.Itoa(len(namespace)) + ":" + namespace + ":"
}

func layoutKey(namespace string) string { return namespacePrefix(namespace) + "layout}" }

func newSlots(namespace string, partitions int) []slot {
	slots := make([]slot, partitions)
	for p := range slots {
		number := strconv.Itoa(p)
		base := namespacePrefix(namespace) + number + "}:"
		slots[p] = slot{records: base + "r:", done: base + "d", counter: base + "c", ledger: base + "l", number: number}
	}
	return slots
}

// recordKey answers the partition of a message and the key of its record.
func (s *Store) recordKey(consumer, messageID string) (*slot, string) {
	name := strconv.Itoa(len(consumer)) + ":" + consumer + messageID
	p := &s.slots[crc32.ChecksumIEEE([]byte(name))%uint32(len(s.slots))]
	return p, p.records + name
}

// checkNamespace admits what is at once a client name, a literal in a MATCH pattern, and no brace in a hash tag.
func checkNamespace(namespace string) error {
	if namespace == "" {
		return errors.New("the namespace is empty")
	}
	if len(namespace) > maxNamespace {
		return fmt.Errorf("the namespace is longer than %d bytes", maxNamespace)
	}
	for _, c := range []byte(namespace) {
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		digit := c >= '0' && c <= '9'
		if !letter && !digit && !strings.ContainsRune("._-:/@+=,#", rune(c)) {
			return fmt.Errorf("the namespace %q has %q in it: letters, digits and ._-:/@+=,# are allowed", namespace, c)
		}
	}
	return nil
}

func admitKey(op, consumer, messageID string) error {
	switch {
	case consumer == "":
		return refused(op, "the consumer is empty")
	case messageID == "":
		return refused(op, "the message id is empty")
	}
	return nil
}

// admitInstant answers an instant of the caller as the scripts take it.
func admitInstant(op, what string, t time.Time) (string, error) {
	if t.IsZero() {
		return "", refused(op, what+" is zero")
	}
	micro, ok := microseconds(t)
	if !ok {
		return "", refused(op, what+" is "+t.UTC().Format(time.RFC3339)+", which is not within 2^53 µs of 1970")
	}
	return strconv.FormatInt(micro, 10), nil
}

// admitLease answers when a lease ends.
func admitLease(op string, now time.Time, lease time.Duration) (string, error) {
	if lease < time.Microsecond {
		return "", refused(op, "the lease "+lease.String()+" is shorter than 1µs")
	}
	return admitInstant(op, "the end of the lease", now.Add(lease))
}

// microseconds truncates towards the past. false: the number would not be exact.
func microseconds(t time.Time) (int64, bool) {
	if t.Before(time.UnixMicro(-maxMicro)) || t.After(time.UnixMicro(maxMicro)) {
		return 0, false
	}
	return t.UnixMicro(), true
}

// cutOff answers the instant of a Prune. Beyond what a record can hold, before every record and after every record
// are the whole truth, so nothing needs refusing.
func cutOff(before time.Time) string {
	micro, ok := microseconds(before)
	switch {
	case ok:
	case before.Before(time.Unix(0, 0)):
		micro = -maxMicro
	default:
		micro = 2 * maxMicro
	}
	return strconv.FormatInt(micro, 10)
}

// encodeRow joins fields into one ledger row, each preceded by its length: they may hold any byte.
func encodeRow(fields ...string) string {
	var b strings.Builder
	for _, f := range fields {
		b.WriteString(strconv.Itoa(len(f)))
		b.WriteByte(':')
		b.WriteString(f)
	}
	return b.String()
}

func decodeRow(row string, fields ...*string) error {
	for _, f := range fields {
		length, rest, found := strings.Cut(row, ":")
		n, err := strconv.Atoi(length)
		if !found || err != nil || n < 0 || n > len(rest) {
			return fmt.Errorf("ledger row ends in %q, which is no field", row)
		}
		*f, row = rest[:n], rest[n:]
	}
	if row != "" {
		return fmt.Errorf("ledger row has %q after its last field", row)
	}
	return nil
}

func effectRow(consumer, messageID string, e model.Effect) string {
	return encodeRow(consumer, messageID, e.ID, e.Account, strconv.FormatInt(e.Amount, 10))
}

func parseEffectRow(row string) (model.Applied, error) {
	var a model.Applied
	var amount string
	if err := decodeRow(row, &a.Consumer, &a.MessageID, &a.Effect.ID, &a.Effect.Account, &amount); err != nil {
		return model.Applied{}, err
	}
	n, err := strconv.ParseInt(amount, 10, 64)
	if err != nil {
		return model.Applied{}, fmt.Errorf("ledger row: amount: %w", err)
	}
	a.Effect.Amount = n
	return a, nil
}
