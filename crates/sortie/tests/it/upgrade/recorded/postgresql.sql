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
INSERT INTO public.api_key VALUES ('key_01m82vw74mfj0tmcbx2h05p96q', 'org_01m82vw74mfc58y9dksz6g7s6f', 'first admin key', 'admin', '\xf1caa2e5fc53e90fc9cb97fd4d86f3ca98997ac760b136c47d137f6e6b9ef3dd', 1795392674964607, NULL, NULL, NULL);
INSERT INTO public.api_key VALUES ('key_01m82vw75mfv58pb1w4sw9jmzw', 'org_01m82vw74mfc58y9dksz6g7s6f', 'member', 'member', '\x88ba4ff8d4974d5ff920c57b19d26c3b0d7b0f08438864e68f191729e1c26800', 1795392674996298, NULL, NULL, NULL);
INSERT INTO public.api_key VALUES ('key_01m82vw75pfejsm5n371j8rx8g', 'org_01m82vw74mfc58y9dksz6g7s6f', 'late', 'member', '\x6e822fbcc66338e333158f1f64cbe5009b30510b82991c1d92c24e0a38707cab', 1795392674998722, NULL, NULL, NULL);
INSERT INTO public.api_key VALUES ('key_01m82vw75qfbvb6gnadtqnd916', 'org_01m82vw74mfc58y9dksz6g7s6f', 'expired', 'member', '\x0df515b0a9b930312ad3c633bd234649515f9939e55c7c9aa0ba7070146b6607', 1795392674999884, 1795392694999000, NULL, NULL);
INSERT INTO public.api_key VALUES ('key_01m82vw761esm92cw5xfwc3vkd', 'org_01m82vw74mfc58y9dksz6g7s6f', 'rotated', 'admin', '\xff6cd0aba9bb5733c6f3c695ff9a098585cf0d379c23166672a4e31305e8b5f8', 1795392675009822, NULL, '\x86e8f8ebf794fcb2edc9ceb8cada29ff0d373582d82d2ab4986a04eb43af858f', 1795392676013569);
INSERT INTO public.artifact_blob VALUES ('run_01m82vw791fzvsdpgn50b9h1ar', 'blob_01m82vw79qegwbg25h3n3jrtew');
INSERT INTO public.audit VALUES ('org_01m82vw74mfc58y9dksz6g7s6f', 1795392674964609, 'aud_01m82vw74me9n887fr1xedv4kk', 'key.create', 'key_01m82vw74mfj0tmcbx2h05p96q', NULL, NULL, NULL);
INSERT INTO public.audit VALUES ('org_01m82vw74mfc58y9dksz6g7s6f', 1795392674996301, 'aud_01m82vw75mewhas58jqvph40qn', 'key.create', 'key_01m82vw75mfv58pb1w4sw9jmzw', 'key_01m82vw74mfj0tmcbx2h05p96q', '127.0.0.1', 'ad410fe0c04e4f0300000001');
INSERT INTO public.audit VALUES ('org_01m82vw74mfc58y9dksz6g7s6f', 1795392674998722, 'aud_01m82vw75pfgt92xek3jycw82k', 'key.create', 'key_01m82vw75pfejsm5n371j8rx8g', 'key_01m82vw74mfj0tmcbx2h05p96q', '127.0.0.1', 'ad410fe0c04e4f0300000002');
INSERT INTO public.audit VALUES ('org_01m82vw74mfc58y9dksz6g7s6f', 1795392674999885, 'aud_01m82vw75qf0mbvbrm2k37m0e7', 'key.create', 'key_01m82vw75qfbvb6gnadtqnd916', 'key_01m82vw74mfj0tmcbx2h05p96q', '127.0.0.1', 'ad410fe0c04e4f0300000003');
INSERT INTO public.audit VALUES ('org_01m82vw74mfc58y9dksz6g7s6f', 1795392675009823, 'aud_01m82vw761ffdt1tk8namp9bfw', 'key.create', 'key_01m82vw761esm92cw5xfwc3vkd', 'key_01m82vw74mfj0tmcbx2h05p96q', '127.0.0.1', 'ad410fe0c04e4f0300000004');
INSERT INTO public.audit VALUES ('org_01m82vw74mfc58y9dksz6g7s6f', 1795392675013569, 'aud_01m82vw765epptmvp9hdgthwe0', 'key.rotate', 'key_01m82vw761esm92cw5xfwc3vkd', 'key_01m82vw74mfj0tmcbx2h05p96q', '127.0.0.1', 'ad410fe0c04e4f0300000005');
INSERT INTO public.audit VALUES ('org_01m82vw74mfc58y9dksz6g7s6f', 1795392675019483, 'aud_01m82vw76becfbahzcnrthq6rq', 'file.create', 'file_01m82vw76bety9wffmh37e70zr', 'key_01m82vw74mfj0tmcbx2h05p96q', '127.0.0.1', 'ad410fe0c04e4f0300000006');
INSERT INTO public.audit VALUES ('org_01m82vw74mfc58y9dksz6g7s6f', 1795392675023473, 'aud_01m82vw76ffryvj675b0ba7fg0', 'workflow.put', 'report', 'key_01m82vw74mfj0tmcbx2h05p96q', '127.0.0.1', 'ad410fe0c04e4f0300000007');
INSERT INTO public.audit VALUES ('org_01m82vw74mfc58y9dksz6g7s6f', 1795392675026536, 'aud_01m82vw76jf5rvj89t5z0begyg', 'budget.put', 'organization', 'key_01m82vw74mfj0tmcbx2h05p96q', '127.0.0.1', 'ad410fe0c04e4f0300000008');
INSERT INTO public.audit VALUES ('org_01m82vw74mfc58y9dksz6g7s6f', 1795392675030617, 'aud_01m82vw76peycaqm9rzza04yzt', 'budget.put', 'key:key_01m82vw75mfv58pb1w4sw9jmzw', 'key_01m82vw74mfj0tmcbx2h05p96q', '127.0.0.1', 'ad410fe0c04e4f0300000009');
INSERT INTO public.audit VALUES ('org_01m82vw74mfc58y9dksz6g7s6f', 1795392675036385, 'aud_01m82vw76wee29a5apweb39vnp', 'budget.put', 'key:key_01m82vw75pfejsm5n371j8rx8g', 'key_01m82vw74mfj0tmcbx2h05p96q', '127.0.0.1', 'ad410fe0c04e4f030000000a');
INSERT INTO public.audit VALUES ('org_01m82vw74mfc58y9dksz6g7s6f', 1795392675039770, 'aud_01m82vw76zfayb52mqx2p50gee', 'connection.put', 'api', 'key_01m82vw74mfj0tmcbx2h05p96q', '127.0.0.1', 'ad410fe0c04e4f030000000b');
INSERT INTO public.audit VALUES ('org_01m82vw74mfc58y9dksz6g7s6f', 1795392675043873, 'aud_01m82vw773egyadb6wt5crw5sh', 'connection.put', 'crm', 'key_01m82vw74mfj0tmcbx2h05p96q', '127.0.0.1', 'ad410fe0c04e4f030000000c');
INSERT INTO public.audit VALUES ('org_01m82vw74mfc58y9dksz6g7s6f', 1795392675046527, 'aud_01m82vw776e15s1ekj09m72djx', 'connection.authorize', 'crm', 'key_01m82vw74mfj0tmcbx2h05p96q', '127.0.0.1', 'ad410fe0c04e4f030000000d');
INSERT INTO public.audit VALUES ('org_01m82vw74mfc58y9dksz6g7s6f', 1795392675051609, 'aud_01m82vw77bed3vtb8ytg223adh', 'connection.consented', 'crm', NULL, '127.0.0.1', 'ad410fe0c04e4f030000000e');
INSERT INTO public.audit VALUES ('org_01m82vw74mfc58y9dksz6g7s6f', 1795392675054132, 'aud_01m82vw77ef83twhxqzrs0k7fm', 'connection.authorized', 'crm', 'key_01m82vw74mfj0tmcbx2h05p96q', '127.0.0.1', 'ad410fe0c04e4f030000000f');
INSERT INTO public.audit VALUES ('org_01m82vw74mfc58y9dksz6g7s6f', 1795392680121630, 'aud_01m82vwc5sf8vr7fccp2vmbb0t', 'schedule.create', 'sched_01m82vwc5rf04b7pc514fh3wbq', 'key_01m82vw74mfj0tmcbx2h05p96q', '127.0.0.1', 'ad410fe0c04e4f0300000023');
INSERT INTO public.audit VALUES ('org_01m82vw74mfc58y9dksz6g7s6f', 1795392680124698, 'aud_01m82vwc5wfaystzgcq2s6ey6t', 'schedule.create', 'sched_01m82vwc5wf2ernfrax1scv1gk', 'key_01m82vw74mfj0tmcbx2h05p96q', '127.0.0.1', 'ad410fe0c04e4f0300000024');
INSERT INTO public.blob VALUES ('blob_01m82vw768e608egan26z24y7d', 'org_01m82vw74mfc58y9dksz6g7s6f', '\xf7712751e993b9972137e8ded3207d99d8747e041999182851225714ee0070e2', 9, 1795392675016320, 1795396275019481, NULL);
INSERT INTO public.blob VALUES ('blob_01m82vw79qegwbg25h3n3jrtew', 'org_01m82vw74mfc58y9dksz6g7s6f', '\x14e4cce86788499d03144f70ab24ca83d1abe97d55153c71ee1df55c5296c1f9', 10, 1795392675127370, 1795396275129737, NULL);
INSERT INTO public.budget VALUES ('org_01m82vw74mfc58y9dksz6g7s6f', 'organization', 500000000, 'month', 1795392675026536, 1795392675026536, 1795392675026536);
INSERT INTO public.budget VALUES ('org_01m82vw74mfc58y9dksz6g7s6f', 'key:key_01m82vw75mfv58pb1w4sw9jmzw', 500000000, 'month', 1795392675030617, 1795392675030617, 1795392675030617);
INSERT INTO public.budget VALUES ('org_01m82vw74mfc58y9dksz6g7s6f', 'key:key_01m82vw75pfejsm5n371j8rx8g', 500000000, 'month', 1795392675036385, 1795392675036385, 1795392675036385);
INSERT INTO public.budget_hold VALUES ('run_01m82vxk65e1nsd9xeppa2vqfc', 'org_01m82vw74mfc58y9dksz6g7s6f', 'key:key_01m82vw75pfejsm5n371j8rx8g', 1795392675036385, 1793491200000000, 1000000);
INSERT INTO public.budget_hold VALUES ('run_01m82vxk65e1nsd9xeppa2vqfc', 'org_01m82vw74mfc58y9dksz6g7s6f', 'organization', 1795392675026536, 1793491200000000, 1000000);
INSERT INTO public.budget_hold VALUES ('run_01m82vxk68f8j886p2bv7649dx', 'org_01m82vw74mfc58y9dksz6g7s6f', 'key:key_01m82vw75pfejsm5n371j8rx8g', 1795392675036385, 1793491200000000, 1000000);
INSERT INTO public.budget_hold VALUES ('run_01m82vxk68f8j886p2bv7649dx', 'org_01m82vw74mfc58y9dksz6g7s6f', 'organization', 1795392675026536, 1793491200000000, 1000000);
INSERT INTO public.budget_window VALUES ('org_01m82vw74mfc58y9dksz6g7s6f', 'key:key_01m82vw75mfv58pb1w4sw9jmzw', 1795392675030617, 1793491200000000, 0, 107);
INSERT INTO public.budget_window VALUES ('org_01m82vw74mfc58y9dksz6g7s6f', 'key:key_01m82vw75pfejsm5n371j8rx8g', 1795392675036385, 1793491200000000, 2000000, 0);
INSERT INTO public.budget_window VALUES ('org_01m82vw74mfc58y9dksz6g7s6f', 'organization', 1795392675026536, 1793491200000000, 2000000, 134);
INSERT INTO public.connection VALUES ('conn_01m82vw76ye6hrhr41yrbxvqfx', 'org_01m82vw74mfc58y9dksz6g7s6f', 'api', '{"type":"http","url":"http://127.0.16.2:21601/echo","auth":{"type":"bearer"},"headers":{"X-Key":""}}', '\x01e0a0e56296804babb65557ed95b357c4c6fe1c27b1c91bdffd481b219da7fcbc56cda5f791a40e0f695871ab08a77bc065d8d969653db5c7f93bb202b0ad25995e6d32814eabf709c507a4041e5a5fa97cdefb1ec1f0a4de8c48eb65540d2659b7f03bc5f8b262c385fb46b2a3bac7bec922be8cebcdf4f3385e8a907ed99ae1e7e6b596643a4674014d3effaad957066c2d12de21d3d67bd39ea09e1523b7ca939886a5226ea62fe289b47f6e883e1844d3c8a492740eae0f099c4b5730ddf4d5f30837308e7a808990ad52f51b365f0c51592b1d03e950f2199600', NULL, 0, 0, 'ready', NULL, 1, 1795392675039769, 1795392675039769, NULL, NULL);
INSERT INTO public.connection VALUES ('conn_01m82vw773f1h8xqg1n0vr4hps', 'org_01m82vw74mfc58y9dksz6g7s6f', 'crm', '{"type":"http","url":"http://127.0.16.2:21601/guarded","auth":{"type":"oauth"}}', '\x01e0a0e56296804babcda35bd20987a74651123944c9493f9021a20030662136d3023cd548060923284826b8090ca809dd2060f947703a833a4d7cf485857c14eb4500bfe5040888e2a5db4f56795090598b2ae788ad54b4d2487c5fd8f9e3bf24fed7353c45c2af380fbe5dc2edec236d4fc738856adb6ece623daaa1417b5e5293ad89789001ae7f164834df45939582e5d444d21fc7ed57833e91a7949da73ec17fa294bb8beee670c831e222f75bbe4b96b0e16eab6b86462fc5271e57790ff9330d848c040f6b4418b3e04c720a11bff45c0bf7ceb29528cd3be24b262023417b45fc333699d7df5503ec12cbd7bc67efd7473e1c1182a5dcc3b51af6368458e9aee353b4682e504a24c755b1da15b75b8c0099bb52a4c2d49e48c2fa09fdb0bfdcf19993e34bfcc8b382bae346434b577e833b3c6866c5ea0ece749a41', '\x01e0a0e56296804bab3508d638aead6a4cee70e6e405d345b0896c98cd5ea9e7edb9cb6ef98b533376e79eacd8c06052483b6d509bcea113f95e3b7651ddb6eba41d2044c0ec5f20175d3f8681ca64673685bc63dde0601179ca19e910e3e19652e8b64e09b379d2dddc0c5b7a1afad0ca2939c0bbfea6288f3a236b6022204ec33b47b2cc66046d0f1f6835c7998b2d6d38d56211f8c1b4e6ce81d10a83499dbefd02339214582bfeb1b78db9b9f2889c392f08c01d1759fed51c19c910d6d320f88e6c6bba56cb5991f39949db7b87158b707c64c8e791203953ac8b3bf1ca1139d1f6b90553b3cc6d93f24a91c99a8996a6950c39a60698fb5aabf51a2b3e50bfae4737fda61ac0a56b6feeb521e1e0f4dcf060aedf9d4e4b2fcb70bc8cdb96180cdc4e215b5cec7d648d03243e701dba224c3bf96215f1989fa01e81da565b0d067be0d0170dd68d2332b542e0c91199df4b5435fe6484655bef40e906acb8b9ce399095d8cb505306b45e0eb31626606261c7b5d0e7f849ee22bd688a67e95acab18349c69679a15f0135b59fb77998e686076adbdd735a4923df979ed1b747a9638461329356dde96d426f5c19d7a175df51b796c16ddc5b251955b89931f67d3c7ba9f91ce38cfa5e6183ba37', 1, 0, 'ready', NULL, 1, 1795392675043872, 1795392675043872, NULL, NULL);
INSERT INTO public.delivery VALUES ('run_01m82vw79yejt9atajqknjvmmg', 'org_01m82vw74mfc58y9dksz6g7s6f', '127.0.16.2:21602', '\x01e0a0e56296804babb42f33a6cf83e6447fc3cda0e06ee7a1755507cd326e40b82d63ad7e0642231aa3beffecb2d2e07f559680c6ea3a8972d50f99ed6d51ad32f29e98d745b7b78e6ac4cc01842e9eba02b960a9b91eccbed497ee4d9280e8299bf30197d2fbd5b99d7d3b060a3e92', 1, 0, NULL, 1795651875141875, 1, NULL);
INSERT INTO public.delivery VALUES ('run_01m82vxk68f8j886p2bv7649dx', 'org_01m82vw74mfc58y9dksz6g7s6f', '127.0.16.2:21602', '\x01e0a0e56296804bab2dee959637be18bfc14b9d0799699ef2f6468d54931416fece7734cc2edf7859ff70dc8ed2fe05eeb2732a06e714e8f246b0dc943064bbf67780223a43f29c4383541dfa937ac616ff2d6da73715e41a9d7b5e64114e3e6260d03eebb21d247206bdb0ea1cd891', 0, 0, NULL, NULL, 0, NULL);
INSERT INTO public.delivery_attempt VALUES ('run_01m82vw79yejt9atajqknjvmmg', 1, 1795392680092367, 204, NULL, 1, NULL);
INSERT INTO public.dispatch VALUES (1, 12, 'org_01m82vw74mfc58y9dksz6g7s6f');
INSERT INTO public.event VALUES ('run_01m82vw77gf01sqryzwbej6nqc', 1, 'status', '{"status":"queued"}', 1795392675056992);
INSERT INTO public.event VALUES ('run_01m82vw77gf01sqryzwbej6nqc', 2, 'status', '{"status":"starting"}', 1795392675060127);
INSERT INTO public.event VALUES ('run_01m82vw77gf01sqryzwbej6nqc', 3, 'status', '{"status":"running"}', 1795392675066252);
INSERT INTO public.event VALUES ('run_01m82vw77gf01sqryzwbej6nqc', 4, 'worker_started', '{"runtime":"namespaces","mode":"self-hosted","shell":true}', 1795392675066255);
INSERT INTO public.event VALUES ('run_01m82vw77gf01sqryzwbej6nqc', 5, 'model_call', '{"model":"runbook","step":1,"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"cost_micros":0,"duration_ms":0,"stop_reason":"end_turn"}', 1795392675066449);
INSERT INTO public.event VALUES ('run_01m82vw77gf01sqryzwbej6nqc', 6, 'message', '{"text":"hello","step":1}', 1795392675066462);
INSERT INTO public.event VALUES ('run_01m82vw77gf01sqryzwbej6nqc', 7, 'result', '{"output":"hello"}', 1795392675066991);
INSERT INTO public.event VALUES ('run_01m82vw77gf01sqryzwbej6nqc', 8, 'status', '{"status":"succeeded"}', 1795392675066991);
INSERT INTO public.event VALUES ('run_01m82vw77xe1xvkd2ak7mx8zzb', 1, 'status', '{"status":"queued"}', 1795392675069349);
INSERT INTO public.event VALUES ('run_01m82vw77xe1xvkd2ak7mx8zzb', 2, 'status', '{"status":"starting"}', 1795392675071815);
INSERT INTO public.event VALUES ('run_01m82vw77xe1xvkd2ak7mx8zzb', 3, 'status', '{"status":"running"}', 1795392675073740);
INSERT INTO public.event VALUES ('run_01m82vw77xe1xvkd2ak7mx8zzb', 4, 'worker_started', '{"runtime":"namespaces","mode":"self-hosted","shell":true}', 1795392675073742);
INSERT INTO public.event VALUES ('run_01m82vw77xe1xvkd2ak7mx8zzb', 5, 'model_call', '{"model":"runbook","step":1,"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"cost_micros":0,"duration_ms":0,"stop_reason":"tool_use"}', 1795392675073875);
INSERT INTO public.event VALUES ('run_01m82vw77xe1xvkd2ak7mx8zzb', 6, 'tool_start', '{"tool":"shell","id":"block_1","arguments":{"command":"echo oh >&2; exit 3"}}', 1795392675073917);
INSERT INTO public.event VALUES ('run_01m82vw77xe1xvkd2ak7mx8zzb', 7, 'tool_end', '{"tool":"shell","id":"block_1","is_error":true,"output":"[the command exited with status 3]\n[stderr]\noh\n","output_bytes":47,"duration_ms":27}', 1795392675101747);
INSERT INTO public.event VALUES ('run_01m82vw77xe1xvkd2ak7mx8zzb', 8, 'status', '{"status":"failed","error":"block 1 exited with status 3: oh"}', 1795392675102831);
INSERT INTO public.event VALUES ('run_01m82vw791fzvsdpgn50b9h1ar', 1, 'status', '{"status":"queued"}', 1795392675105070);
INSERT INTO public.event VALUES ('run_01m82vw791fzvsdpgn50b9h1ar', 2, 'status', '{"status":"starting"}', 1795392675107132);
INSERT INTO public.event VALUES ('run_01m82vw791fzvsdpgn50b9h1ar', 3, 'status', '{"status":"running"}', 1795392675110002);
INSERT INTO public.event VALUES ('run_01m82vw791fzvsdpgn50b9h1ar', 4, 'worker_started', '{"runtime":"namespaces","mode":"self-hosted","shell":true}', 1795392675110006);
INSERT INTO public.event VALUES ('run_01m82vw791fzvsdpgn50b9h1ar', 5, 'model_call', '{"model":"runbook","step":1,"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"cost_micros":0,"duration_ms":0,"stop_reason":"tool_use"}', 1795392675110355);
INSERT INTO public.event VALUES ('run_01m82vw791fzvsdpgn50b9h1ar', 6, 'tool_start', '{"tool":"shell","id":"block_1","arguments":{"command":"mkdir outputs && printf ''the report'' > outputs/report.md"}}', 1795392675110403);
INSERT INTO public.event VALUES ('run_01m82vw791fzvsdpgn50b9h1ar', 7, 'tool_end', '{"tool":"shell","id":"block_1","is_error":false,"output":"[the command exited with status 0]\n","output_bytes":35,"duration_ms":15}', 1795392675125817);
INSERT INTO public.event VALUES ('run_01m82vw791fzvsdpgn50b9h1ar', 8, 'model_call', '{"model":"runbook","step":2,"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"cost_micros":0,"duration_ms":0,"stop_reason":"end_turn"}', 1795392675125914);
INSERT INTO public.event VALUES ('run_01m82vw791fzvsdpgn50b9h1ar', 9, 'artifact', '{"path":"report.md","size":10,"sha256":"14e4cce86788499d03144f70ab24ca83d1abe97d55153c71ee1df55c5296c1f9","content_type":"text/markdown"}', 1795392675129741);
INSERT INTO public.event VALUES ('run_01m82vw791fzvsdpgn50b9h1ar', 10, 'result', '{"output":""}', 1795392675129750);
INSERT INTO public.event VALUES ('run_01m82vw791fzvsdpgn50b9h1ar', 11, 'status', '{"status":"succeeded"}', 1795392675129750);
INSERT INTO public.event VALUES ('run_01m82vw79yejt9atajqknjvmmg', 1, 'status', '{"status":"queued"}', 1795392675134003);
INSERT INTO public.event VALUES ('run_01m82vw79yejt9atajqknjvmmg', 2, 'status', '{"status":"starting"}', 1795392675136470);
INSERT INTO public.event VALUES ('run_01m82vw79yejt9atajqknjvmmg', 3, 'status', '{"status":"running"}', 1795392675140355);
INSERT INTO public.event VALUES ('run_01m82vw79yejt9atajqknjvmmg', 4, 'worker_started', '{"runtime":"namespaces","mode":"self-hosted","shell":true}', 1795392675140359);
INSERT INTO public.event VALUES ('run_01m82vw79yejt9atajqknjvmmg', 5, 'model_call', '{"model":"runbook","step":1,"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"cost_micros":0,"duration_ms":0,"stop_reason":"end_turn"}', 1795392675140941);
INSERT INTO public.event VALUES ('run_01m82vw79yejt9atajqknjvmmg', 6, 'message', '{"text":"called","step":1}', 1795392675140953);
INSERT INTO public.event VALUES ('run_01m82vw79yejt9atajqknjvmmg', 7, 'result', '{"output":"called"}', 1795392675140968);
INSERT INTO public.event VALUES ('run_01m82vw79yejt9atajqknjvmmg', 8, 'status', '{"status":"succeeded"}', 1795392675140968);
INSERT INTO public.event VALUES ('run_01m82vw7aaf5jtc1hzw2xg8hn2', 1, 'status', '{"status":"queued"}', 1795392675146203);
INSERT INTO public.event VALUES ('run_01m82vw7aaf5jtc1hzw2xg8hn2', 2, 'status', '{"status":"starting"}', 1795392675147169);
INSERT INTO public.event VALUES ('run_01m82vw7aaf5jtc1hzw2xg8hn2', 3, 'status', '{"status":"running"}', 1795392675150834);
INSERT INTO public.event VALUES ('run_01m82vw7aaf5jtc1hzw2xg8hn2', 4, 'worker_started', '{"runtime":"namespaces","mode":"self-hosted","shell":true}', 1795392675150837);
INSERT INTO public.event VALUES ('run_01m82vw7aaf5jtc1hzw2xg8hn2', 5, 'model_call', '{"model":"runbook","step":1,"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"cost_micros":0,"duration_ms":0,"stop_reason":"tool_use"}', 1795392675150980);
INSERT INTO public.event VALUES ('run_01m82vw7aaf5jtc1hzw2xg8hn2', 6, 'tool_start', '{"tool":"shell","id":"block_1","arguments":{"command":"cat data.txt"}}', 1795392675151025);
INSERT INTO public.event VALUES ('run_01m82vw7aaf5jtc1hzw2xg8hn2', 7, 'tool_end', '{"tool":"shell","id":"block_1","is_error":false,"output":"[the command exited with status 0]\n[stdout]\nthe data\n","output_bytes":53,"duration_ms":23}', 1795392675174502);
INSERT INTO public.event VALUES ('run_01m82vw7aaf5jtc1hzw2xg8hn2', 8, 'model_call', '{"model":"runbook","step":2,"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"cost_micros":0,"duration_ms":0,"stop_reason":"end_turn"}', 1795392675174591);
INSERT INTO public.event VALUES ('run_01m82vw7aaf5jtc1hzw2xg8hn2', 9, 'message', '{"text":"the data\n","step":2}', 1795392675174600);
INSERT INTO public.event VALUES ('run_01m82vw7aaf5jtc1hzw2xg8hn2', 10, 'result', '{"output":"the data\n"}', 1795392675175718);
INSERT INTO public.event VALUES ('run_01m82vw7aaf5jtc1hzw2xg8hn2', 11, 'status', '{"status":"succeeded"}', 1795392675175718);
INSERT INTO public.event VALUES ('run_01m82vwc4yf3e8fks0b37wzvs3', 1, 'status', '{"status":"queued"}', 1795392680094035);
INSERT INTO public.event VALUES ('run_01m82vwc4yf3e8fks0b37wzvs3', 2, 'status', '{"status":"starting"}', 1795392680095234);
INSERT INTO public.event VALUES ('run_01m82vwc4yf3e8fks0b37wzvs3', 3, 'status', '{"status":"running"}', 1795392680097048);
INSERT INTO public.event VALUES ('run_01m82vwc4yf3e8fks0b37wzvs3', 4, 'worker_started', '{"runtime":"namespaces","mode":"self-hosted","shell":true}', 1795392680097050);
INSERT INTO public.event VALUES ('run_01m82vwc4yf3e8fks0b37wzvs3', 5, 'status', '{"status":"cancelled"}', 1795392680095757);
INSERT INTO public.event VALUES ('run_01m82vwc5jemzs8ke140s3d5ev', 1, 'status', '{"status":"queued"}', 1795392680114538);
INSERT INTO public.event VALUES ('run_01m82vwc5jemzs8ke140s3d5ev', 2, 'status', '{"status":"starting"}', 1795392680115723);
INSERT INTO public.event VALUES ('run_01m82vwc5jemzs8ke140s3d5ev', 3, 'status', '{"status":"running"}', 1795392680118368);
INSERT INTO public.event VALUES ('run_01m82vwc5jemzs8ke140s3d5ev', 4, 'worker_started', '{"runtime":"namespaces","mode":"self-hosted","shell":true}', 1795392680118370);
INSERT INTO public.event VALUES ('run_01m82vwc5jemzs8ke140s3d5ev', 5, 'model_call', '{"model":"runbook","step":1,"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"cost_micros":0,"duration_ms":0,"stop_reason":"end_turn"}', 1795392680118495);
INSERT INTO public.event VALUES ('run_01m82vwc5jemzs8ke140s3d5ev', 6, 'message', '{"text":"once","step":1}', 1795392680118506);
INSERT INTO public.event VALUES ('run_01m82vwc5jemzs8ke140s3d5ev', 7, 'result', '{"output":"once"}', 1795392680118844);
INSERT INTO public.event VALUES ('run_01m82vwc5jemzs8ke140s3d5ev', 8, 'status', '{"status":"succeeded"}', 1795392680118844);
INSERT INTO public.event VALUES ('run_01m82vxk44e12arf3jb5znea2j', 1, 'status', '{"status":"queued"}', 1795392720004672);
INSERT INTO public.event VALUES ('run_01m82vxk44e12arf3jb5znea2j', 2, 'status', '{"status":"starting"}', 1795392720008110);
INSERT INTO public.event VALUES ('run_01m82vxk44e12arf3jb5znea2j', 3, 'status', '{"status":"running"}', 1795392720011421);
INSERT INTO public.event VALUES ('run_01m82vxk44e12arf3jb5znea2j', 4, 'worker_started', '{"runtime":"namespaces","mode":"self-hosted","shell":true}', 1795392720011425);
INSERT INTO public.event VALUES ('run_01m82vxk44e12arf3jb5znea2j', 5, 'model_call', '{"model":"runbook","step":1,"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"cost_micros":0,"duration_ms":0,"stop_reason":"tool_use"}', 1795392720011672);
INSERT INTO public.event VALUES ('run_01m82vxk44e12arf3jb5znea2j', 6, 'tool_start', '{"tool":"shell","id":"block_1","arguments":{"command":"cat data.txt"}}', 1795392720011757);
INSERT INTO public.event VALUES ('run_01m82vxk44e12arf3jb5znea2j', 7, 'tool_end', '{"tool":"shell","id":"block_1","is_error":false,"output":"[the command exited with status 0]\n[stdout]\nthe data\n","output_bytes":53,"duration_ms":21}', 1795392720032908);
INSERT INTO public.event VALUES ('run_01m82vxk44e12arf3jb5znea2j', 8, 'model_call', '{"model":"runbook","step":2,"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"cost_micros":0,"duration_ms":0,"stop_reason":"end_turn"}', 1795392720033009);
INSERT INTO public.event VALUES ('run_01m82vxk44e12arf3jb5znea2j', 9, 'message', '{"text":"the data\n","step":2}', 1795392720033018);
INSERT INTO public.event VALUES ('run_01m82vxk44e12arf3jb5znea2j', 10, 'result', '{"output":"the data\n"}', 1795392720034949);
INSERT INTO public.event VALUES ('run_01m82vxk44e12arf3jb5znea2j', 11, 'status', '{"status":"succeeded"}', 1795392720034949);
INSERT INTO public.event VALUES ('run_01m82vxk65e1nsd9xeppa2vqfc', 1, 'status', '{"status":"queued"}', 1795392720069415);
INSERT INTO public.event VALUES ('run_01m82vxk65e1nsd9xeppa2vqfc', 2, 'status', '{"status":"starting"}', 1795392720071241);
INSERT INTO public.event VALUES ('run_01m82vxk65e1nsd9xeppa2vqfc', 3, 'status', '{"status":"running"}', 1795392720072184);
INSERT INTO public.event VALUES ('run_01m82vxk65e1nsd9xeppa2vqfc', 4, 'worker_started', '{"runtime":"namespaces","mode":"self-hosted","shell":true}', 1795392720072186);
INSERT INTO public.event VALUES ('run_01m82vxk68f8j886p2bv7649dx', 1, 'status', '{"status":"queued"}', 1795392720072949);
INSERT INTO public.file VALUES ('file_01m82vw76bety9wffmh37e70zr', 'org_01m82vw74mfc58y9dksz6g7s6f', 'data.txt', 'blob_01m82vw768e608egan26z24y7d', 9, '\xf7712751e993b9972137e8ded3207d99d8747e041999182851225714ee0070e2', 'text/plain', 1795392675019473);
INSERT INTO public.fire VALUES ('sched_01m82vwc5wf2ernfrax1scv1gk', 1795392720000000, '', 1795392720000000, 1, 'started', NULL, 'run_01m82vxk44e12arf3jb5znea2j', 1795392720003554);
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
INSERT INTO public.node VALUES (301984094308162947, 'node-8d96cf4dc1e757e7', 1795392674927067, 1795392729971600, NULL, 'http://127.0.0.1:41315', '0.1.0', NULL, 'e0a0e56296804bab,addressed');
INSERT INTO public.organization VALUES ('org_01m82vw74mfc58y9dksz6g7s6f', 'default', 1795392674964607, 0);
INSERT INTO public.queue VALUES ('run_01m82vxk65e1nsd9xeppa2vqfc', 'org_01m82vw74mfc58y9dksz6g7s6f', 1795392720069415, 301984094308162947, NULL);
INSERT INTO public.queue VALUES ('run_01m82vxk68f8j886p2bv7649dx', 'org_01m82vw74mfc58y9dksz6g7s6f', 1795392720072949, NULL, NULL);
INSERT INTO public.rate_lease VALUES (29923211, 'key_01m82vw74mfj0tmcbx2h05p96q', 156250, 156250);
INSERT INTO public.rate_lease VALUES (29923211, '127.0.0.1', 3, 1);
INSERT INTO public.rate_lease VALUES (29923211, 'key_01m82vw75mfv58pb1w4sw9jmzw', 156250, 156250);
INSERT INTO public.rate_lease VALUES (29923212, 'key_01m82vw74mfj0tmcbx2h05p96q', 156250, 156250);
INSERT INTO public.rate_lease VALUES (29923212, 'key_01m82vw75pfejsm5n371j8rx8g', 156250, 156250);
INSERT INTO public.run VALUES ('run_01m82vwc4yf3e8fks0b37wzvs3', 'org_01m82vw74mfc58y9dksz6g7s6f', 'cancelled', 'cancelled', 1, 5, 1795392680094035, 1795392680095234, 1795392680095757, 1000000, 4, 0, 900, NULL, NULL, NULL, 0, NULL, 'runbook', 'key_01m82vw75mfv58pb1w4sw9jmzw', NULL, 0, 0, 0, 0, 0, 0, 0, 0, NULL, 0, 0, NULL, 1, NULL, NULL, 1795392680096682, 1795392680097462);
INSERT INTO public.run VALUES ('run_01m82vw79yejt9atajqknjvmmg', 'org_01m82vw74mfc58y9dksz6g7s6f', 'succeeded', 'succeeded', 1, 8, 1795392675134003, 1795392675136470, 1795392675140968, 1000000, 5, 0, 300, NULL, NULL, NULL, 0, NULL, 'runbook', 'key_01m82vw75mfv58pb1w4sw9jmzw', NULL, 0, 0, 0, 0, 0, 1, 0, 0, '127.0.16.2:21602', 0, 0, NULL, 1, NULL, NULL, 1795392675139764, NULL);
INSERT INTO public.run VALUES ('run_01m82vw77gf01sqryzwbej6nqc', 'org_01m82vw74mfc58y9dksz6g7s6f', 'succeeded', 'succeeded', 1, 8, 1795392675056992, 1795392675060127, 1795392675066991, 1000000, 7, 0, 300, NULL, NULL, NULL, 0, NULL, 'runbook', 'key_01m82vw75mfv58pb1w4sw9jmzw', '["upgrade","x"]', 0, 0, 0, 0, 0, 1, 0, 0, NULL, 0, 0, NULL, 1, NULL, NULL, 1795392675065473, NULL);
INSERT INTO public.run VALUES ('run_01m82vwc5jemzs8ke140s3d5ev', 'org_01m82vw74mfc58y9dksz6g7s6f', 'succeeded', 'succeeded', 1, 8, 1795392680114538, 1795392680115723, 1795392680118844, 1000000, 4, 0, 300, 'once', NULL, NULL, 0, NULL, 'runbook', 'key_01m82vw75mfv58pb1w4sw9jmzw', NULL, 0, 0, 0, 0, 0, 1, 0, 0, NULL, 0, 0, NULL, 1, NULL, NULL, 1795392680117499, NULL);
INSERT INTO public.run VALUES ('run_01m82vw77xe1xvkd2ak7mx8zzb', 'org_01m82vw74mfc58y9dksz6g7s6f', 'failed', 'failed', 1, 8, 1795392675069349, 1795392675071815, 1795392675102831, 1000000, 32, 0, 300, NULL, NULL, 'block 1 exited with status 3: oh', 0, NULL, 'runbook', 'key_01m82vw75mfv58pb1w4sw9jmzw', NULL, 0, 0, 0, 0, 0, 1, 1, 0, NULL, 0, 0, NULL, 1, NULL, NULL, 1795392675073447, NULL);
INSERT INTO public.run VALUES ('run_01m82vw7aaf5jtc1hzw2xg8hn2', 'org_01m82vw74mfc58y9dksz6g7s6f', 'succeeded', 'succeeded', 1, 11, 1795392675146203, 1795392675147169, 1795392675175718, 1000000, 29, 0, 300, NULL, NULL, NULL, 0, 'report', 'runbook', 'key_01m82vw75mfv58pb1w4sw9jmzw', NULL, 0, 0, 0, 0, 0, 2, 1, 0, NULL, 0, 0, NULL, 1, NULL, NULL, 1795392675149134, NULL);
INSERT INTO public.run VALUES ('run_01m82vw791fzvsdpgn50b9h1ar', 'org_01m82vw74mfc58y9dksz6g7s6f', 'succeeded', 'succeeded', 1, 11, 1795392675105070, 1795392675107132, 1795392675129750, 1000000, 23, 0, 300, NULL, NULL, NULL, 0, NULL, 'runbook', 'key_01m82vw75mfv58pb1w4sw9jmzw', NULL, 0, 0, 0, 0, 0, 2, 1, 1, NULL, 0, 0, NULL, 1, NULL, NULL, 1795392675109239, NULL);
INSERT INTO public.run VALUES ('run_01m82vwc5be2p9jph28q1hg7n2', 'org_01m82vw74mfc58y9dksz6g7s6f', 'succeeded', 'succeeded', 1, 8, 1795392680107398, 1795392680109365, 1795392680111540, 1000000, 3, 0, 300, NULL, NULL, NULL, 0, NULL, 'runbook', 'key_01m82vw75mfv58pb1w4sw9jmzw', NULL, 1, 0, 0, 0, 0, 1, 0, 0, NULL, 0, 0, NULL, 1, NULL, NULL, 1795392680110582, NULL);
INSERT INTO public.run VALUES ('run_01m82vxk44e12arf3jb5znea2j', 'org_01m82vw74mfc58y9dksz6g7s6f', 'succeeded', 'succeeded', 1, 11, 1795392720004672, 1795392720008110, 1795392720034949, 1000000, 27, 0, 300, NULL, 'sched_01m82vwc5wf2ernfrax1scv1gk', NULL, 0, 'report', 'runbook', NULL, NULL, 0, 0, 0, 0, 0, 2, 1, 0, NULL, 0, 0, NULL, 1, NULL, NULL, 1795392720009021, NULL);
INSERT INTO public.run VALUES ('run_01m82vxk65e1nsd9xeppa2vqfc', 'org_01m82vw74mfc58y9dksz6g7s6f', 'running', NULL, 1, 4, 1795392720069415, 1795392720071241, NULL, 1000000, 0, 1, 30, NULL, NULL, NULL, 0, NULL, 'runbook', 'key_01m82vw75pfejsm5n371j8rx8g', NULL, 0, 0, 0, 0, 0, 0, 0, 0, NULL, 0, 0, NULL, 1, NULL, NULL, 1795392720071757, NULL);
INSERT INTO public.run VALUES ('run_01m82vxk68f8j886p2bv7649dx', 'org_01m82vw74mfc58y9dksz6g7s6f', 'queued', NULL, 0, 1, 1795392720072949, NULL, NULL, 1000000, 0, 1, 300, NULL, NULL, NULL, 0, NULL, 'runbook', 'key_01m82vw75pfejsm5n371j8rx8g', NULL, 0, 0, 0, 0, 0, 0, 0, 0, '127.0.16.2:21602', 0, 0, NULL, 1, NULL, NULL, NULL, NULL);
INSERT INTO public.run_artifacts VALUES ('run_01m82vw791fzvsdpgn50b9h1ar', '[{"path":"report.md","size":10,"sha256":"14e4cce86788499d03144f70ab24ca83d1abe97d55153c71ee1df55c5296c1f9","content_type":"text/markdown","blob":"blob_01m82vw79qegwbg25h3n3jrtew"}]');
INSERT INTO public.run_definition VALUES ('run_01m82vw77gf01sqryzwbej6nqc', '{"prompt":"hello","input":{"a":[1,null]},"model":"runbook","timeout_seconds":300,"shell":true,"max_cost_micros":1000000,"tags":["upgrade","x"]}', NULL);
INSERT INTO public.run_definition VALUES ('run_01m82vw77xe1xvkd2ak7mx8zzb', '{"prompt":"```sh\necho oh >&2; exit 3\n```\n","model":"runbook","timeout_seconds":300,"shell":true,"max_cost_micros":1000000}', NULL);
INSERT INTO public.run_definition VALUES ('run_01m82vw791fzvsdpgn50b9h1ar', '{"prompt":"```sh\nmkdir outputs && printf ''the report'' > outputs/report.md\n```\n","model":"runbook","timeout_seconds":300,"shell":true,"max_cost_micros":1000000}', NULL);
INSERT INTO public.run_definition VALUES ('run_01m82vw79yejt9atajqknjvmmg', '{"prompt":"called","model":"runbook","timeout_seconds":300,"shell":true,"max_cost_micros":1000000}', NULL);
INSERT INTO public.run_definition VALUES ('run_01m82vw7aaf5jtc1hzw2xg8hn2', '{"prompt":"```sh\ncat data.txt\n```\n","model":"runbook","files":[{"path":"data.txt","file":"file_01m82vw76bety9wffmh37e70zr"}],"timeout_seconds":300,"shell":true,"max_cost_micros":1000000}', NULL);
INSERT INTO public.run_definition VALUES ('run_01m82vwc4yf3e8fks0b37wzvs3', '{"prompt":"```wait 600000\n```\n","model":"runbook","timeout_seconds":900,"shell":true,"max_cost_micros":1000000}', NULL);
INSERT INTO public.run_definition VALUES ('run_01m82vwc5jemzs8ke140s3d5ev', '{"prompt":"once","model":"runbook","timeout_seconds":300,"shell":true,"max_cost_micros":1000000}', NULL);
INSERT INTO public.run_definition VALUES ('run_01m82vxk44e12arf3jb5znea2j', '{"prompt":"```sh\ncat data.txt\n```\n","model":"runbook","files":[{"path":"data.txt","file":"file_01m82vw76bety9wffmh37e70zr"}],"timeout_seconds":300,"shell":true,"max_cost_micros":1000000}', NULL);
INSERT INTO public.run_definition VALUES ('run_01m82vxk65e1nsd9xeppa2vqfc', '{"prompt":"```wait 600000\n```\n","model":"runbook","timeout_seconds":30,"shell":true,"max_cost_micros":1000000}', NULL);
INSERT INTO public.run_definition VALUES ('run_01m82vxk68f8j886p2bv7649dx', '{"prompt":"```tool inline__request\n{\"method\":\"GET\"}\n```\n","model":"runbook","connections":{"inline":{"type":"http","url":"http://127.0.16.2:21601/echo","headers":{"X-Key":""}}},"timeout_seconds":300,"shell":false,"max_cost_micros":1000000}', '["inline"]');
INSERT INTO public.run_output VALUES ('run_01m82vw77gf01sqryzwbej6nqc', 'hello');
INSERT INTO public.run_output VALUES ('run_01m82vw791fzvsdpgn50b9h1ar', '');
INSERT INTO public.run_output VALUES ('run_01m82vw79yejt9atajqknjvmmg', 'called');
INSERT INTO public.run_output VALUES ('run_01m82vw7aaf5jtc1hzw2xg8hn2', 'the data
');
INSERT INTO public.run_output VALUES ('run_01m82vwc5jemzs8ke140s3d5ev', 'once');
INSERT INTO public.run_output VALUES ('run_01m82vxk44e12arf3jb5znea2j', 'the data
');
INSERT INTO public.run_secret VALUES ('run_01m82vxk68f8j886p2bv7649dx', '\x01e0a0e56296804babd84c553fb74b5b4ff1140c0c09bfc237c837b722b009d37c2b6908e2dd7508f7e1cafb7f4ccafb6f9d38dfc6e86808609d4fde768baab54fdb6d550b5e58d8afcab88800912fbd2f909de1d9fe07bfbf728de54e56c6e00b480ab6b6ae4b089210e72d3468e91071efa58c6b719d9bfe8a32cdc94bb33f99dcdc29bb6c54b2ccd30b235d38b52557e38836cf66d08c14c3c63fc2da84878ddf80761b519c2d4157b44b30572e8b0e5cc3e244cc5942ddd9c83caeceb2');
INSERT INTO public.run_tag VALUES ('org_01m82vw74mfc58y9dksz6g7s6f', 'upgrade', 1795392675056992, 'run_01m82vw77gf01sqryzwbej6nqc');
INSERT INTO public.run_tag VALUES ('org_01m82vw74mfc58y9dksz6g7s6f', 'x', 1795392675056992, 'run_01m82vw77gf01sqryzwbej6nqc');
INSERT INTO public.schedule VALUES ('sched_01m82vwc5rf04b7pc514fh3wbq', 'org_01m82vw74mfc58y9dksz6g7s6f', 'rest', 'report', '30 7 * * MON-FRI', 'Europe/Berlin', NULL, 0, 'allow', 3600, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1795392680120922, NULL, 1795392680120922, NULL, NULL, NULL, 1, 1795392680120922, 1795392680120922);
INSERT INTO public.schedule VALUES ('sched_01m82vwc5wf2ernfrax1scv1gk', 'org_01m82vw74mfc58y9dksz6g7s6f', 'each minute', 'report', '* * * * *', 'UTC', NULL, 1, 'allow', 3600, 0, NULL, NULL, NULL, NULL, NULL, 1795392780000000, 1795392780000000, 1795392720000000, NULL, 1795392680124010, 1795392720004672, 'run_01m82vxk44e12arf3jb5znea2j', NULL, 2, 1795392680124010, 1795392680124010);
INSERT INTO public.seal_check VALUES (1, '\x01e0a0e56296804babe17caaea96f5d10bace731c605cb58416c6d29e06e2679a001a1e2bd5df37deec3467bf7b417e486f4d399be1bf4ceb8767b6bfa6bbeb193');
INSERT INTO public.unretained VALUES ('run_01m82vwc5be2p9jph28q1hg7n2', 301984094308162947);
INSERT INTO public.workflow VALUES ('org_01m82vw74mfc58y9dksz6g7s6f', 'report', 1, 1795392675023473, 1795392675023473, '{"name":"report"}', '{"prompt":"```sh\ncat data.txt\n```\n","files":[{"path":"data.txt","file":"data.txt"}]}');
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
