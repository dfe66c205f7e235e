CREATE TABLE public.api_key (
    id text NOT NULL COLLATE pg_catalog."C",
    org_id text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    role text NOT NULL COLLATE pg_catalog."C",
    hash bytea NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint,
    previous_hash bytea,
    previous_until bigint
);
CREATE TABLE public.artifact_blob (
    run_id text NOT NULL COLLATE pg_catalog."C",
    blob_id text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE public.audit (
    org_id text NOT NULL COLLATE pg_catalog."C",
    at bigint NOT NULL,
    id text NOT NULL COLLATE pg_catalog."C",
    action text NOT NULL COLLATE pg_catalog."C",
    target text NOT NULL COLLATE pg_catalog."C",
    key_id text COLLATE pg_catalog."C",
    address text COLLATE pg_catalog."C",
    request_id text COLLATE pg_catalog."C"
);
CREATE TABLE public.blob (
    id text NOT NULL COLLATE pg_catalog."C",
    org_id text NOT NULL COLLATE pg_catalog."C",
    sha256 bytea NOT NULL,
    size bigint NOT NULL,
    created_at bigint NOT NULL,
    check_at bigint,
    doomed_at bigint
)
WITH (fillfactor='70');
CREATE TABLE public.budget (
    org_id text NOT NULL COLLATE pg_catalog."C",
    scope text NOT NULL COLLATE pg_catalog."C",
    limit_micros bigint NOT NULL,
    period text NOT NULL COLLATE pg_catalog."C",
    since bigint NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL
);
CREATE TABLE public.budget_hold (
    run_id text NOT NULL COLLATE pg_catalog."C",
    org_id text NOT NULL COLLATE pg_catalog."C",
    scope text NOT NULL COLLATE pg_catalog."C",
    since bigint NOT NULL,
    starts_at bigint NOT NULL,
    held_micros bigint NOT NULL
);
CREATE TABLE public.budget_window (
    org_id text NOT NULL COLLATE pg_catalog."C",
    scope text NOT NULL COLLATE pg_catalog."C",
    since bigint NOT NULL,
    starts_at bigint NOT NULL,
    held_micros bigint NOT NULL,
    spent_micros bigint NOT NULL
)
WITH (fillfactor='70');
CREATE TABLE public.connection (
    id text NOT NULL COLLATE pg_catalog."C",
    org_id text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    definition text NOT NULL COLLATE pg_catalog."C",
    credentials bytea NOT NULL,
    tokens bytea,
    tokens_version bigint NOT NULL,
    refresh_until bigint NOT NULL,
    status text NOT NULL COLLATE pg_catalog."C",
    error text COLLATE pg_catalog."C",
    revision bigint NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    refresh_holder bigint,
    issuer bytea
)
WITH (fillfactor='70');
CREATE TABLE public.delivery (
    run_id text NOT NULL COLLATE pg_catalog."C",
    org_id text NOT NULL COLLATE pg_catalog."C",
    host text NOT NULL COLLATE pg_catalog."C",
    target bytea NOT NULL,
    attempts bigint NOT NULL,
    failures bigint NOT NULL,
    due_at bigint,
    give_up_at bigint,
    claim bigint NOT NULL,
    node text COLLATE pg_catalog."C"
)
WITH (fillfactor='70');
CREATE TABLE public.delivery_attempt (
    run_id text NOT NULL COLLATE pg_catalog."C",
    attempt bigint NOT NULL,
    at bigint NOT NULL,
    status bigint,
    error text COLLATE pg_catalog."C",
    duration_ms bigint NOT NULL,
    next_at bigint
);
CREATE TABLE public.dispatch (
    id bigint NOT NULL,
    turn bigint NOT NULL,
    last_org text NOT NULL COLLATE pg_catalog."C"
)
WITH (fillfactor='70');
CREATE TABLE public.event (
    run_id text NOT NULL COLLATE pg_catalog."C",
    seq bigint NOT NULL,
    kind text NOT NULL COLLATE pg_catalog."C",
    data text NOT NULL COLLATE pg_catalog."C",
    created_at bigint NOT NULL
);
CREATE TABLE public.file (
    id text NOT NULL COLLATE pg_catalog."C",
    org_id text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    blob_id text NOT NULL COLLATE pg_catalog."C",
    size bigint NOT NULL,
    sha256 bytea NOT NULL,
    content_type text NOT NULL COLLATE pg_catalog."C",
    created_at bigint NOT NULL
);
CREATE TABLE public.fire (
    schedule_id text NOT NULL COLLATE pg_catalog."C",
    instant bigint NOT NULL,
    occasion text NOT NULL COLLATE pg_catalog."C",
    last_instant bigint NOT NULL,
    instants bigint NOT NULL,
    outcome text NOT NULL COLLATE pg_catalog."C",
    reason text COLLATE pg_catalog."C",
    run_id text COLLATE pg_catalog."C",
    recorded_at bigint NOT NULL
);
CREATE TABLE public.journal (
    run_id text NOT NULL COLLATE pg_catalog."C",
    seq bigint NOT NULL,
    data text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE public.migration (
    version bigint NOT NULL,
    name text NOT NULL,
    checksum text NOT NULL
);
CREATE TABLE public.node (
    id bigint NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    started_at bigint NOT NULL,
    lease_until bigint NOT NULL,
    ended_at bigint,
    address text COLLATE pg_catalog."C",
    version text COLLATE pg_catalog."C",
    draining_since bigint,
    master_keys text COLLATE pg_catalog."C"
)
WITH (fillfactor='70');
CREATE TABLE public.oauth_flow (
    state_hash bytea NOT NULL,
    org_id text NOT NULL COLLATE pg_catalog."C",
    connection_id text NOT NULL COLLATE pg_catalog."C",
    revision bigint NOT NULL,
    pending bytea NOT NULL,
    expires_at bigint NOT NULL,
    tries bigint
);
CREATE TABLE public.organization (
    id text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    created_at bigint NOT NULL,
    usage_until bigint DEFAULT 0 NOT NULL
);
CREATE TABLE public.queue (
    run_id text NOT NULL COLLATE pg_catalog."C",
    org_id text NOT NULL COLLATE pg_catalog."C",
    enqueued_at bigint NOT NULL,
    node_id bigint,
    stopping bigint
)
WITH (fillfactor='70');
CREATE TABLE public.rate_lease (
    minute bigint NOT NULL,
    subject text NOT NULL COLLATE pg_catalog."C",
    granted bigint NOT NULL,
    block bigint NOT NULL
)
WITH (fillfactor='70');
CREATE TABLE public.replaced_run (
    run_id text NOT NULL COLLATE pg_catalog."C",
    org_id text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE public.run (
    id text NOT NULL COLLATE pg_catalog."C",
    org_id text NOT NULL COLLATE pg_catalog."C",
    status text NOT NULL COLLATE pg_catalog."C",
    outcome text COLLATE pg_catalog."C",
    attempt bigint NOT NULL,
    last_event bigint NOT NULL,
    created_at bigint NOT NULL,
    started_at bigint,
    finished_at bigint,
    max_cost_micros bigint NOT NULL,
    cost_micros bigint NOT NULL,
    billing_pending bigint NOT NULL,
    timeout_seconds bigint NOT NULL,
    idempotency_key text COLLATE pg_catalog."C",
    schedule_id text COLLATE pg_catalog."C",
    error text COLLATE pg_catalog."C",
    resumes bigint DEFAULT 0 NOT NULL,
    workflow text COLLATE pg_catalog."C",
    model text COLLATE pg_catalog."C",
    key_id text COLLATE pg_catalog."C",
    tags text COLLATE pg_catalog."C",
    zero_data_retention bigint DEFAULT 0 NOT NULL,
    input_tokens bigint DEFAULT 0 NOT NULL,
    output_tokens bigint DEFAULT 0 NOT NULL,
    cache_read_tokens bigint DEFAULT 0 NOT NULL,
    cache_write_tokens bigint DEFAULT 0 NOT NULL,
    model_calls bigint DEFAULT 0 NOT NULL,
    tool_calls bigint DEFAULT 0 NOT NULL,
    artifact_count bigint DEFAULT 0 NOT NULL,
    callback_host text COLLATE pg_catalog."C",
    surcharge_percent bigint DEFAULT 0 NOT NULL,
    surcharge_micros bigint DEFAULT 0 NOT NULL,
    output_expires_at bigint,
    budgeted bigint DEFAULT 0 NOT NULL,
    traceparent text COLLATE pg_catalog."C",
    tracestate text COLLATE pg_catalog."C",
    clock_started_at bigint,
    clock_cancelled_at bigint
)
WITH (fillfactor='70');
CREATE TABLE public.run_artifacts (
    run_id text NOT NULL COLLATE pg_catalog."C",
    artifacts text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE public.run_definition (
    run_id text NOT NULL COLLATE pg_catalog."C",
    definition text NOT NULL COLLATE pg_catalog."C",
    requires_credentials text COLLATE pg_catalog."C"
);
CREATE TABLE public.run_output (
    run_id text NOT NULL COLLATE pg_catalog."C",
    output text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE public.run_secret (
    run_id text NOT NULL COLLATE pg_catalog."C",
    credentials bytea NOT NULL
);
CREATE TABLE public.run_tag (
    org_id text NOT NULL COLLATE pg_catalog."C",
    tag text NOT NULL COLLATE pg_catalog."C",
    created_at bigint NOT NULL,
    run_id text NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE public.schedule (
    id text NOT NULL COLLATE pg_catalog."C",
    org_id text NOT NULL COLLATE pg_catalog."C",
    name text COLLATE pg_catalog."C",
    workflow text NOT NULL COLLATE pg_catalog."C",
    cron text NOT NULL COLLATE pg_catalog."C",
    timezone text NOT NULL COLLATE pg_catalog."C",
    input text COLLATE pg_catalog."C",
    enabled bigint NOT NULL,
    overlap text NOT NULL COLLATE pg_catalog."C",
    catch_up_window_seconds bigint NOT NULL,
    jitter_seconds bigint NOT NULL,
    paused_until bigint,
    max_consecutive_failures bigint,
    max_cost_micros bigint,
    callback_url text COLLATE pg_catalog."C",
    callback_secret bytea,
    next_instant bigint,
    due_at bigint,
    handled_instant bigint NOT NULL,
    waiting_instant bigint,
    failures_since bigint NOT NULL,
    last_run_at bigint,
    last_run_id text COLLATE pg_catalog."C",
    last_error text COLLATE pg_catalog."C",
    revision bigint NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL
)
WITH (fillfactor='70');
CREATE TABLE public.seal_check (
    id bigint NOT NULL,
    sealed bytea NOT NULL
);
CREATE TABLE public.unretained (
    run_id text NOT NULL COLLATE pg_catalog."C",
    node_id bigint NOT NULL
);
CREATE TABLE public.usage_day (
    org_id text NOT NULL COLLATE pg_catalog."C",
    day bigint NOT NULL,
    workflow text NOT NULL COLLATE pg_catalog."C",
    model text NOT NULL COLLATE pg_catalog."C",
    key_id text NOT NULL COLLATE pg_catalog."C",
    runs bigint NOT NULL,
    succeeded bigint NOT NULL,
    cost_micros bigint NOT NULL,
    input_tokens bigint NOT NULL,
    output_tokens bigint NOT NULL,
    cache_read_tokens bigint NOT NULL,
    cache_write_tokens bigint NOT NULL,
    model_calls bigint NOT NULL,
    tool_calls bigint NOT NULL
);
CREATE TABLE public.workflow (
    org_id text NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL COLLATE pg_catalog."C",
    revision bigint NOT NULL,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    summary text NOT NULL COLLATE pg_catalog."C",
    definition text NOT NULL COLLATE pg_catalog."C"
)
WITH (fillfactor='70');
INSERT INTO public.api_key VALUES ('key_01m82ygw1aef29rdpdksmxf2z8', 'org_01m82ygw1ae1nt1nymt9bavba2', 'first admin key', 'admin', '\x9e95bfae9202bacf35336b721ca29cc8232526df0829f4a73a2ac33a3c44e48b', 1795395448874509, NULL, NULL, NULL);
INSERT INTO public.api_key VALUES ('key_01m82ygw1xe45bh2m3r9pkev68', 'org_01m82ygw1ae1nt1nymt9bavba2', 'member', 'member', '\x39c72f1c45a2a2a6c23626debc6f9ebddd30f48b14c92801c9bfe6de8b30dea5', 1795395448893211, NULL, NULL, NULL);
INSERT INTO public.api_key VALUES ('key_01m82ygw1ye649r86jv5t1tgwy', 'org_01m82ygw1ae1nt1nymt9bavba2', 'late', 'member', '\xc393818f878b65fd9d4f1b0f6e036d94649b307b8d5a0b327ca91b744f5636b3', 1795395448894444, NULL, NULL, NULL);
INSERT INTO public.api_key VALUES ('key_01m82ygw1zer6928bnm18v2dy6', 'org_01m82ygw1ae1nt1nymt9bavba2', 'expired', 'member', '\x02fdd6109ab7becf2857709e739bd11e54d3bf08ac4e6fe1514a6e1d272b182e', 1795395448895163, 1795395468894000, NULL, NULL);
INSERT INTO public.api_key VALUES ('key_01m82ygw1ze78t153vnb4fetba', 'org_01m82ygw1ae1nt1nymt9bavba2', 'rotated', 'admin', '\x00cd47801d6b1977c51e45c22d04815aca4cab462da628634956c54c1573e83b', 1795395448895798, NULL, '\x9277939b007b22e08b8ac6b7b03a3c5aee884c3b180b8274611e9b65e63baee1', 1795395449896397);
INSERT INTO public.artifact_blob VALUES ('run_01m82ygw5jekbrpq5yvkerrh9b', 'blob_01m82ygw6kfhjs4j48shzmm3gc');
INSERT INTO public.audit VALUES ('org_01m82ygw1ae1nt1nymt9bavba2', 1795395448874511, 'aud_01m82ygw1ae849xw7nqbzey4mn', 'key.create', 'key_01m82ygw1aef29rdpdksmxf2z8', NULL, NULL, NULL);
INSERT INTO public.audit VALUES ('org_01m82ygw1ae1nt1nymt9bavba2', 1795395448893212, 'aud_01m82ygw1xfw69ae1mxjejc4w5', 'key.create', 'key_01m82ygw1xe45bh2m3r9pkev68', 'key_01m82ygw1aef29rdpdksmxf2z8', '127.0.0.1', 'a92bf92b5788b8f900000001');
INSERT INTO public.audit VALUES ('org_01m82ygw1ae1nt1nymt9bavba2', 1795395448894444, 'aud_01m82ygw1yerktbdd18dysmbwv', 'key.create', 'key_01m82ygw1ye649r86jv5t1tgwy', 'key_01m82ygw1aef29rdpdksmxf2z8', '127.0.0.1', 'a92bf92b5788b8f900000002');
INSERT INTO public.audit VALUES ('org_01m82ygw1ae1nt1nymt9bavba2', 1795395448895164, 'aud_01m82ygw1ze20s449safzqbs9k', 'key.create', 'key_01m82ygw1zer6928bnm18v2dy6', 'key_01m82ygw1aef29rdpdksmxf2z8', '127.0.0.1', 'a92bf92b5788b8f900000003');
INSERT INTO public.audit VALUES ('org_01m82ygw1ae1nt1nymt9bavba2', 1795395448895798, 'aud_01m82ygw1zfrx8bw4dwvt7j7zc', 'key.create', 'key_01m82ygw1ze78t153vnb4fetba', 'key_01m82ygw1aef29rdpdksmxf2z8', '127.0.0.1', 'a92bf92b5788b8f900000004');
INSERT INTO public.audit VALUES ('org_01m82ygw1ae1nt1nymt9bavba2', 1795395448896398, 'aud_01m82ygw20fpzrqjtnj7x73dj1', 'key.rotate', 'key_01m82ygw1ze78t153vnb4fetba', 'key_01m82ygw1aef29rdpdksmxf2z8', '127.0.0.1', 'a92bf92b5788b8f900000005');
INSERT INTO public.audit VALUES ('org_01m82ygw1ae1nt1nymt9bavba2', 1795395448903513, 'aud_01m82ygw27fm1sda3d02r61g55', 'file.create', 'file_01m82ygw27ff4bb31hd5mvcg2t', 'key_01m82ygw1aef29rdpdksmxf2z8', '127.0.0.1', 'a92bf92b5788b8f900000006');
INSERT INTO public.audit VALUES ('org_01m82ygw1ae1nt1nymt9bavba2', 1795395448912407, 'aud_01m82ygw2gezqa704y6ndfkbc7', 'workflow.put', 'report', 'key_01m82ygw1aef29rdpdksmxf2z8', '127.0.0.1', 'a92bf92b5788b8f900000007');
INSERT INTO public.audit VALUES ('org_01m82ygw1ae1nt1nymt9bavba2', 1795395448914624, 'aud_01m82ygw2jed1bny9kbca7s1sg', 'budget.put', 'organization', 'key_01m82ygw1aef29rdpdksmxf2z8', '127.0.0.1', 'a92bf92b5788b8f900000008');
INSERT INTO public.audit VALUES ('org_01m82ygw1ae1nt1nymt9bavba2', 1795395448917413, 'aud_01m82ygw2nf65a4qvrm8kk2x6z', 'budget.put', 'key:key_01m82ygw1xe45bh2m3r9pkev68', 'key_01m82ygw1aef29rdpdksmxf2z8', '127.0.0.1', 'a92bf92b5788b8f900000009');
INSERT INTO public.audit VALUES ('org_01m82ygw1ae1nt1nymt9bavba2', 1795395448919670, 'aud_01m82ygw2qfvs8888qmf3yxzkf', 'budget.put', 'key:key_01m82ygw1ye649r86jv5t1tgwy', 'key_01m82ygw1aef29rdpdksmxf2z8', '127.0.0.1', 'a92bf92b5788b8f90000000a');
INSERT INTO public.audit VALUES ('org_01m82ygw1ae1nt1nymt9bavba2', 1795395448923065, 'aud_01m82ygw2ve6vrqes10z2tc5fg', 'connection.put', 'api', 'key_01m82ygw1aef29rdpdksmxf2z8', '127.0.0.1', 'a92bf92b5788b8f90000000b');
INSERT INTO public.audit VALUES ('org_01m82ygw1ae1nt1nymt9bavba2', 1795395448925045, 'aud_01m82ygw2xe3e8r5msy4jy8jvv', 'connection.put', 'crm', 'key_01m82ygw1aef29rdpdksmxf2z8', '127.0.0.1', 'a92bf92b5788b8f90000000c');
INSERT INTO public.audit VALUES ('org_01m82ygw1ae1nt1nymt9bavba2', 1795395448926654, 'aud_01m82ygw2yegdag736p5tw2t4d', 'connection.authorize', 'crm', 'key_01m82ygw1aef29rdpdksmxf2z8', '127.0.0.1', 'a92bf92b5788b8f90000000d');
INSERT INTO public.audit VALUES ('org_01m82ygw1ae1nt1nymt9bavba2', 1795395448938105, 'aud_01m82ygw3aexcrc2svt6braxn9', 'connection.consented', 'crm', NULL, '127.0.0.1', 'a92bf92b5788b8f90000000e');
INSERT INTO public.audit VALUES ('org_01m82ygw1ae1nt1nymt9bavba2', 1795395448940718, 'aud_01m82ygw3cekjver9xnh0prhxh', 'connection.authorized', 'crm', 'key_01m82ygw1aef29rdpdksmxf2z8', '127.0.0.1', 'a92bf92b5788b8f90000000f');
INSERT INTO public.audit VALUES ('org_01m82ygw1ae1nt1nymt9bavba2', 1795395449134605, 'aud_01m82ygw9ee5k80z3nt9qbrsx8', 'schedule.create', 'sched_01m82ygw9defftg16n6wawf1nn', 'key_01m82ygw1aef29rdpdksmxf2z8', '127.0.0.1', 'a92bf92b5788b8f900000023');
INSERT INTO public.audit VALUES ('org_01m82ygw1ae1nt1nymt9bavba2', 1795395449137366, 'aud_01m82ygw9hfvdbh93f1r5hb8b2', 'schedule.create', 'sched_01m82ygw9hebsr631npk2qr302', 'key_01m82ygw1aef29rdpdksmxf2z8', '127.0.0.1', 'a92bf92b5788b8f900000024');
INSERT INTO public.blob VALUES ('blob_01m82ygw22e4jrbpygdhsjsz8e', 'org_01m82ygw1ae1nt1nymt9bavba2', '\xf7712751e993b9972137e8ded3207d99d8747e041999182851225714ee0070e2', 9, 1795395448898121, 1795399048903511, NULL);
INSERT INTO public.blob VALUES ('blob_01m82ygw6kfhjs4j48shzmm3gc', 'org_01m82ygw1ae1nt1nymt9bavba2', '\x14e4cce86788499d03144f70ab24ca83d1abe97d55153c71ee1df55c5296c1f9', 10, 1795395449043116, 1795399049052077, NULL);
INSERT INTO public.budget VALUES ('org_01m82ygw1ae1nt1nymt9bavba2', 'organization', 500000000, 'month', 1795395448914624, 1795395448914624, 1795395448914624);
INSERT INTO public.budget VALUES ('org_01m82ygw1ae1nt1nymt9bavba2', 'key:key_01m82ygw1xe45bh2m3r9pkev68', 500000000, 'month', 1795395448917413, 1795395448917413, 1795395448917413);
INSERT INTO public.budget VALUES ('org_01m82ygw1ae1nt1nymt9bavba2', 'key:key_01m82ygw1ye649r86jv5t1tgwy', 500000000, 'month', 1795395448919670, 1795395448919670, 1795395448919670);
INSERT INTO public.budget_hold VALUES ('run_01m82yhtwceccb59rrt000hzn3', 'org_01m82ygw1ae1nt1nymt9bavba2', 'key:key_01m82ygw1ye649r86jv5t1tgwy', 1795395448919670, 1793491200000000, 1000000);
INSERT INTO public.budget_hold VALUES ('run_01m82yhtwceccb59rrt000hzn3', 'org_01m82ygw1ae1nt1nymt9bavba2', 'organization', 1795395448914624, 1793491200000000, 1000000);
INSERT INTO public.budget_hold VALUES ('run_01m82yhtwjenxbcjzjhz2fdyqz', 'org_01m82ygw1ae1nt1nymt9bavba2', 'key:key_01m82ygw1ye649r86jv5t1tgwy', 1795395448919670, 1793491200000000, 1000000);
INSERT INTO public.budget_hold VALUES ('run_01m82yhtwjenxbcjzjhz2fdyqz', 'org_01m82ygw1ae1nt1nymt9bavba2', 'organization', 1795395448914624, 1793491200000000, 1000000);
INSERT INTO public.budget_window VALUES ('org_01m82ygw1ae1nt1nymt9bavba2', 'key:key_01m82ygw1xe45bh2m3r9pkev68', 1795395448917413, 1793491200000000, 0, 148);
INSERT INTO public.budget_window VALUES ('org_01m82ygw1ae1nt1nymt9bavba2', 'key:key_01m82ygw1ye649r86jv5t1tgwy', 1795395448919670, 1793491200000000, 2000000, 0);
INSERT INTO public.budget_window VALUES ('org_01m82ygw1ae1nt1nymt9bavba2', 'organization', 1795395448914624, 1793491200000000, 2000000, 196);
INSERT INTO public.connection VALUES ('conn_01m82ygw2te6gtx8g7hmecqj2n', 'org_01m82ygw1ae1nt1nymt9bavba2', 'api', '{"type":"http","url":"http://127.0.16.2:21601/echo","auth":{"type":"bearer"},"headers":{"X-Key":""}}', '\x01e0a0e56296804bab5dff4e84427d58210ece0bbe524167133270f2d167eb7bac607f74a61e4e4e44451c2885ccabd8d345fb0ddff853c0940ebbcba7dd90368433600df1e84112037ecff5525d182ba178869fd04ba0e4353bac75331955757f95cc6594314b17af71f519c1367d53151c386d3d56f79cde9b38c2e2ac7fa3528588c17de20d9e65408adac377b77547306e60da0259a8330c3a0d644db4d1a68903f01a308ae140f0696f2260eee879ef080dcfeba3220fdacff88b623014c5876e5fc02d5a791b5e11ddd577a9b53bc4abba1f6b638bff11750afd', NULL, 0, 0, 'ready', NULL, 1, 1795395448923064, 1795395448923064, NULL, NULL);
INSERT INTO public.connection VALUES ('conn_01m82ygw2xfqbv9trwppd8zhm6', 'org_01m82ygw1ae1nt1nymt9bavba2', 'crm', '{"type":"http","url":"http://127.0.16.2:21601/guarded","auth":{"type":"oauth"}}', '\x01e0a0e56296804bab05d55016468037f3fc2b611abb716cde90b236a47bd645ff1e0b0789f18c8024d81a6e61c7f98765932b712817404eb977cb1d1ac2f495c4724fa1b0d13b0fe5e0fb635c4b9d063879521e943dbc2c6517601418e0741a38fa97c10c2025b4309fd95a3659c4ca6c0c4e43e0d5bfef13deec209347043c4af303fde58b4d00323aaaef0d5647be22c0c0f9a6f6a0679bbdc0312ad2b63424ddcdb65692b67fc7210e9a2485bdb70ddede0c73df8d354a0ce613cb8348035fddf97c30c42a47df8d7971782352799d490ac023402dab18341f4eae46f1dd454392bc882adf12b8c731081e32bfe722e14110ec6c6ac94449e80858d1f9e6aeb5a8fbc99ef92f1db8fbcae0ee11e9d7f012b62b65d8b5f7dcedcf2ee5ae8070610818ff447f850469ecd8be85755487d4afe343cf299e92a86744149f6765', '\x01e0a0e56296804bab366ecdd7dade76a5a074650ee21f15f413329cf7c379c5be50dde0925159654362cb5fb44f2f1fd355e000b14388c05100689927b6edfa4cfa850d2d2d6fad79e339595b8212bf7db8b592720ca380e69e03b19bd8b47004b6a9f40d4d6b45f958040f72d328ea5128f35390e513961b00107e150609d539c00fb5dcf2e7c654784c60e86aa30c41bcc6513b2a1c13a6299567674a4adb2436e924d347c18cb7aecd126672e168bb18ac983fd452badfb3996f9ec3ae90ed0622f45a976839dfe43a8a6da8305beee648716167dd3b7302d7a668400e41cbd17a52778f479ac1753c91dad9b0fa4845ba34a97df8f5290f16a306f0579222803070f1205af22d62cb5ed8a3849523b5a3ee235df82a37185288466656c09f4cf01471c8dd326ac162bd96729bbb4d933078a7e3aba4470f55a67e33a511fafdb05b4ee5c46a427b67c10b7a8a0468a788cbf46c016e92fb15842ae02cad46ea5b4c993bd279a57bf2ad4e6ad1238fd5e9769dcc0a77d45f1e024cc86dfea9888a75a3e53ddcf0805f3c60e3d249e00d1553c7e885e8d39ae82565acf61e48a7eb5c627cd806a94032bafc34bb760388bc34ed25eef85151cb32a15b68e9f9a6eb4a8dfac734d19591fde7b8697a', 1, 0, 'ready', NULL, 1, 1795395448925045, 1795395448925045, NULL, NULL);
INSERT INTO public.delivery VALUES ('run_01m82ygw70fy7vp6e5yw79nbxa', 'org_01m82ygw1ae1nt1nymt9bavba2', '127.0.16.2:21602', '\x01e0a0e56296804bab16ab8524294f27f3133982ae11b15a712f7637ff5605802f22d2685bee6c73445b09d8cde03cbbbdedc23cf137c22466edbdce20b12c84e42f403ff4b6a97325c49dd110855c9f1f699e6b3dc4946ef183f4845fe935e1e6c8fc0128407e40e402897850eb2eb4', 1, 0, NULL, 1795654649068882, 1, NULL);
INSERT INTO public.delivery VALUES ('run_01m82yhtwjenxbcjzjhz2fdyqz', 'org_01m82ygw1ae1nt1nymt9bavba2', '127.0.16.2:21602', '\x01e0a0e56296804babdd7cf0c71fc33a93a55aec51e6494cbaaebb5f0b5d7c40d809ce47ab079986934daf29e296dd8240eaf967e611cbd95d590cb7729e441b9d61919f8f2cba92054233a6c7b7a1a98258813699d60b8a8580e187a9b2b2bce0026899af5d38622c726ef892a06066', 0, 0, NULL, NULL, 0, NULL);
INSERT INTO public.delivery_attempt VALUES ('run_01m82ygw70fy7vp6e5yw79nbxa', 1, 1795395449073419, 204, NULL, 0, NULL);
INSERT INTO public.dispatch VALUES (1, 12, 'org_01m82ygw1ae1nt1nymt9bavba2');
INSERT INTO public.event VALUES ('run_01m82ygw3eewdspc8e6vdtb0ha', 1, 'status', '{"status":"queued"}', 1795395448942406);
INSERT INTO public.event VALUES ('run_01m82ygw3eewdspc8e6vdtb0ha', 2, 'status', '{"status":"starting"}', 1795395448945901);
INSERT INTO public.event VALUES ('run_01m82ygw3eewdspc8e6vdtb0ha', 3, 'status', '{"status":"running"}', 1795395448961878);
INSERT INTO public.event VALUES ('run_01m82ygw3eewdspc8e6vdtb0ha', 4, 'worker_started', '{"runtime":"namespaces","mode":"self-hosted","shell":true}', 1795395448961883);
INSERT INTO public.event VALUES ('run_01m82ygw3eewdspc8e6vdtb0ha', 5, 'model_call', '{"model":"runbook","step":1,"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"cost_micros":0,"duration_ms":0,"stop_reason":"end_turn"}', 1795395448962259);
INSERT INTO public.event VALUES ('run_01m82ygw3eewdspc8e6vdtb0ha', 6, 'message', '{"text":"hello","step":1}', 1795395448962275);
INSERT INTO public.event VALUES ('run_01m82ygw3eewdspc8e6vdtb0ha', 7, 'result', '{"output":"hello"}', 1795395448962501);
INSERT INTO public.event VALUES ('run_01m82ygw3eewdspc8e6vdtb0ha', 8, 'status', '{"status":"succeeded"}', 1795395448962501);
INSERT INTO public.event VALUES ('run_01m82ygw48fqbacv43e05ntpet', 1, 'status', '{"status":"queued"}', 1795395448968110);
INSERT INTO public.event VALUES ('run_01m82ygw48fqbacv43e05ntpet', 2, 'status', '{"status":"starting"}', 1795395448967323);
INSERT INTO public.event VALUES ('run_01m82ygw48fqbacv43e05ntpet', 3, 'status', '{"status":"running"}', 1795395448973910);
INSERT INTO public.event VALUES ('run_01m82ygw48fqbacv43e05ntpet', 4, 'worker_started', '{"runtime":"namespaces","mode":"self-hosted","shell":true}', 1795395448973912);
INSERT INTO public.event VALUES ('run_01m82ygw48fqbacv43e05ntpet', 5, 'model_call', '{"model":"runbook","step":1,"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"cost_micros":0,"duration_ms":0,"stop_reason":"tool_use"}', 1795395448974115);
INSERT INTO public.event VALUES ('run_01m82ygw48fqbacv43e05ntpet', 6, 'tool_start', '{"tool":"shell","id":"block_1","arguments":{"command":"echo oh >&2; exit 3"}}', 1795395448974160);
INSERT INTO public.event VALUES ('run_01m82ygw48fqbacv43e05ntpet', 7, 'tool_end', '{"tool":"shell","id":"block_1","is_error":true,"output":"[the command exited with status 3]\n[stderr]\noh\n","output_bytes":47,"duration_ms":29}', 1795395449003539);
INSERT INTO public.event VALUES ('run_01m82ygw48fqbacv43e05ntpet', 8, 'status', '{"status":"failed","error":"block 1 exited with status 3: oh"}', 1795395449007331);
INSERT INTO public.event VALUES ('run_01m82ygw5jekbrpq5yvkerrh9b', 1, 'status', '{"status":"queued"}', 1795395449010095);
INSERT INTO public.event VALUES ('run_01m82ygw5jekbrpq5yvkerrh9b', 2, 'status', '{"status":"starting"}', 1795395449011849);
INSERT INTO public.event VALUES ('run_01m82ygw5jekbrpq5yvkerrh9b', 3, 'status', '{"status":"running"}', 1795395449012890);
INSERT INTO public.event VALUES ('run_01m82ygw5jekbrpq5yvkerrh9b', 4, 'worker_started', '{"runtime":"namespaces","mode":"self-hosted","shell":true}', 1795395449012892);
INSERT INTO public.event VALUES ('run_01m82ygw5jekbrpq5yvkerrh9b', 5, 'model_call', '{"model":"runbook","step":1,"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"cost_micros":0,"duration_ms":0,"stop_reason":"tool_use"}', 1795395449013020);
INSERT INTO public.event VALUES ('run_01m82ygw5jekbrpq5yvkerrh9b', 6, 'tool_start', '{"tool":"shell","id":"block_1","arguments":{"command":"mkdir outputs && printf ''the report'' > outputs/report.md"}}', 1795395449013062);
INSERT INTO public.event VALUES ('run_01m82ygw5jekbrpq5yvkerrh9b', 7, 'tool_end', '{"tool":"shell","id":"block_1","is_error":false,"output":"[the command exited with status 0]\n","output_bytes":35,"duration_ms":28}', 1795395449041476);
INSERT INTO public.event VALUES ('run_01m82ygw5jekbrpq5yvkerrh9b', 8, 'model_call', '{"model":"runbook","step":2,"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"cost_micros":0,"duration_ms":0,"stop_reason":"end_turn"}', 1795395449041574);
INSERT INTO public.event VALUES ('run_01m82ygw5jekbrpq5yvkerrh9b', 9, 'artifact', '{"path":"report.md","size":10,"sha256":"14e4cce86788499d03144f70ab24ca83d1abe97d55153c71ee1df55c5296c1f9","content_type":"text/markdown"}', 1795395449052081);
INSERT INTO public.event VALUES ('run_01m82ygw5jekbrpq5yvkerrh9b', 10, 'result', '{"output":""}', 1795395449052091);
INSERT INTO public.event VALUES ('run_01m82ygw5jekbrpq5yvkerrh9b', 11, 'status', '{"status":"succeeded"}', 1795395449052091);
INSERT INTO public.event VALUES ('run_01m82ygw70fy7vp6e5yw79nbxa', 1, 'status', '{"status":"queued"}', 1795395449056697);
INSERT INTO public.event VALUES ('run_01m82ygw70fy7vp6e5yw79nbxa', 2, 'status', '{"status":"starting"}', 1795395449063848);
INSERT INTO public.event VALUES ('run_01m82ygw70fy7vp6e5yw79nbxa', 3, 'status', '{"status":"running"}', 1795395449065423);
INSERT INTO public.event VALUES ('run_01m82ygw70fy7vp6e5yw79nbxa', 4, 'worker_started', '{"runtime":"namespaces","mode":"self-hosted","shell":true}', 1795395449065426);
INSERT INTO public.event VALUES ('run_01m82ygw70fy7vp6e5yw79nbxa', 5, 'model_call', '{"model":"runbook","step":1,"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"cost_micros":0,"duration_ms":0,"stop_reason":"end_turn"}', 1795395449065648);
INSERT INTO public.event VALUES ('run_01m82ygw70fy7vp6e5yw79nbxa', 6, 'message', '{"text":"called","step":1}', 1795395449065660);
INSERT INTO public.event VALUES ('run_01m82ygw70fy7vp6e5yw79nbxa', 7, 'result', '{"output":"called"}', 1795395449067677);
INSERT INTO public.event VALUES ('run_01m82ygw70fy7vp6e5yw79nbxa', 8, 'status', '{"status":"succeeded"}', 1795395449067677);
INSERT INTO public.event VALUES ('run_01m82ygw7jecg86s2zkn4nxm45', 1, 'status', '{"status":"queued"}', 1795395449074780);
INSERT INTO public.event VALUES ('run_01m82ygw7jecg86s2zkn4nxm45', 2, 'status', '{"status":"starting"}', 1795395449075795);
INSERT INTO public.event VALUES ('run_01m82ygw7jecg86s2zkn4nxm45', 3, 'status', '{"status":"running"}', 1795395449083806);
INSERT INTO public.event VALUES ('run_01m82ygw7jecg86s2zkn4nxm45', 4, 'worker_started', '{"runtime":"namespaces","mode":"self-hosted","shell":true}', 1795395449083811);
INSERT INTO public.event VALUES ('run_01m82ygw7jecg86s2zkn4nxm45', 5, 'model_call', '{"model":"runbook","step":1,"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"cost_micros":0,"duration_ms":0,"stop_reason":"tool_use"}', 1795395449083964);
INSERT INTO public.event VALUES ('run_01m82ygw7jecg86s2zkn4nxm45', 6, 'tool_start', '{"tool":"shell","id":"block_1","arguments":{"command":"cat data.txt"}}', 1795395449084009);
INSERT INTO public.event VALUES ('run_01m82ygw7jecg86s2zkn4nxm45', 7, 'tool_end', '{"tool":"shell","id":"block_1","is_error":false,"output":"[the command exited with status 0]\n[stdout]\nthe data\n","output_bytes":53,"duration_ms":20}', 1795395449104066);
INSERT INTO public.event VALUES ('run_01m82ygw7jecg86s2zkn4nxm45', 8, 'model_call', '{"model":"runbook","step":2,"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"cost_micros":0,"duration_ms":0,"stop_reason":"end_turn"}', 1795395449104155);
INSERT INTO public.event VALUES ('run_01m82ygw7jecg86s2zkn4nxm45', 9, 'message', '{"text":"the data\n","step":2}', 1795395449104162);
INSERT INTO public.event VALUES ('run_01m82ygw7jecg86s2zkn4nxm45', 10, 'result', '{"output":"the data\n"}', 1795395449105175);
INSERT INTO public.event VALUES ('run_01m82ygw7jecg86s2zkn4nxm45', 11, 'status', '{"status":"succeeded"}', 1795395449105175);
INSERT INTO public.event VALUES ('run_01m82ygw8nekttvrh5wmcnk3ee', 1, 'status', '{"status":"queued"}', 1795395449109073);
INSERT INTO public.event VALUES ('run_01m82ygw8nekttvrh5wmcnk3ee', 2, 'status', '{"status":"starting"}', 1795395449109931);
INSERT INTO public.event VALUES ('run_01m82ygw8nekttvrh5wmcnk3ee', 3, 'status', '{"status":"cancelled"}', 1795395449110220);
INSERT INTO public.event VALUES ('run_01m82ygw97fmdagxw1gqv3n7va', 1, 'status', '{"status":"queued"}', 1795395449127797);
INSERT INTO public.event VALUES ('run_01m82ygw97fmdagxw1gqv3n7va', 2, 'status', '{"status":"starting"}', 1795395449126244);
INSERT INTO public.event VALUES ('run_01m82ygw97fmdagxw1gqv3n7va', 3, 'status', '{"status":"running"}', 1795395449131041);
INSERT INTO public.event VALUES ('run_01m82ygw97fmdagxw1gqv3n7va', 4, 'worker_started', '{"runtime":"namespaces","mode":"self-hosted","shell":true}', 1795395449131043);
INSERT INTO public.event VALUES ('run_01m82yhte4fk590jgbp08spt7p', 1, 'status', '{"status":"queued"}', 1795395480004252);
INSERT INTO public.event VALUES ('run_01m82ygw97fmdagxw1gqv3n7va', 5, 'model_call', '{"model":"runbook","step":1,"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"cost_micros":0,"duration_ms":0,"stop_reason":"end_turn"}', 1795395449131276);
INSERT INTO public.event VALUES ('run_01m82ygw97fmdagxw1gqv3n7va', 6, 'message', '{"text":"once","step":1}', 1795395449131288);
INSERT INTO public.event VALUES ('run_01m82ygw97fmdagxw1gqv3n7va', 7, 'result', '{"output":"once"}', 1795395449131639);
INSERT INTO public.event VALUES ('run_01m82ygw97fmdagxw1gqv3n7va', 8, 'status', '{"status":"succeeded"}', 1795395449131639);
INSERT INTO public.event VALUES ('run_01m82yhte4fk590jgbp08spt7p', 7, 'tool_end', '{"tool":"shell","id":"block_1","is_error":false,"output":"[the command exited with status 0]\n[stdout]\nthe data\n","output_bytes":53,"duration_ms":43}', 1795395480056379);
INSERT INTO public.event VALUES ('run_01m82yhte4fk590jgbp08spt7p', 8, 'model_call', '{"model":"runbook","step":2,"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"cost_micros":0,"duration_ms":0,"stop_reason":"end_turn"}', 1795395480056469);
INSERT INTO public.event VALUES ('run_01m82yhte4fk590jgbp08spt7p', 9, 'message', '{"text":"the data\n","step":2}', 1795395480056478);
INSERT INTO public.event VALUES ('run_01m82yhte4fk590jgbp08spt7p', 10, 'result', '{"output":"the data\n"}', 1795395480057543);
INSERT INTO public.event VALUES ('run_01m82yhte4fk590jgbp08spt7p', 11, 'status', '{"status":"succeeded"}', 1795395480057543);
INSERT INTO public.event VALUES ('run_01m82yhtwceccb59rrt000hzn3', 1, 'status', '{"status":"queued"}', 1795395480460870);
INSERT INTO public.event VALUES ('run_01m82yhtwjenxbcjzjhz2fdyqz', 1, 'status', '{"status":"queued"}', 1795395480466744);
INSERT INTO public.event VALUES ('run_01m82yhte4fk590jgbp08spt7p', 2, 'status', '{"status":"starting"}', 1795395480009915);
INSERT INTO public.event VALUES ('run_01m82yhte4fk590jgbp08spt7p', 3, 'status', '{"status":"running"}', 1795395480012164);
INSERT INTO public.event VALUES ('run_01m82yhte4fk590jgbp08spt7p', 4, 'worker_started', '{"runtime":"namespaces","mode":"self-hosted","shell":true}', 1795395480012168);
INSERT INTO public.event VALUES ('run_01m82yhtwceccb59rrt000hzn3', 2, 'status', '{"status":"starting"}', 1795395480462657);
INSERT INTO public.event VALUES ('run_01m82yhte4fk590jgbp08spt7p', 5, 'model_call', '{"model":"runbook","step":1,"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"cost_micros":0,"duration_ms":0,"stop_reason":"tool_use"}', 1795395480012335);
INSERT INTO public.event VALUES ('run_01m82yhte4fk590jgbp08spt7p', 6, 'tool_start', '{"tool":"shell","id":"block_1","arguments":{"command":"cat data.txt"}}', 1795395480012377);
INSERT INTO public.event VALUES ('run_01m82yhtwceccb59rrt000hzn3', 3, 'status', '{"status":"running"}', 1795395480465187);
INSERT INTO public.event VALUES ('run_01m82yhtwceccb59rrt000hzn3', 4, 'worker_started', '{"runtime":"namespaces","mode":"self-hosted","shell":true}', 1795395480465191);
INSERT INTO public.file VALUES ('file_01m82ygw27ff4bb31hd5mvcg2t', 'org_01m82ygw1ae1nt1nymt9bavba2', 'data.txt', 'blob_01m82ygw22e4jrbpygdhsjsz8e', 9, '\xf7712751e993b9972137e8ded3207d99d8747e041999182851225714ee0070e2', 'text/plain', 1795395448903502);
INSERT INTO public.fire VALUES ('sched_01m82ygw9hebsr631npk2qr302', 1795395480000000, '', 1795395480000000, 1, 'started', NULL, 'run_01m82yhte4fk590jgbp08spt7p', 1795395480002160);
INSERT INTO public.migration VALUES (1, 'runs', '74e444b15cb28521b536d713f9b8309c6e30583856e7128b0736c681bc7a0b15');
INSERT INTO public.migration VALUES (2, 'journal', '618d35513d8588bfd3b351f0f67ddf28814ee7d5654fc3963d755872802e036d');
INSERT INTO public.migration VALUES (3, 'connections', 'aab0af613922d451d7c03a1c3dc5be789bb804f66ad685e3cd8b222bb9a1be92');
INSERT INTO public.migration VALUES (4, 'run_details', 'c69d8f765069d039526367fa6d97127d3518776f91a863ce7d5e396687e15d0a');
INSERT INTO public.migration VALUES (5, 'workflows', 'd1d2e8aaa20a09aad6ad3da65b0597e29d3c94aaf1ed5706ca0b7145225127d5');
INSERT INTO public.migration VALUES (6, 'schedules', 'e4bd0b077787c3664c856b2b2abbaac16d46b5640b846f821b8c686771172685');
INSERT INTO public.migration VALUES (7, 'files', '24a4b4824501248f1b2332a26e1524b1917f66379da7f8884472d37f3bab3c1a');
INSERT INTO public.migration VALUES (8, 'artifacts', '9a239a6fa65a32e108d95fdae830b5b4d71995be9fc08872021623ceef10bba9');
INSERT INTO public.migration VALUES (9, 'callbacks', '50755556b2bcce3f8ad126364d55cdca91eacc13cf06e3fcc75f8841a41ddac2');
INSERT INTO public.migration VALUES (10, 'zero_data_retention', 'c188dd8bded0e1eb166514767a303e96e7bf1646cbd22ba9b621fab15141886f');
INSERT INTO public.migration VALUES (11, 'administration', 'f5064a65e40ec1eeda93b4881ac30cfd6719bfc9d2f6966c7a40b86a780b5190');
INSERT INTO public.migration VALUES (12, 'budgets', '5fdca2ef3bef9db40d14f012594fa12dbf886235be994519265fa75dc810b58a');
INSERT INTO public.migration VALUES (13, 'rate_limits', '7d04131dfd2fb088dfc9a3fc971a3f962d57f42542c778d3255cbb2611a6fd01');
INSERT INTO public.migration VALUES (14, 'trace_context', '27a37e789dffde7fc6c2bb851b4ade3adb73c03a5f3117bf2df26620a330de8d');
INSERT INTO public.migration VALUES (15, 'cluster', '1ebc4c878ef47c8ed7ff2eeea3f14febd5da83b644952d35dd65a9f00d9a3335');
INSERT INTO public.migration VALUES (16, 'master_keys', '8c2f777ba8c3bc2ac9b1a5c91bac8722d84fac2953e83840b0f4119929abc8bd');
INSERT INTO public.migration VALUES (17, 'clocks', 'a3831397a973f804b2a4578896cbad2b427336b317ace9598f58f1934618aa77');
INSERT INTO public.migration VALUES (18, 'confirmed_authorizations', 'f3c248d911a2e1081b6b9f1b03d65bed96137c7c59fb9b1179db38ece4a92093');
INSERT INTO public.node VALUES (620615172197569522, 'node-6f2f224b15787474', 1795395448838974, 1795395488903373, NULL, 'http://127.0.0.1:38817', '0.1.0', NULL, 'e0a0e56296804bab,addressed');
INSERT INTO public.organization VALUES ('org_01m82ygw1ae1nt1nymt9bavba2', 'default', 1795395448874509, 0);
INSERT INTO public.queue VALUES ('run_01m82yhtwceccb59rrt000hzn3', 'org_01m82ygw1ae1nt1nymt9bavba2', 1795395480460870, 620615172197569522, NULL);
INSERT INTO public.queue VALUES ('run_01m82yhtwjenxbcjzjhz2fdyqz', 'org_01m82ygw1ae1nt1nymt9bavba2', 1795395480466744, NULL, NULL);
INSERT INTO public.rate_lease VALUES (29923257, 'key_01m82ygw1aef29rdpdksmxf2z8', 156250, 156250);
INSERT INTO public.rate_lease VALUES (29923257, '127.0.0.1', 3, 1);
INSERT INTO public.rate_lease VALUES (29923257, 'key_01m82ygw1xe45bh2m3r9pkev68', 156250, 156250);
INSERT INTO public.rate_lease VALUES (29923258, 'key_01m82ygw1aef29rdpdksmxf2z8', 156250, 156250);
INSERT INTO public.rate_lease VALUES (29923258, 'key_01m82ygw1ye649r86jv5t1tgwy', 156250, 156250);
INSERT INTO public.run VALUES ('run_01m82ygw3eewdspc8e6vdtb0ha', 'org_01m82ygw1ae1nt1nymt9bavba2', 'succeeded', 'succeeded', 1, 8, 1795395448942406, 1795395448945901, 1795395448962501, 1000000, 17, 0, 300, NULL, NULL, NULL, 0, NULL, 'runbook', 'key_01m82ygw1xe45bh2m3r9pkev68', '["upgrade","x"]', 0, 0, 0, 0, 0, 1, 0, 0, NULL, 0, 0, NULL, 1, NULL, NULL, 1795395448960171, NULL);
INSERT INTO public.run VALUES ('run_01m82ygw48fqbacv43e05ntpet', 'org_01m82ygw1ae1nt1nymt9bavba2', 'failed', 'failed', 1, 8, 1795395448968110, 1795395448967323, 1795395449007331, 1000000, 41, 0, 300, NULL, NULL, 'block 1 exited with status 3: oh', 0, NULL, 'runbook', 'key_01m82ygw1xe45bh2m3r9pkev68', NULL, 0, 0, 0, 0, 0, 1, 1, 0, NULL, 0, 0, NULL, 1, NULL, NULL, 1795395448973319, NULL);
INSERT INTO public.run VALUES ('run_01m82ygw5jekbrpq5yvkerrh9b', 'org_01m82ygw1ae1nt1nymt9bavba2', 'succeeded', 'succeeded', 1, 11, 1795395449010095, 1795395449011849, 1795395449052091, 1000000, 41, 0, 300, NULL, NULL, NULL, 0, NULL, 'runbook', 'key_01m82ygw1xe45bh2m3r9pkev68', NULL, 0, 0, 0, 0, 0, 2, 1, 1, NULL, 0, 0, NULL, 1, NULL, NULL, 1795395449012608, NULL);
INSERT INTO public.run VALUES ('run_01m82ygw70fy7vp6e5yw79nbxa', 'org_01m82ygw1ae1nt1nymt9bavba2', 'succeeded', 'succeeded', 1, 8, 1795395449056697, 1795395449063848, 1795395449067677, 1000000, 4, 0, 300, NULL, NULL, NULL, 0, NULL, 'runbook', 'key_01m82ygw1xe45bh2m3r9pkev68', NULL, 0, 0, 0, 0, 0, 1, 0, 0, '127.0.16.2:21602', 0, 0, NULL, 1, NULL, NULL, 1795395449064925, NULL);
INSERT INTO public.run VALUES ('run_01m82ygw91edt8nftyzmj07kwk', 'org_01m82ygw1ae1nt1nymt9bavba2', 'succeeded', 'succeeded', 1, 8, 1795395449121584, 1795395449122676, 1795395449125724, 1000000, 4, 0, 300, NULL, NULL, NULL, 0, NULL, 'runbook', 'key_01m82ygw1xe45bh2m3r9pkev68', NULL, 1, 0, 0, 0, 0, 1, 0, 0, NULL, 0, 0, NULL, 1, NULL, NULL, 1795395449124887, NULL);
INSERT INTO public.run VALUES ('run_01m82yhtwceccb59rrt000hzn3', 'org_01m82ygw1ae1nt1nymt9bavba2', 'running', NULL, 1, 4, 1795395480460870, 1795395480462657, NULL, 1000000, 0, 1, 30, NULL, NULL, NULL, 0, NULL, 'runbook', 'key_01m82ygw1ye649r86jv5t1tgwy', NULL, 0, 0, 0, 0, 0, 0, 0, 0, NULL, 0, 0, NULL, 1, NULL, NULL, 1795395480464724, NULL);
INSERT INTO public.run VALUES ('run_01m82yhtwjenxbcjzjhz2fdyqz', 'org_01m82ygw1ae1nt1nymt9bavba2', 'queued', NULL, 0, 1, 1795395480466744, NULL, NULL, 1000000, 0, 1, 300, NULL, NULL, NULL, 0, NULL, 'runbook', 'key_01m82ygw1ye649r86jv5t1tgwy', NULL, 0, 0, 0, 0, 0, 0, 0, 0, '127.0.16.2:21602', 0, 0, NULL, 1, NULL, NULL, NULL, NULL);
INSERT INTO public.run VALUES ('run_01m82ygw7jecg86s2zkn4nxm45', 'org_01m82ygw1ae1nt1nymt9bavba2', 'succeeded', 'succeeded', 1, 11, 1795395449074780, 1795395449075795, 1795395449105175, 1000000, 30, 0, 300, NULL, NULL, NULL, 0, 'report', 'runbook', 'key_01m82ygw1xe45bh2m3r9pkev68', NULL, 0, 0, 0, 0, 0, 2, 1, 0, NULL, 0, 0, NULL, 1, NULL, NULL, 1795395449077267, NULL);
INSERT INTO public.run VALUES ('run_01m82ygw8nekttvrh5wmcnk3ee', 'org_01m82ygw1ae1nt1nymt9bavba2', 'cancelled', 'cancelled', 1, 3, 1795395449109073, 1795395449109931, 1795395449110220, 1000000, 5, 0, 900, NULL, NULL, NULL, 0, NULL, 'runbook', 'key_01m82ygw1xe45bh2m3r9pkev68', NULL, 0, 0, 0, 0, 0, 0, 0, 0, NULL, 0, 0, NULL, 1, NULL, NULL, 1795395449111387, 1795395449111957);
INSERT INTO public.run VALUES ('run_01m82ygw97fmdagxw1gqv3n7va', 'org_01m82ygw1ae1nt1nymt9bavba2', 'succeeded', 'succeeded', 1, 8, 1795395449127797, 1795395449126244, 1795395449131639, 1000000, 6, 0, 300, 'once', NULL, NULL, 0, NULL, 'runbook', 'key_01m82ygw1xe45bh2m3r9pkev68', NULL, 0, 0, 0, 0, 0, 1, 0, 0, NULL, 0, 0, NULL, 1, NULL, NULL, 1795395449130572, NULL);
INSERT INTO public.run VALUES ('run_01m82yhte4fk590jgbp08spt7p', 'org_01m82ygw1ae1nt1nymt9bavba2', 'succeeded', 'succeeded', 1, 11, 1795395480004252, 1795395480009915, 1795395480057543, 1000000, 48, 0, 300, NULL, 'sched_01m82ygw9hebsr631npk2qr302', NULL, 0, 'report', 'runbook', NULL, NULL, 0, 0, 0, 0, 0, 2, 1, 0, NULL, 0, 0, NULL, 1, NULL, NULL, 1795395480010698, NULL);
INSERT INTO public.run_artifacts VALUES ('run_01m82ygw5jekbrpq5yvkerrh9b', '[{"path":"report.md","size":10,"sha256":"14e4cce86788499d03144f70ab24ca83d1abe97d55153c71ee1df55c5296c1f9","content_type":"text/markdown","blob":"blob_01m82ygw6kfhjs4j48shzmm3gc"}]');
INSERT INTO public.run_definition VALUES ('run_01m82ygw3eewdspc8e6vdtb0ha', '{"prompt":"hello","input":{"a":[1,null]},"model":"runbook","timeout_seconds":300,"shell":true,"max_cost_micros":1000000,"tags":["upgrade","x"]}', NULL);
INSERT INTO public.run_definition VALUES ('run_01m82ygw48fqbacv43e05ntpet', '{"prompt":"```sh\necho oh >&2; exit 3\n```\n","model":"runbook","timeout_seconds":300,"shell":true,"max_cost_micros":1000000}', NULL);
INSERT INTO public.run_definition VALUES ('run_01m82ygw5jekbrpq5yvkerrh9b', '{"prompt":"```sh\nmkdir outputs && printf ''the report'' > outputs/report.md\n```\n","model":"runbook","timeout_seconds":300,"shell":true,"max_cost_micros":1000000}', NULL);
INSERT INTO public.run_definition VALUES ('run_01m82ygw70fy7vp6e5yw79nbxa', '{"prompt":"called","model":"runbook","timeout_seconds":300,"shell":true,"max_cost_micros":1000000}', NULL);
INSERT INTO public.run_definition VALUES ('run_01m82ygw7jecg86s2zkn4nxm45', '{"prompt":"```sh\ncat data.txt\n```\n","model":"runbook","files":[{"path":"data.txt","file":"file_01m82ygw27ff4bb31hd5mvcg2t"}],"timeout_seconds":300,"shell":true,"max_cost_micros":1000000}', NULL);
INSERT INTO public.run_definition VALUES ('run_01m82ygw8nekttvrh5wmcnk3ee', '{"prompt":"```wait 600000\n```\n","model":"runbook","timeout_seconds":900,"shell":true,"max_cost_micros":1000000}', NULL);
INSERT INTO public.run_definition VALUES ('run_01m82ygw97fmdagxw1gqv3n7va', '{"prompt":"once","model":"runbook","timeout_seconds":300,"shell":true,"max_cost_micros":1000000}', NULL);
INSERT INTO public.run_definition VALUES ('run_01m82yhte4fk590jgbp08spt7p', '{"prompt":"```sh\ncat data.txt\n```\n","model":"runbook","files":[{"path":"data.txt","file":"file_01m82ygw27ff4bb31hd5mvcg2t"}],"timeout_seconds":300,"shell":true,"max_cost_micros":1000000}', NULL);
INSERT INTO public.run_definition VALUES ('run_01m82yhtwceccb59rrt000hzn3', '{"prompt":"```wait 600000\n```\n","model":"runbook","timeout_seconds":30,"shell":true,"max_cost_micros":1000000}', NULL);
INSERT INTO public.run_definition VALUES ('run_01m82yhtwjenxbcjzjhz2fdyqz', '{"prompt":"```tool inline__request\n{\"method\":\"GET\"}\n```\n","model":"runbook","connections":{"inline":{"type":"http","url":"http://127.0.16.2:21601/echo","headers":{"X-Key":""}}},"timeout_seconds":300,"shell":false,"max_cost_micros":1000000}', '["inline"]');
INSERT INTO public.run_output VALUES ('run_01m82ygw3eewdspc8e6vdtb0ha', 'hello');
INSERT INTO public.run_output VALUES ('run_01m82ygw5jekbrpq5yvkerrh9b', '');
INSERT INTO public.run_output VALUES ('run_01m82ygw70fy7vp6e5yw79nbxa', 'called');
INSERT INTO public.run_output VALUES ('run_01m82ygw7jecg86s2zkn4nxm45', 'the data
');
INSERT INTO public.run_output VALUES ('run_01m82ygw97fmdagxw1gqv3n7va', 'once');
INSERT INTO public.run_output VALUES ('run_01m82yhte4fk590jgbp08spt7p', 'the data
');
INSERT INTO public.run_secret VALUES ('run_01m82yhtwjenxbcjzjhz2fdyqz', '\x01e0a0e56296804babec331c0d323aaaba62c417566fad79a6e65e7e4ab83a1101fef1d2fa25d228fd1fa6a59cb5962e4827ae627290deb6a2b1d52a82f2e4e010e5ba68ec12a613919ee8edd05401a2a772860ff6232d1ecc53fd068d7f8a227b9adc64354c593043ca3861d4474e3c46334ef9edb45bf682c5f756e965b26d542c927f7ea6bae7a009fd37f25f55c37cf20499470809e3674dbf281f1b014e5f36c730a87267b4b7f1c4d5e89a725de3a9c0ee36953d42b2b112f17fc957');
INSERT INTO public.run_tag VALUES ('org_01m82ygw1ae1nt1nymt9bavba2', 'upgrade', 1795395448942406, 'run_01m82ygw3eewdspc8e6vdtb0ha');
INSERT INTO public.run_tag VALUES ('org_01m82ygw1ae1nt1nymt9bavba2', 'x', 1795395448942406, 'run_01m82ygw3eewdspc8e6vdtb0ha');
INSERT INTO public.schedule VALUES ('sched_01m82ygw9defftg16n6wawf1nn', 'org_01m82ygw1ae1nt1nymt9bavba2', 'rest', 'report', '30 7 * * MON-FRI', 'Europe/Berlin', NULL, 0, 'allow', 3600, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1795395449133572, NULL, 1795395449133572, NULL, NULL, NULL, 1, 1795395449133572, 1795395449133572);
INSERT INTO public.schedule VALUES ('sched_01m82ygw9hebsr631npk2qr302', 'org_01m82ygw1ae1nt1nymt9bavba2', 'each minute', 'report', '* * * * *', 'UTC', NULL, 1, 'allow', 3600, 0, NULL, NULL, NULL, NULL, NULL, 1795395540000000, 1795395540000000, 1795395480000000, NULL, 1795395449137019, 1795395480004252, 'run_01m82yhte4fk590jgbp08spt7p', NULL, 2, 1795395449137019, 1795395449137019);
INSERT INTO public.seal_check VALUES (1, '\x01e0a0e56296804bab881b848286ebc6aa1d2f94967e5204d4aca24e6ea66061b4baf4d6d1a05d824b161d302174a11ae48c8857c8f9c7003e3036e0be76df598f');
INSERT INTO public.unretained VALUES ('run_01m82ygw91edt8nftyzmj07kwk', 620615172197569522);
INSERT INTO public.workflow VALUES ('org_01m82ygw1ae1nt1nymt9bavba2', 'report', 1, 1795395448912407, 1795395448912407, '{"name":"report"}', '{"prompt":"```sh\ncat data.txt\n```\n","files":[{"path":"data.txt","file":"data.txt"}]}');
ALTER TABLE ONLY public.api_key
    ADD CONSTRAINT api_key_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.artifact_blob
    ADD CONSTRAINT artifact_blob_pkey PRIMARY KEY (run_id, blob_id);
ALTER TABLE ONLY public.audit
    ADD CONSTRAINT audit_pkey PRIMARY KEY (org_id, at, id);
ALTER TABLE ONLY public.blob
    ADD CONSTRAINT blob_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.budget_hold
    ADD CONSTRAINT budget_hold_pkey PRIMARY KEY (run_id, scope);
ALTER TABLE ONLY public.budget
    ADD CONSTRAINT budget_pkey PRIMARY KEY (org_id, scope);
ALTER TABLE ONLY public.budget_window
    ADD CONSTRAINT budget_window_pkey PRIMARY KEY (org_id, scope, since, starts_at);
ALTER TABLE ONLY public.connection
    ADD CONSTRAINT connection_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.delivery_attempt
    ADD CONSTRAINT delivery_attempt_pkey PRIMARY KEY (run_id, attempt);
ALTER TABLE ONLY public.delivery
    ADD CONSTRAINT delivery_pkey PRIMARY KEY (run_id);
ALTER TABLE ONLY public.dispatch
    ADD CONSTRAINT dispatch_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.event
    ADD CONSTRAINT event_pkey PRIMARY KEY (run_id, seq);
ALTER TABLE ONLY public.file
    ADD CONSTRAINT file_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.fire
    ADD CONSTRAINT fire_pkey PRIMARY KEY (schedule_id, instant, occasion);
ALTER TABLE ONLY public.journal
    ADD CONSTRAINT journal_pkey PRIMARY KEY (run_id, seq);
ALTER TABLE ONLY public.migration
    ADD CONSTRAINT migration_pkey PRIMARY KEY (version);
ALTER TABLE ONLY public.node
    ADD CONSTRAINT node_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.oauth_flow
    ADD CONSTRAINT oauth_flow_pkey PRIMARY KEY (state_hash);
ALTER TABLE ONLY public.organization
    ADD CONSTRAINT organization_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.queue
    ADD CONSTRAINT queue_pkey PRIMARY KEY (run_id);
ALTER TABLE ONLY public.rate_lease
    ADD CONSTRAINT rate_lease_pkey PRIMARY KEY (minute, subject);
ALTER TABLE ONLY public.replaced_run
    ADD CONSTRAINT replaced_run_pkey PRIMARY KEY (run_id);
ALTER TABLE ONLY public.run_artifacts
    ADD CONSTRAINT run_artifacts_pkey PRIMARY KEY (run_id);
ALTER TABLE ONLY public.run_definition
    ADD CONSTRAINT run_definition_pkey PRIMARY KEY (run_id);
ALTER TABLE ONLY public.run_output
    ADD CONSTRAINT run_output_pkey PRIMARY KEY (run_id);
ALTER TABLE ONLY public.run
    ADD CONSTRAINT run_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.run_secret
    ADD CONSTRAINT run_secret_pkey PRIMARY KEY (run_id);
ALTER TABLE ONLY public.run_tag
    ADD CONSTRAINT run_tag_pkey PRIMARY KEY (org_id, tag, created_at, run_id);
ALTER TABLE ONLY public.schedule
    ADD CONSTRAINT schedule_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.seal_check
    ADD CONSTRAINT seal_check_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.unretained
    ADD CONSTRAINT unretained_pkey PRIMARY KEY (run_id);
ALTER TABLE ONLY public.usage_day
    ADD CONSTRAINT usage_day_pkey PRIMARY KEY (org_id, day, workflow, model, key_id);
ALTER TABLE ONLY public.workflow
    ADD CONSTRAINT workflow_pkey PRIMARY KEY (org_id, name);
CREATE UNIQUE INDEX api_key_hash ON public.api_key USING btree (hash);
CREATE INDEX api_key_list ON public.api_key USING btree (org_id, created_at, id);
CREATE UNIQUE INDEX api_key_previous_hash ON public.api_key USING btree (previous_hash) WHERE (previous_hash IS NOT NULL);
CREATE INDEX artifact_blob_of ON public.artifact_blob USING btree (blob_id);
CREATE INDEX audit_action ON public.audit USING btree (org_id, action, at, id);
CREATE INDEX audit_key ON public.audit USING btree (org_id, key_id, at, id) WHERE (key_id IS NOT NULL);
CREATE INDEX audit_target ON public.audit USING btree (org_id, target, at, id);
CREATE INDEX blob_check ON public.blob USING btree (check_at, id) WHERE (check_at IS NOT NULL);
CREATE UNIQUE INDEX blob_content ON public.blob USING btree (org_id, sha256) WHERE (doomed_at IS NULL);
CREATE INDEX blob_doomed ON public.blob USING btree (doomed_at, id) WHERE (doomed_at IS NOT NULL);
CREATE UNIQUE INDEX connection_name ON public.connection USING btree (org_id, name);
CREATE INDEX delivery_due ON public.delivery USING btree (host, due_at, run_id) WHERE (due_at >= 0);
CREATE INDEX delivery_node ON public.delivery USING btree (node) WHERE (node IS NOT NULL);
CREATE INDEX file_blob ON public.file USING btree (blob_id);
CREATE INDEX file_list ON public.file USING btree (org_id, created_at, id) WHERE (created_at >= 0);
CREATE UNIQUE INDEX file_name ON public.file USING btree (org_id, name);
CREATE INDEX oauth_flow_connection ON public.oauth_flow USING btree (connection_id);
CREATE INDEX oauth_flow_expires ON public.oauth_flow USING btree (expires_at);
CREATE INDEX queue_claimed ON public.queue USING btree (org_id, enqueued_at, run_id) WHERE (node_id IS NOT NULL);
CREATE INDEX queue_node ON public.queue USING btree (node_id, run_id) WHERE (node_id IS NOT NULL);
CREATE INDEX queue_stopping ON public.queue USING btree (node_id, run_id) WHERE (stopping IS NOT NULL);
CREATE INDEX queue_waiting ON public.queue USING btree (org_id, enqueued_at, run_id) WHERE (node_id IS NULL);
CREATE UNIQUE INDEX run_idempotency ON public.run USING btree (org_id, idempotency_key) WHERE (idempotency_key IS NOT NULL);
CREATE INDEX run_list ON public.run USING btree (org_id, created_at, id) WHERE (created_at >= 0);
CREATE INDEX run_outcome ON public.run USING btree (org_id, outcome, created_at, id) WHERE (created_at >= 0);
CREATE INDEX run_schedule ON public.run USING btree (schedule_id, created_at, id) WHERE (schedule_id IS NOT NULL);
CREATE INDEX run_schedule_outcome ON public.run USING btree (schedule_id, outcome, created_at, id) WHERE (schedule_id IS NOT NULL);
CREATE INDEX schedule_due ON public.schedule USING btree (due_at, id) WHERE (due_at IS NOT NULL);
CREATE INDEX schedule_list ON public.schedule USING btree (org_id, created_at, id) WHERE (created_at >= 0);
CREATE INDEX schedule_waiting ON public.schedule USING btree (waiting_instant, id) WHERE (waiting_instant IS NOT NULL);
CREATE INDEX schedule_workflow ON public.schedule USING btree (org_id, workflow);
CREATE INDEX unretained_node ON public.unretained USING btree (node_id, run_id);
ALTER TABLE ONLY public.api_key
    ADD CONSTRAINT api_key_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.organization(id);
ALTER TABLE ONLY public.blob
    ADD CONSTRAINT blob_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.organization(id);
ALTER TABLE ONLY public.connection
    ADD CONSTRAINT connection_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.organization(id);
ALTER TABLE ONLY public.file
    ADD CONSTRAINT file_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.organization(id);
ALTER TABLE ONLY public.run
    ADD CONSTRAINT run_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.organization(id);
ALTER TABLE ONLY public.workflow
    ADD CONSTRAINT workflow_org_id_fkey FOREIGN KEY (org_id) REFERENCES public.organization(id);
