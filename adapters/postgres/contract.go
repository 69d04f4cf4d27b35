package postgres

import (
	"fmt"
	"time"

	"github.com/effectonce/effectonce/model"
)

// Contract states the facts about this store, for a harness.
func Contract() model.Contract {
	return model.Contract{
		Clock:        model.CallerClock,
		Precision:    time.Microsecond,
		OrderedToken: true,
		AcceptsKey:   acceptsKey,
	}
}

// InboxContract states the facts about [Inbox]: a mark is final, nobody claims it twice.
func InboxContract() model.Contract {
	return model.Contract{
		Clock:      model.CallerClock,
		Precision:  time.Microsecond,
		NoLease:    true,
		NoAttempts: true,
		AcceptsKey: acceptsKey,
	}
}

func acceptsKey(consumer, messageID string) error {
	if err := checkKey(consumer, messageID); err != nil {
		return fmt.Errorf("postgres: %w: %w", err, model.ErrRefused)
	}
	return nil
}
