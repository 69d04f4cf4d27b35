-- One row is one dedup record. Keys are compared byte for byte: COLLATE "C" keeps case pairs, trailing spaces and
-- the normal forms of Unicode apart, whatever the database's own collation is.
CREATE TABLE {table} (
    consumer    text COLLATE "C" NOT NULL,
    message_id  text COLLATE "C" NOT NULL,
    state       text COLLATE "C" NOT NULL CHECK (state IN ('PROCESSING', 'DONE')),
    -- Claims of this key since the record was made.
    attempts    integer NOT NULL CHECK (attempts > 0),
    -- The instant from which on the claim may be taken over; nothing for DONE.
    lease_until timestamptz,
    -- The now of the claim, then of the completion. Always the caller's clock.
    updated_at  timestamptz NOT NULL,
    -- The number of the claim: of the current one, then of the one that completed. It comes from the sequence
    -- alone, and the sequence must hand numbers out in order, so its cache stays 1.
    token       bigint NOT NULL GENERATED ALWAYS AS IDENTITY (CACHE 1 NO CYCLE),
    -- The delivery that holds the claim, if its worker named one.
    nonce       text COLLATE "C",
    PRIMARY KEY (consumer, message_id),
    CHECK ((state = 'PROCESSING') = (lease_until IS NOT NULL))
);

-- Prune walks DONE from the oldest on. The token makes the order total, and lets the horizon be judged in the index.
CREATE INDEX {prune_index} ON {table} (updated_at, token) WHERE state = 'DONE';
