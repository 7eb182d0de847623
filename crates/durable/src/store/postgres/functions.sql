-- The functions are where the tables are, and find those from any session:
-- each has a search path of its own. An index leads to each row, also by a plan that was made for a
-- small table. They write rows without an owner, which the processes find by themselves.
SELECT set_config('tourbillon.search_path', current_setting('search_path'), true);
SELECT set_config('search_path', quote_ident(n.nspname) || ', pg_temp', true)
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
    WHERE c.relname = 'tourbillon_timeouts' AND pg_catalog.pg_table_is_visible(c.oid);

-- Whether this transaction sees leases as they are. In one that has a snapshot from before, an owner
-- that has renewed its lease since looks gone.
CREATE FUNCTION tourbillon_sees_leases() RETURNS BOOLEAN
LANGUAGE sql STABLE AS $$
    SELECT pg_catalog.current_setting('transaction_isolation') IN ('read committed', 'read uncommitted')
$$;

-- Checks a key and a deadline. Returns the deadline in microseconds since 1970.
CREATE FUNCTION tourbillon_checked(key TEXT, due TIMESTAMPTZ) RETURNS BIGINT
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF key IS NULL OR octet_length(key) NOT BETWEEN 1 AND 1024 THEN
        RAISE EXCEPTION 'a key of % bytes: a key has 1 to 1,024 bytes', coalesce(octet_length(key)::text, 'no')
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF due IS NULL OR due > pg_catalog.to_timestamp(6250000000000::double precision) THEN
        RAISE EXCEPTION 'a deadline of %: a deadline is before the year 200,000', coalesce(due::text, 'null')
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN (extract(epoch FROM greatest(due, pg_catalog.to_timestamp(0::double precision))) * 1000000::numeric)::bigint;
END $$;

CREATE FUNCTION tourbillon_schedule_at(key TEXT, due TIMESTAMPTZ, handler TEXT, payload BYTEA DEFAULT '')
RETURNS BIGINT
LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    micros CONSTANT BIGINT := tourbillon_checked($1, $2);
    written BIGINT;
BEGIN
    IF $3 IS NULL OR octet_length($3) NOT BETWEEN 1 AND 255 OR $3 ~ '[[:cntrl:]]' THEN
        RAISE EXCEPTION 'a handler called %: a name has 1 to 255 bytes, and no control characters',
            quote_nullable($3) USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF $4 IS NULL OR octet_length($4) > 1048576 THEN
        RAISE EXCEPTION 'a payload of % bytes: at most 1048576 are stored; store a name of the data instead',
            coalesce(octet_length($4)::text, 'no') USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO tourbillon_timeouts AS t (key, due, handler, payload, generation)
        VALUES ($1, micros, $3, $4, pg_catalog.nextval('tourbillon_generations'::regclass))
        ON CONFLICT (key) DO UPDATE SET due = excluded.due, handler = excluded.handler,
            payload = excluded.payload, generation = pg_catalog.nextval('tourbillon_generations'::regclass), owner = NULL,
            attempts = 0, failures = 0, suspect = false, running = false
        RETURNING t.generation INTO written;
    RETURN written;
END $$;
COMMENT ON FUNCTION tourbillon_schedule_at(TEXT, TIMESTAMPTZ, TEXT, BYTEA) IS
    'Schedules a timeout in place of any other with this key. Returns its generation.';

CREATE FUNCTION tourbillon_schedule(key TEXT, delay INTERVAL, handler TEXT, payload BYTEA DEFAULT '')
RETURNS BIGINT
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    RETURN tourbillon_schedule_at($1, clock_timestamp() + $2, $3, $4);
END $$;
COMMENT ON FUNCTION tourbillon_schedule(TEXT, INTERVAL, TEXT, BYTEA) IS
    'Schedules a timeout in place of any other with this key. Returns its generation.';

CREATE FUNCTION tourbillon_reset_at(key TEXT, due TIMESTAMPTZ) RETURNS BOOLEAN
LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    micros CONSTANT BIGINT := tourbillon_checked($1, $2);
    now_micros CONSTANT BIGINT := (extract(epoch FROM clock_timestamp()) * 1000000::numeric)::bigint;
BEGIN
    UPDATE tourbillon_timeouts SET due = micros, generation = pg_catalog.nextval('tourbillon_generations'::regclass),
            owner = NULL, attempts = 0, failures = 0, suspect = false, running = false
        WHERE key = $1 AND (NOT running OR tourbillon_sees_leases() AND owner IN ({gone}));
    RETURN FOUND;
END $$;
COMMENT ON FUNCTION tourbillon_reset_at(TEXT, TIMESTAMPTZ) IS
    'Moves a timeout. Returns false if no timeout has this key, or if it runs.';

CREATE FUNCTION tourbillon_reset(key TEXT, delay INTERVAL) RETURNS BOOLEAN
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    RETURN tourbillon_reset_at($1, clock_timestamp() + $2);
END $$;
COMMENT ON FUNCTION tourbillon_reset(TEXT, INTERVAL) IS
    'Moves a timeout to a time from now. Returns false if no timeout has this key, or if it runs.';

CREATE FUNCTION tourbillon_cancel(key TEXT) RETURNS BOOLEAN
LANGUAGE plpgsql SET search_path FROM CURRENT SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    now_micros CONSTANT BIGINT := tourbillon_checked($1, clock_timestamp());
BEGIN
    DELETE FROM tourbillon_timeouts WHERE key = $1 AND (NOT running OR tourbillon_sees_leases() AND owner IN ({gone}));
    RETURN FOUND;
END $$;
COMMENT ON FUNCTION tourbillon_cancel(TEXT) IS
    'Cancels a timeout. Returns false if no timeout has this key, or if it runs.';

SELECT set_config('search_path', current_setting('tourbillon.search_path'), true);
