-- The inbox: one row is the mark of one message whose effect was committed with it.
CREATE TABLE {inbox} (
    consumer   text COLLATE "C" NOT NULL,
    message_id text COLLATE "C" NOT NULL,
    -- The caller's clock at the application.
    applied_at timestamptz NOT NULL,
    -- The number of the mark: it gives Prune a total order and an end.
    seq        bigint NOT NULL GENERATED ALWAYS AS IDENTITY (CACHE 1 NO CYCLE),
    PRIMARY KEY (consumer, message_id)
);

CREATE INDEX {inbox_index} ON {inbox} (applied_at, seq);
