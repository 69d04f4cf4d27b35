-- What CommitEffect writes beside DONE: append-only, and without any unique constraint, since it is there to count
-- an effect that was applied twice, not to hide it.
CREATE TABLE {ledger} (
    effect_id  text COLLATE "C" NOT NULL,
    account    text COLLATE "C" NOT NULL,
    amount     bigint NOT NULL,
    consumer   text COLLATE "C" NOT NULL,
    message_id text COLLATE "C" NOT NULL
);
