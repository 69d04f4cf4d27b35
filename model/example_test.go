package model_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/effectonce/effectonce/model"
)

// A history is text that a person reads, edits and keeps. Instants are offsets from the epoch; moments (call, return)
// come from one sequence; an answer that never came is written as pending. What would not print as it stands is an
// error with its line, so that no edit is lost without a word.
func ExampleParse() {
	text := `effectonce history 1
store "shop"
scenario ""
seed 7
epoch 2024-03-01T12:00:00Z
contract
capabilities
op 1 w1/1 begin "orders" "m|1" now=0s lease=30s call=1 return=2 -> ok claimed state="PROCESSING" attempts=1 lease-until=30s updated-at=0s
op 2 w1/1 complete "orders" "m|1" now=5s call=3 -> pending
end 2
`
	h, err := model.Parse(text)
	if err != nil {
		fmt.Println(err)
		return
	}
	begin, complete := &h.Operations[0], &h.Operations[1]
	fmt.Println(begin.Key, "attempts", begin.Answer.Attempts, "until", h.Offset(begin.Answer.LeaseUntil))
	fmt.Println("known how it ended:", begin.Known(), complete.Known())

	_, err = model.Parse(strings.Replace(text, "lease=30s", "lease=soon", 1))
	fmt.Println(err)
	// Output:
	// "orders"/"m|1" attempts 1 until 30s
	// known how it ended: true false
	// model: history: line 8: lease: time: invalid duration "soon"
}

// A program that records a history fills in operations and prints them. A key is quoted, so that nothing in it ends
// its line.
func ExampleHistory_Print() {
	start := time.Date(2024, time.March, 1, 12, 0, 0, 0, time.UTC)
	h := model.History{Store: "shop", Epoch: model.InstantOf(start), Operations: []model.Operation{{
		ID: 1, Worker: 1, Handle: 1, Kind: model.Complete, Key: model.Key{Consumer: "orders", ID: "m\n1"},
		Now: model.InstantOf(start.Add(5 * time.Second)), Call: 1, Return: 2,
		Answer: model.Answer{Outcome: model.NotApplied, Refusal: model.NotFound},
	}}}
	fmt.Print(h.Print())
	// Output:
	// effectonce history 1
	// store "shop"
	// scenario ""
	// seed 0
	// epoch 2024-03-01T12:00:00Z
	// contract
	// capabilities
	// op 1 w1/1 complete "orders" "m\n1" now=5s call=1 return=2 -> not-applied refusal=not-found
	// end 1
}
