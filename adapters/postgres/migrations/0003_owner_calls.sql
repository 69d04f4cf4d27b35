-- What an owner does with its claim besides completing it, and what is told about it afterwards. No statement here
-- reads or rewrites the table's rows, so each lock is held for a moment only, however large the table is.
ALTER TABLE {table}
    -- Nobody holds the claim: its owner gave it back, or a dead letter was opened again. Counts in PROCESSING alone.
    ADD COLUMN released boolean NOT NULL DEFAULT false,
    -- Why a claim was last given back or buried, in its owner's words; until DONE.
    ADD COLUMN reason text COLLATE "C",
    -- What CompleteResult keeps for duplicates. An empty one is not nothing.
    ADD COLUMN result bytea;

-- DEAD is a new word for the state. The check that does not know it bears whatever name the server gave it. The
-- table's own name reaches the block as a setting: within its quotes no quoting would be safe for every name.
SELECT set_config('effectonce.table', {table_text}, true);
DO $$
DECLARE
    records CONSTANT regclass := current_setting('effectonce.table')::regclass;
    narrow name;
BEGIN
    FOR narrow IN
        SELECT c.conname FROM pg_catalog.pg_constraint c
        WHERE c.conrelid = records AND c.contype = 'c'
            AND c.conkey = ARRAY[(SELECT a.attnum FROM pg_catalog.pg_attribute a WHERE a.attrelid = records AND a.attname = 'state')]
            AND pg_catalog.pg_get_constraintdef(c.oid) LIKE '%PROCESSING%DONE%'
    LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', records, narrow);
    END LOOP;
END
$$;

-- NOT VALID spares the scan and binds every later write; what the narrower check let in satisfies this one. It leaves
-- alone what an earlier version of the code, still running, makes of a row that was released.
ALTER TABLE {table} ADD CONSTRAINT {states_check}
    CHECK (state IN ('PROCESSING', 'DONE', 'DEAD') AND (state = 'DONE' OR result IS NULL)) NOT VALID;
