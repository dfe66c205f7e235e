PRAGMA foreign_keys = OFF;
BEGIN;
CREATE TABLE api_key (
    id TEXT NOT NULL PRIMARY KEY,
    org_id TEXT NOT NULL REFERENCES organization (id),
    name TEXT NOT NULL,
    role TEXT NOT NULL,
    hash BLOB NOT NULL,
    created_at BIGINT NOT NULL
, expires_at BIGINT, previous_hash BLOB, previous_until BIGINT);
CREATE TABLE artifact_blob (
    run_id TEXT NOT NULL,
    blob_id TEXT NOT NULL,
    PRIMARY KEY (run_id, blob_id)
) WITHOUT ROWID;
CREATE TABLE audit (
    org_id TEXT NOT NULL,
    at BIGINT NOT NULL,
    id TEXT NOT NULL,
    action TEXT NOT NULL,
    target TEXT NOT NULL,
    key_id TEXT,
    address TEXT,
    request_id TEXT,
    PRIMARY KEY (org_id, at, id)
) WITHOUT ROWID;
CREATE TABLE blob (
    id TEXT NOT NULL PRIMARY KEY,
    org_id TEXT NOT NULL REFERENCES organization (id),
    sha256 BLOB NOT NULL,
    size BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    check_at BIGINT,
    doomed_at BIGINT
);
CREATE TABLE budget (
    org_id TEXT NOT NULL,
    scope TEXT NOT NULL,
    limit_micros BIGINT NOT NULL,
    period TEXT NOT NULL,
    since BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (org_id, scope)
) WITHOUT ROWID;
CREATE TABLE budget_hold (
    run_id TEXT NOT NULL,
    org_id TEXT NOT NULL,
    scope TEXT NOT NULL,
    since BIGINT NOT NULL,
    starts_at BIGINT NOT NULL,
    held_micros BIGINT NOT NULL,
    PRIMARY KEY (run_id, scope)
) WITHOUT ROWID;
CREATE TABLE budget_window (
    org_id TEXT NOT NULL,
    scope TEXT NOT NULL,
    since BIGINT NOT NULL,
    starts_at BIGINT NOT NULL,
    held_micros BIGINT NOT NULL,
    spent_micros BIGINT NOT NULL,
    PRIMARY KEY (org_id, scope, since, starts_at)
) WITHOUT ROWID;
CREATE TABLE connection (
    id TEXT NOT NULL PRIMARY KEY,
    org_id TEXT NOT NULL REFERENCES organization (id),
    name TEXT NOT NULL,
    definition TEXT NOT NULL,
    credentials BLOB NOT NULL,
    tokens BLOB,
    tokens_version BIGINT NOT NULL,
    refresh_until BIGINT NOT NULL,
    status TEXT NOT NULL,
    error TEXT,
    revision BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
, refresh_holder BIGINT, issuer BLOB);
CREATE TABLE delivery (
    run_id TEXT NOT NULL PRIMARY KEY,
    org_id TEXT NOT NULL,
    host TEXT NOT NULL,
    target BLOB NOT NULL,
    attempts BIGINT NOT NULL,
    failures BIGINT NOT NULL,
    due_at BIGINT,
    give_up_at BIGINT,
    claim BIGINT NOT NULL,
    node TEXT
);
CREATE TABLE delivery_attempt (
    run_id TEXT NOT NULL,
    attempt BIGINT NOT NULL,
    at BIGINT NOT NULL,
    status BIGINT,
    error TEXT,
    duration_ms BIGINT NOT NULL,
    next_at BIGINT,
    PRIMARY KEY (run_id, attempt)
) WITHOUT ROWID;
CREATE TABLE dispatch (
    id BIGINT NOT NULL PRIMARY KEY,
    turn BIGINT NOT NULL,
    last_org TEXT NOT NULL
);
CREATE TABLE event (
    run_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    kind TEXT NOT NULL,
    data TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (run_id, seq)
) WITHOUT ROWID;
CREATE TABLE file (
    id TEXT NOT NULL PRIMARY KEY,
    org_id TEXT NOT NULL REFERENCES organization (id),
    name TEXT NOT NULL,
    blob_id TEXT NOT NULL,
    size BIGINT NOT NULL,
    sha256 BLOB NOT NULL,
    content_type TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE TABLE fire (
    schedule_id TEXT NOT NULL,
    instant BIGINT NOT NULL,
    occasion TEXT NOT NULL,
    last_instant BIGINT NOT NULL,
    instants BIGINT NOT NULL,
    outcome TEXT NOT NULL,
    reason TEXT,
    run_id TEXT,
    recorded_at BIGINT NOT NULL,
    PRIMARY KEY (schedule_id, instant, occasion)
) WITHOUT ROWID;
CREATE TABLE journal (
    run_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (run_id, seq)
) WITHOUT ROWID;
CREATE TABLE migration (version BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL);
CREATE TABLE node (
    id BIGINT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    started_at BIGINT NOT NULL,
    lease_until BIGINT NOT NULL,
    ended_at BIGINT
, address TEXT, version TEXT, draining_since BIGINT, master_keys TEXT);
CREATE TABLE oauth_flow (
    state_hash BLOB NOT NULL PRIMARY KEY,
    org_id TEXT NOT NULL,
    connection_id TEXT NOT NULL,
    revision BIGINT NOT NULL,
    pending BLOB NOT NULL,
    expires_at BIGINT NOT NULL
, tries BIGINT);
CREATE TABLE organization (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    created_at BIGINT NOT NULL
, usage_until BIGINT NOT NULL DEFAULT 0);
CREATE TABLE queue (
    run_id TEXT NOT NULL PRIMARY KEY,
    org_id TEXT NOT NULL,
    enqueued_at BIGINT NOT NULL,
    node_id BIGINT
, stopping BIGINT) WITHOUT ROWID;
CREATE TABLE rate_lease (
    minute BIGINT NOT NULL,
    subject TEXT NOT NULL,
    granted BIGINT NOT NULL,
    block BIGINT NOT NULL,
    PRIMARY KEY (minute, subject)
) WITHOUT ROWID;
CREATE TABLE replaced_run (
    run_id TEXT NOT NULL PRIMARY KEY,
    org_id TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE run (
    id TEXT NOT NULL PRIMARY KEY,
    org_id TEXT NOT NULL REFERENCES organization (id),
    status TEXT NOT NULL,
    outcome TEXT,
    attempt BIGINT NOT NULL,
    last_event BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    started_at BIGINT,
    finished_at BIGINT,
    max_cost_micros BIGINT NOT NULL,
    cost_micros BIGINT NOT NULL,
    billing_pending BIGINT NOT NULL,
    timeout_seconds BIGINT NOT NULL,
    idempotency_key TEXT,
    schedule_id TEXT,
    error TEXT
, resumes BIGINT NOT NULL DEFAULT 0, workflow TEXT, model TEXT, key_id TEXT, tags TEXT, zero_data_retention BIGINT NOT NULL DEFAULT 0, input_tokens BIGINT NOT NULL DEFAULT 0, output_tokens BIGINT NOT NULL DEFAULT 0, cache_read_tokens BIGINT NOT NULL DEFAULT 0, cache_write_tokens BIGINT NOT NULL DEFAULT 0, model_calls BIGINT NOT NULL DEFAULT 0, tool_calls BIGINT NOT NULL DEFAULT 0, artifact_count BIGINT NOT NULL DEFAULT 0, callback_host TEXT, surcharge_percent BIGINT NOT NULL DEFAULT 0, surcharge_micros BIGINT NOT NULL DEFAULT 0, output_expires_at BIGINT, budgeted BIGINT NOT NULL DEFAULT 0, traceparent TEXT, tracestate TEXT, clock_started_at BIGINT, clock_cancelled_at BIGINT) WITHOUT ROWID;
CREATE TABLE run_artifacts (
    run_id TEXT NOT NULL PRIMARY KEY,
    artifacts TEXT NOT NULL
);
CREATE TABLE run_definition (
    run_id TEXT NOT NULL PRIMARY KEY,
    definition TEXT NOT NULL
, requires_credentials TEXT);
CREATE TABLE run_output (
    run_id TEXT NOT NULL PRIMARY KEY,
    output TEXT NOT NULL
);
CREATE TABLE run_secret (
    run_id TEXT NOT NULL PRIMARY KEY,
    credentials BLOB NOT NULL
);
CREATE TABLE run_tag (
    org_id TEXT NOT NULL,
    tag TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    run_id TEXT NOT NULL,
    PRIMARY KEY (org_id, tag, created_at, run_id)
) WITHOUT ROWID;
CREATE TABLE schedule (
    id TEXT NOT NULL PRIMARY KEY,
    org_id TEXT NOT NULL,
    name TEXT,
    workflow TEXT NOT NULL,
    cron TEXT NOT NULL,
    timezone TEXT NOT NULL,
    input TEXT,
    enabled BIGINT NOT NULL,
    overlap TEXT NOT NULL,
    catch_up_window_seconds BIGINT NOT NULL,
    jitter_seconds BIGINT NOT NULL,
    paused_until BIGINT,
    max_consecutive_failures BIGINT,
    max_cost_micros BIGINT,
    callback_url TEXT,
    callback_secret BLOB,
    next_instant BIGINT,
    due_at BIGINT,
    handled_instant BIGINT NOT NULL,
    waiting_instant BIGINT,
    failures_since BIGINT NOT NULL,
    last_run_at BIGINT,
    last_run_id TEXT,
    last_error TEXT,
    revision BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE TABLE seal_check (
    id BIGINT NOT NULL PRIMARY KEY,
    sealed BLOB NOT NULL
);
CREATE TABLE unretained (
    run_id TEXT NOT NULL PRIMARY KEY,
    node_id BIGINT NOT NULL
);
CREATE TABLE usage_day (
    org_id TEXT NOT NULL,
    day BIGINT NOT NULL,
    workflow TEXT NOT NULL,
    model TEXT NOT NULL,
    key_id TEXT NOT NULL,
    runs BIGINT NOT NULL,
    succeeded BIGINT NOT NULL,
    cost_micros BIGINT NOT NULL,
    input_tokens BIGINT NOT NULL,
    output_tokens BIGINT NOT NULL,
    cache_read_tokens BIGINT NOT NULL,
    cache_write_tokens BIGINT NOT NULL,
    model_calls BIGINT NOT NULL,
    tool_calls BIGINT NOT NULL,
    PRIMARY KEY (org_id, day, workflow, model, key_id)
) WITHOUT ROWID;
CREATE TABLE workflow (
    org_id TEXT NOT NULL REFERENCES organization (id),
    name TEXT NOT NULL,
    revision BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    summary TEXT NOT NULL,
    definition TEXT NOT NULL,
    PRIMARY KEY (org_id, name)
);
INSERT INTO api_key VALUES ('key_01m82vw6y8f7pbfdj9xd5kw5de', 'org_01m82vw6y8fgjr4q58ejwc0g1a', 'first admin key', 'admin', X'B034AEE504B59320EB8C466431BAF486C5AB3E5DD73A592CF7D30F0235AFFBA2', 1795392674760949, NULL, NULL, NULL);
INSERT INTO api_key VALUES ('key_01m82vw6yzeq8bx6af1nwt38z8', 'org_01m82vw6y8fgjr4q58ejwc0g1a', 'member', 'member', X'25894DE152BE0017AFF4195403BEC713E57541A75522F6C7EA54B1827A9BE4F5', 1795392674783082, NULL, NULL, NULL);
INSERT INTO api_key VALUES ('key_01m82vw6z8e12rvxn8eaqextb2', 'org_01m82vw6y8fgjr4q58ejwc0g1a', 'late', 'member', X'93E1D090A01BC5CF435D3034E21223312A35DAE8999CA84290B232877763E9D1', 1795392674792360, NULL, NULL, NULL);
INSERT INTO api_key VALUES ('key_01m82vw6zbf8f8d3b3a7xmdbx7', 'org_01m82vw6y8fgjr4q58ejwc0g1a', 'expired', 'member', X'5B40E9814ED3F1513A353C1235EE0BA6D9CFE9D53C891B92EF171534D2B4111B', 1795392674795480, 1795392694793000, NULL, NULL);
INSERT INTO api_key VALUES ('key_01m82vw6zgf8a98vv7gwb8cb3v', 'org_01m82vw6y8fgjr4q58ejwc0g1a', 'rotated', 'admin', X'7CB146895F6544FADFAFCC3A1024C946D43801EB1FFAE69578094579EBEAD908', 1795392674800353, NULL, X'C7331364A07F0FEE92BDB6537FB3F9F1676C652512C660541F7CE37EE86F5FEE', 1795392675801016);
INSERT INTO artifact_blob VALUES ('run_01m82vw72qeb0aaw46838jta0z', 'blob_01m82vw739eansmjybt2yhmqhd');
INSERT INTO audit VALUES ('org_01m82vw6y8fgjr4q58ejwc0g1a', 1795392674760951, 'aud_01m82vw6y8fkav55578hpqtvyf', 'key.create', 'key_01m82vw6y8f7pbfdj9xd5kw5de', NULL, NULL, NULL);
INSERT INTO audit VALUES ('org_01m82vw6y8fgjr4q58ejwc0g1a', 1795392674783084, 'aud_01m82vw6yze3xtz226vmsc385n', 'key.create', 'key_01m82vw6yzeq8bx6af1nwt38z8', 'key_01m82vw6y8f7pbfdj9xd5kw5de', '127.0.0.1', 'bd400ecda2e4c02c00000001');
INSERT INTO audit VALUES ('org_01m82vw6y8fgjr4q58ejwc0g1a', 1795392674792361, 'aud_01m82vw6z8f3msaex8pvsevcwm', 'key.create', 'key_01m82vw6z8e12rvxn8eaqextb2', 'key_01m82vw6y8f7pbfdj9xd5kw5de', '127.0.0.1', 'bd400ecda2e4c02c00000002');
INSERT INTO audit VALUES ('org_01m82vw6y8fgjr4q58ejwc0g1a', 1795392674795481, 'aud_01m82vw6zbeza95xtqdnxkaza9', 'key.create', 'key_01m82vw6zbf8f8d3b3a7xmdbx7', 'key_01m82vw6y8f7pbfdj9xd5kw5de', '127.0.0.1', 'bd400ecda2e4c02c00000003');
INSERT INTO audit VALUES ('org_01m82vw6y8fgjr4q58ejwc0g1a', 1795392674800354, 'aud_01m82vw6zge26tdzya0gwn94ab', 'key.create', 'key_01m82vw6zgf8a98vv7gwb8cb3v', 'key_01m82vw6y8f7pbfdj9xd5kw5de', '127.0.0.1', 'bd400ecda2e4c02c00000004');
INSERT INTO audit VALUES ('org_01m82vw6y8fgjr4q58ejwc0g1a', 1795392674801017, 'aud_01m82vw6zhf65t7m5kg9mkgebp', 'key.rotate', 'key_01m82vw6zgf8a98vv7gwb8cb3v', 'key_01m82vw6y8f7pbfdj9xd5kw5de', '127.0.0.1', 'bd400ecda2e4c02c00000005');
INSERT INTO audit VALUES ('org_01m82vw6y8fgjr4q58ejwc0g1a', 1795392674815299, 'aud_01m82vw6zzfsxvf848n92tjxn3', 'file.create', 'file_01m82vw6zzfk4bveg5nb01zkwt', 'key_01m82vw6y8f7pbfdj9xd5kw5de', '127.0.0.1', 'bd400ecda2e4c02c00000006');
INSERT INTO audit VALUES ('org_01m82vw6y8fgjr4q58ejwc0g1a', 1795392674819915, 'aud_01m82vw703f7bs6bt790wpft5x', 'workflow.put', 'report', 'key_01m82vw6y8f7pbfdj9xd5kw5de', '127.0.0.1', 'bd400ecda2e4c02c00000007');
INSERT INTO audit VALUES ('org_01m82vw6y8fgjr4q58ejwc0g1a', 1795392674824074, 'aud_01m82vw708f608sdwgxn053dcg', 'budget.put', 'organization', 'key_01m82vw6y8f7pbfdj9xd5kw5de', '127.0.0.1', 'bd400ecda2e4c02c00000008');
INSERT INTO audit VALUES ('org_01m82vw6y8fgjr4q58ejwc0g1a', 1795392674827941, 'aud_01m82vw70bfjhsps83x08jymhj', 'budget.put', 'key:key_01m82vw6yzeq8bx6af1nwt38z8', 'key_01m82vw6y8f7pbfdj9xd5kw5de', '127.0.0.1', 'bd400ecda2e4c02c00000009');
INSERT INTO audit VALUES ('org_01m82vw6y8fgjr4q58ejwc0g1a', 1795392674828949, 'aud_01m82vw70cfvds2hs2fk3rcjcn', 'budget.put', 'key:key_01m82vw6z8e12rvxn8eaqextb2', 'key_01m82vw6y8f7pbfdj9xd5kw5de', '127.0.0.1', 'bd400ecda2e4c02c0000000a');
INSERT INTO audit VALUES ('org_01m82vw6y8fgjr4q58ejwc0g1a', 1795392674855503, 'aud_01m82vw717fc0rpzmecawmm4pv', 'connection.put', 'api', 'key_01m82vw6y8f7pbfdj9xd5kw5de', '127.0.0.1', 'bd400ecda2e4c02c0000000b');
INSERT INTO audit VALUES ('org_01m82vw6y8fgjr4q58ejwc0g1a', 1795392674859685, 'aud_01m82vw71becprcqxqp35ch57d', 'connection.put', 'crm', 'key_01m82vw6y8f7pbfdj9xd5kw5de', '127.0.0.1', 'bd400ecda2e4c02c0000000c');
INSERT INTO audit VALUES ('org_01m82vw6y8fgjr4q58ejwc0g1a', 1795392674863991, 'aud_01m82vw71ff6hr3g5g8cpm75r0', 'connection.authorize', 'crm', 'key_01m82vw6y8f7pbfdj9xd5kw5de', '127.0.0.1', 'bd400ecda2e4c02c0000000d');
INSERT INTO audit VALUES ('org_01m82vw6y8fgjr4q58ejwc0g1a', 1795392674872809, 'aud_01m82vw71rf76r6hmhq9s854np', 'connection.consented', 'crm', NULL, '127.0.0.1', 'bd400ecda2e4c02c0000000e');
INSERT INTO audit VALUES ('org_01m82vw6y8fgjr4q58ejwc0g1a', 1795392674874302, 'aud_01m82vw71tff9tc4sqw1n0qe0t', 'connection.authorized', 'crm', 'key_01m82vw6y8f7pbfdj9xd5kw5de', '127.0.0.1', 'bd400ecda2e4c02c0000000f');
INSERT INTO audit VALUES ('org_01m82vw6y8fgjr4q58ejwc0g1a', 1795392675027074, 'aud_01m82vw76kesat2bz1t6r1k6ep', 'schedule.create', 'sched_01m82vw76jf1cakwax5815bq4g', 'key_01m82vw6y8f7pbfdj9xd5kw5de', '127.0.0.1', 'bd400ecda2e4c02c00000023');
INSERT INTO audit VALUES ('org_01m82vw6y8fgjr4q58ejwc0g1a', 1795392675031713, 'aud_01m82vw76qf4brpk3408ykjyth', 'schedule.create', 'sched_01m82vw76qftc9qq4y01herza6', 'key_01m82vw6y8f7pbfdj9xd5kw5de', '127.0.0.1', 'bd400ecda2e4c02c00000024');
INSERT INTO blob VALUES ('blob_01m82vw6zmfqxstnkpx8pmbsbt', 'org_01m82vw6y8fgjr4q58ejwc0g1a', X'F7712751E993B9972137E8DED3207D99D8747E041999182851225714EE0070E2', 9, 1795392674804025, 1795396274815296, NULL);
INSERT INTO blob VALUES ('blob_01m82vw739eansmjybt2yhmqhd', 'org_01m82vw6y8fgjr4q58ejwc0g1a', X'14E4CCE86788499D03144F70AB24CA83D1ABE97D55153C71EE1DF55C5296C1F9', 10, 1795392674921056, 1795396274931503, NULL);
INSERT INTO budget VALUES ('org_01m82vw6y8fgjr4q58ejwc0g1a', 'key:key_01m82vw6yzeq8bx6af1nwt38z8', 500000000, 'month', 1795392674827941, 1795392674827941, 1795392674827941);
INSERT INTO budget VALUES ('org_01m82vw6y8fgjr4q58ejwc0g1a', 'key:key_01m82vw6z8e12rvxn8eaqextb2', 500000000, 'month', 1795392674828949, 1795392674828949, 1795392674828949);
INSERT INTO budget VALUES ('org_01m82vw6y8fgjr4q58ejwc0g1a', 'organization', 500000000, 'month', 1795392674824074, 1795392674824074, 1795392674824074);
INSERT INTO budget_hold VALUES ('run_01m82vxk8cemabrqwzvbczed2h', 'org_01m82vw6y8fgjr4q58ejwc0g1a', 'key:key_01m82vw6z8e12rvxn8eaqextb2', 1795392674828949, 1793491200000000, 1000000);
INSERT INTO budget_hold VALUES ('run_01m82vxk8cemabrqwzvbczed2h', 'org_01m82vw6y8fgjr4q58ejwc0g1a', 'organization', 1795392674824074, 1793491200000000, 1000000);
INSERT INTO budget_hold VALUES ('run_01m82vxk8ffhv8bafz3fa8fv35', 'org_01m82vw6y8fgjr4q58ejwc0g1a', 'key:key_01m82vw6z8e12rvxn8eaqextb2', 1795392674828949, 1793491200000000, 1000000);
INSERT INTO budget_hold VALUES ('run_01m82vxk8ffhv8bafz3fa8fv35', 'org_01m82vw6y8fgjr4q58ejwc0g1a', 'organization', 1795392674824074, 1793491200000000, 1000000);
INSERT INTO budget_window VALUES ('org_01m82vw6y8fgjr4q58ejwc0g1a', 'key:key_01m82vw6yzeq8bx6af1nwt38z8', 1795392674827941, 1793491200000000, 0, 104);
INSERT INTO budget_window VALUES ('org_01m82vw6y8fgjr4q58ejwc0g1a', 'key:key_01m82vw6z8e12rvxn8eaqextb2', 1795392674828949, 1793491200000000, 2000000, 0);
INSERT INTO budget_window VALUES ('org_01m82vw6y8fgjr4q58ejwc0g1a', 'organization', 1795392674824074, 1793491200000000, 2000000, 136);
INSERT INTO connection VALUES ('conn_01m82vw714f8m839vngg9md0xk', 'org_01m82vw6y8fgjr4q58ejwc0g1a', 'api', '{"type":"http","url":"http://127.0.16.1:21601/echo","auth":{"type":"bearer"},"headers":{"X-Key":""}}', X'01E0A0E56296804BAB85BE5711A57D08BED4B5806C564FE5E3398431CA7FED3B4ADC003E19B0981BD29DD8657810262F31B4478108561CDEE72B7074832DBA1C3B59479D2AB668BE5B59D6FBD649F7DA4B8D4606CC29BF2FBB775D130C3C11315D7CFB3AD61CCCA48B38345CC4D0197A8491B4091CA02B9A89700F216BFE5209A010EE7844E13F9DD1020B248A78477F8835161890C065819D90FEE845C9BF80BB10EC154E8B353F8949FDA520E01B19222787E5472BBA917FF299983B785AE4D4BE0D6FB76EB3E62435856C5158444DE54CEBBAA7260381BBF8D22D3F', NULL, 0, 0, 'ready', NULL, 1, 1795392674855503, 1795392674855503, NULL, NULL);
INSERT INTO connection VALUES ('conn_01m82vw71bekqryb6fdhzhwvrj', 'org_01m82vw6y8fgjr4q58ejwc0g1a', 'crm', '{"type":"http","url":"http://127.0.16.1:21601/guarded","auth":{"type":"oauth"}}', X'01E0A0E56296804BAB827275AC70EFF06030E317235E27EBDBBBEC29A6AFD5664EEBADB9943EB477E070138F358516A2B00C7F4096E6CA4D5569C97E99D74583072C00B97C26A7981EB4EC208D505511988D8FC3C3C249D3E0C31F32B4403ABBEB19E4AE2DDA096979E51BA4A5F34C1C666D09EE888F85F8468B9EDD3C3A2D7F2D8A16F322CB958B0BBAF928FA0148EC50ABA0DB3AD057E00B25108194B7E3A74786D24C453FEB96CB414D61140E57569A48E061C98759E2E4E9471F8BD377D75FA18D4047E5ACC4F6FFDFD276B84769C6D81AF31FED52B0F8D9B26E43B0512FAF4243E6BFEED827E46368BFD8C544C9C476C924B363AE7114A34942DF940847982972A4732792A27DDF850F092A11F65B979EECC8306769AC2ECCE61C5CF07C61496D352F4DF9A32E8102D40669FB8AE56A673FCD417FFE803AA47CB09B57CE', X'01E0A0E56296804BAB11E29D96B19F48D80E336CF21266011DBE8E25E4D8E05B502FEEADD6041DA60ECFA656F5F70E085FDAC869E943A0172390E67D2879D610394B8FEBBBEA8DC04E7C3C6DB822559CD73749A382EFE703EB588403EB4852CCB149A74ECDD1DF159C0A5AF28719E1D58459091907DAD9E699D9827C26E356AF95A709ABA50011B86D840CC413FAADE0FC4834A04C4F03997BA2A7D60543F38E2F135BCFD5BD09CA1B9498A44B6BD6A2F5EE32201CC605341D53929A219732CD6916ECCAC0BBC08C5C4FC2A888494DA6F6FB30F27871D60F20769916720A8D1728EE1438D4209F239D170D7AAFAEA50EAC27E0457584D44DC45E92ECE4CD87485533609AA436CB5A4E2A91C70D58C9CABDB4A810C934B1D7C5DD59D83DC521CAFF2CC09CD82FF95FC5FCBEA3CC424BC32F8B38CE3D5A582C148BAFA80F60A7BBFF6FF1EDAC0C7D0458F5BC21DA6CE24E3753101A7521BBC06F020DDD6CC908BE4878EB3A7C570824EA93B9B5D45D559F8243B668E286EC7BB5C9AE0397B1856B002D0582D5214AF312BDE5BF48DDCD1DBCD18AD5548D7906BA4585CE46E4E6BE5848D89BC80B9B8B854C83E0C38DD2CA62EFC221043B5719B7E6E1378DC43D52B41B54F5DCCBE2F76726020A4F0D3788', 1, 0, 'ready', NULL, 1, 1795392674859685, 1795392674859685, NULL, NULL);
INSERT INTO delivery VALUES ('run_01m82vw73nfndsjgb6r6v575rp', 'org_01m82vw6y8fgjr4q58ejwc0g1a', '127.0.16.1:21602', X'01E0A0E56296804BAB0988FB2534B2AE0D63D0636DF4D5734767FE79B7C885EC33BE2691F39079336E3F9B0CEC1A296421EDC615A766749A3011E62EC9CD5C970D60B2F11E8893D69FC12E3D7DE226E00D5F6F9ED73CE22FB30111DDD3EDC6A78B350B22814C75964771AC3940AFB3C5', 1, 0, NULL, 1795651874939542, 1, NULL);
INSERT INTO delivery VALUES ('run_01m82vxk8ffhv8bafz3fa8fv35', 'org_01m82vw6y8fgjr4q58ejwc0g1a', '127.0.16.1:21602', X'01E0A0E56296804BAB358635FE937BB2B7162B4AC9F0200EA34FC6228145E70C74D2D762DA98EDAC84FA7C969E05FD86431DAA42264DE930A54D5D83639FC473F494A37D4DFAB724FBA1A75C80BF84D81BEE1246D130363BFD3340A64B6BDBAC53990DAE7D3722F3AD257925960EFF6B', 0, 0, NULL, NULL, 0, NULL);
INSERT INTO delivery_attempt VALUES ('run_01m82vw73nfndsjgb6r6v575rp', 1, 1795392674944854, 204, NULL, 0, NULL);
INSERT INTO dispatch VALUES (1, 12, 'org_01m82vw6y8fgjr4q58ejwc0g1a');
INSERT INTO event VALUES ('run_01m82vw71vftnsxrt9dmhrmxmb', 1, 'status', '{"status":"queued"}', 1795392674875284);
INSERT INTO event VALUES ('run_01m82vw71vftnsxrt9dmhrmxmb', 2, 'status', '{"status":"starting"}', 1795392674876082);
INSERT INTO event VALUES ('run_01m82vw71vftnsxrt9dmhrmxmb', 3, 'status', '{"status":"running"}', 1795392674877652);
INSERT INTO event VALUES ('run_01m82vw71vftnsxrt9dmhrmxmb', 4, 'worker_started', '{"runtime":"namespaces","mode":"self-hosted","shell":true}', 1795392674877654);
INSERT INTO event VALUES ('run_01m82vw71vftnsxrt9dmhrmxmb', 5, 'model_call', '{"model":"runbook","step":1,"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"cost_micros":0,"duration_ms":0,"stop_reason":"end_turn"}', 1795392674877805);
INSERT INTO event VALUES ('run_01m82vw71vftnsxrt9dmhrmxmb', 6, 'message', '{"text":"hello","step":1}', 1795392674877817);
INSERT INTO event VALUES ('run_01m82vw71vftnsxrt9dmhrmxmb', 7, 'result', '{"output":"hello"}', 1795392674878365);
INSERT INTO event VALUES ('run_01m82vw71vftnsxrt9dmhrmxmb', 8, 'status', '{"status":"succeeded"}', 1795392674878365);
INSERT INTO event VALUES ('run_01m82vw720faybd3rxc3w4n20b', 1, 'status', '{"status":"queued"}', 1795392674880004);
INSERT INTO event VALUES ('run_01m82vw720faybd3rxc3w4n20b', 2, 'status', '{"status":"starting"}', 1795392674880584);
INSERT INTO event VALUES ('run_01m82vw720faybd3rxc3w4n20b', 3, 'status', '{"status":"running"}', 1795392674883321);
INSERT INTO event VALUES ('run_01m82vw720faybd3rxc3w4n20b', 4, 'worker_started', '{"runtime":"namespaces","mode":"self-hosted","shell":true}', 1795392674883323);
INSERT INTO event VALUES ('run_01m82vw720faybd3rxc3w4n20b', 5, 'model_call', '{"model":"runbook","step":1,"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"cost_micros":0,"duration_ms":0,"stop_reason":"tool_use"}', 1795392674883446);
INSERT INTO event VALUES ('run_01m82vw720faybd3rxc3w4n20b', 6, 'tool_start', '{"tool":"shell","id":"block_1","arguments":{"command":"echo oh >&2; exit 3"}}', 1795392674883484);
INSERT INTO event VALUES ('run_01m82vw720faybd3rxc3w4n20b', 7, 'tool_end', '{"tool":"shell","id":"block_1","is_error":true,"output":"[the command exited with status 3]\n[stderr]\noh\n","output_bytes":47,"duration_ms":16}', 1795392674900412);
INSERT INTO event VALUES ('run_01m82vw720faybd3rxc3w4n20b', 8, 'status', '{"status":"failed","error":"block 1 exited with status 3: oh"}', 1795392674901689);
INSERT INTO event VALUES ('run_01m82vw72qeb0aaw46838jta0z', 1, 'status', '{"status":"queued"}', 1795392674903641);
INSERT INTO event VALUES ('run_01m82vw72qeb0aaw46838jta0z', 2, 'status', '{"status":"starting"}', 1795392674904213);
INSERT INTO event VALUES ('run_01m82vw72qeb0aaw46838jta0z', 3, 'status', '{"status":"running"}', 1795392674906772);
INSERT INTO event VALUES ('run_01m82vw72qeb0aaw46838jta0z', 4, 'worker_started', '{"runtime":"namespaces","mode":"self-hosted","shell":true}', 1795392674906774);
INSERT INTO event VALUES ('run_01m82vw72qeb0aaw46838jta0z', 5, 'model_call', '{"model":"runbook","step":1,"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"cost_micros":0,"duration_ms":0,"stop_reason":"tool_use"}', 1795392674906923);
INSERT INTO event VALUES ('run_01m82vw72qeb0aaw46838jta0z', 6, 'tool_start', '{"tool":"shell","id":"block_1","arguments":{"command":"mkdir outputs && printf ''the report'' > outputs/report.md"}}', 1795392674906967);
INSERT INTO event VALUES ('run_01m82vw72qeb0aaw46838jta0z', 7, 'tool_end', '{"tool":"shell","id":"block_1","is_error":false,"output":"[the command exited with status 0]\n","output_bytes":35,"duration_ms":11}', 1795392674918704);
INSERT INTO event VALUES ('run_01m82vw72qeb0aaw46838jta0z', 8, 'model_call', '{"model":"runbook","step":2,"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"cost_micros":0,"duration_ms":0,"stop_reason":"end_turn"}', 1795392674918797);
INSERT INTO event VALUES ('run_01m82vw72qeb0aaw46838jta0z', 9, 'artifact', '{"path":"report.md","size":10,"sha256":"14e4cce86788499d03144f70ab24ca83d1abe97d55153c71ee1df55c5296c1f9","content_type":"text/markdown"}', 1795392674931507);
INSERT INTO event VALUES ('run_01m82vw72qeb0aaw46838jta0z', 10, 'result', '{"output":""}', 1795392674931516);
INSERT INTO event VALUES ('run_01m82vw72qeb0aaw46838jta0z', 11, 'status', '{"status":"succeeded"}', 1795392674931516);
INSERT INTO event VALUES ('run_01m82vw73nfndsjgb6r6v575rp', 1, 'status', '{"status":"queued"}', 1795392674933579);
INSERT INTO event VALUES ('run_01m82vw73nfndsjgb6r6v575rp', 2, 'status', '{"status":"starting"}', 1795392674935653);
INSERT INTO event VALUES ('run_01m82vw73nfndsjgb6r6v575rp', 3, 'status', '{"status":"running"}', 1795392674938353);
INSERT INTO event VALUES ('run_01m82vw73nfndsjgb6r6v575rp', 4, 'worker_started', '{"runtime":"namespaces","mode":"self-hosted","shell":true}', 1795392674938356);
INSERT INTO event VALUES ('run_01m82vw73nfndsjgb6r6v575rp', 5, 'model_call', '{"model":"runbook","step":1,"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"cost_micros":0,"duration_ms":0,"stop_reason":"end_turn"}', 1795392674938500);
INSERT INTO event VALUES ('run_01m82vw73nfndsjgb6r6v575rp', 6, 'message', '{"text":"called","step":1}', 1795392674938512);
INSERT INTO event VALUES ('run_01m82vw73nfndsjgb6r6v575rp', 7, 'result', '{"output":"called"}', 1795392674939542);
INSERT INTO event VALUES ('run_01m82vw73nfndsjgb6r6v575rp', 8, 'status', '{"status":"succeeded"}', 1795392674939542);
INSERT INTO event VALUES ('run_01m82vw740fpd96gam9jhfmtd7', 1, 'status', '{"status":"queued"}', 1795392674944704);
INSERT INTO event VALUES ('run_01m82vw740fpd96gam9jhfmtd7', 2, 'status', '{"status":"starting"}', 1795392674946862);
INSERT INTO event VALUES ('run_01m82vw740fpd96gam9jhfmtd7', 3, 'status', '{"status":"running"}', 1795392674952078);
INSERT INTO event VALUES ('run_01m82vw740fpd96gam9jhfmtd7', 4, 'worker_started', '{"runtime":"namespaces","mode":"self-hosted","shell":true}', 1795392674952082);
INSERT INTO event VALUES ('run_01m82vw740fpd96gam9jhfmtd7', 5, 'model_call', '{"model":"runbook","step":1,"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"cost_micros":0,"duration_ms":0,"stop_reason":"tool_use"}', 1795392674952368);
INSERT INTO event VALUES ('run_01m82vw740fpd96gam9jhfmtd7', 6, 'tool_start', '{"tool":"shell","id":"block_1","arguments":{"command":"cat data.txt"}}', 1795392674952411);
INSERT INTO event VALUES ('run_01m82vw740fpd96gam9jhfmtd7', 7, 'tool_end', '{"tool":"shell","id":"block_1","is_error":false,"output":"[the command exited with status 0]\n[stdout]\nthe data\n","output_bytes":53,"duration_ms":28}', 1795392674981263);
INSERT INTO event VALUES ('run_01m82vw740fpd96gam9jhfmtd7', 8, 'model_call', '{"model":"runbook","step":2,"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"cost_micros":0,"duration_ms":0,"stop_reason":"end_turn"}', 1795392674981353);
INSERT INTO event VALUES ('run_01m82vw740fpd96gam9jhfmtd7', 9, 'message', '{"text":"the data\n","step":2}', 1795392674981361);
INSERT INTO event VALUES ('run_01m82vw740fpd96gam9jhfmtd7', 10, 'result', '{"output":"the data\n"}', 1795392674984320);
INSERT INTO event VALUES ('run_01m82vw740fpd96gam9jhfmtd7', 11, 'status', '{"status":"succeeded"}', 1795392674984320);
INSERT INTO event VALUES ('run_01m82vw75cebg8y9rxfq8mn4x7', 1, 'status', '{"status":"queued"}', 1795392674988560);
INSERT INTO event VALUES ('run_01m82vw75cebg8y9rxfq8mn4x7', 2, 'status', '{"status":"starting"}', 1795392674989847);
INSERT INTO event VALUES ('run_01m82vw75cebg8y9rxfq8mn4x7', 3, 'status', '{"status":"cancelled"}', 1795392674990068);
INSERT INTO event VALUES ('run_01m82vw76bf4z9ynkhypw9pcge', 1, 'status', '{"status":"queued"}', 1795392675019659);
INSERT INTO event VALUES ('run_01m82vw76bf4z9ynkhypw9pcge', 2, 'status', '{"status":"starting"}', 1795392675022470);
INSERT INTO event VALUES ('run_01m82vw76bf4z9ynkhypw9pcge', 3, 'status', '{"status":"running"}', 1795392675024219);
INSERT INTO event VALUES ('run_01m82vw76bf4z9ynkhypw9pcge', 4, 'worker_started', '{"runtime":"namespaces","mode":"self-hosted","shell":true}', 1795392675024222);
INSERT INTO event VALUES ('run_01m82vw76bf4z9ynkhypw9pcge', 5, 'model_call', '{"model":"runbook","step":1,"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"cost_micros":0,"duration_ms":0,"stop_reason":"end_turn"}', 1795392675024351);
INSERT INTO event VALUES ('run_01m82vw76bf4z9ynkhypw9pcge', 6, 'message', '{"text":"once","step":1}', 1795392675024362);
INSERT INTO event VALUES ('run_01m82vw76bf4z9ynkhypw9pcge', 7, 'result', '{"output":"once"}', 1795392675024791);
INSERT INTO event VALUES ('run_01m82vw76bf4z9ynkhypw9pcge', 8, 'status', '{"status":"succeeded"}', 1795392675024791);
INSERT INTO event VALUES ('run_01m82vxk41ftf9h77ws1ac4qw9', 1, 'status', '{"status":"queued"}', 1795392720001584);
INSERT INTO event VALUES ('run_01m82vxk41ftf9h77ws1ac4qw9', 2, 'status', '{"status":"starting"}', 1795392720002921);
INSERT INTO event VALUES ('run_01m82vxk41ftf9h77ws1ac4qw9', 3, 'status', '{"status":"running"}', 1795392720006087);
INSERT INTO event VALUES ('run_01m82vxk41ftf9h77ws1ac4qw9', 4, 'worker_started', '{"runtime":"namespaces","mode":"self-hosted","shell":true}', 1795392720006092);
INSERT INTO event VALUES ('run_01m82vxk41ftf9h77ws1ac4qw9', 5, 'model_call', '{"model":"runbook","step":1,"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"cost_micros":0,"duration_ms":0,"stop_reason":"tool_use"}', 1795392720006261);
INSERT INTO event VALUES ('run_01m82vxk41ftf9h77ws1ac4qw9', 6, 'tool_start', '{"tool":"shell","id":"block_1","arguments":{"command":"cat data.txt"}}', 1795392720006313);
INSERT INTO event VALUES ('run_01m82vxk41ftf9h77ws1ac4qw9', 7, 'tool_end', '{"tool":"shell","id":"block_1","is_error":false,"output":"[the command exited with status 0]\n[stdout]\nthe data\n","output_bytes":53,"duration_ms":27}', 1795392720033784);
INSERT INTO event VALUES ('run_01m82vxk41ftf9h77ws1ac4qw9', 8, 'model_call', '{"model":"runbook","step":2,"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"cost_micros":0,"duration_ms":0,"stop_reason":"end_turn"}', 1795392720033856);
INSERT INTO event VALUES ('run_01m82vxk41ftf9h77ws1ac4qw9', 9, 'message', '{"text":"the data\n","step":2}', 1795392720033882);
INSERT INTO event VALUES ('run_01m82vxk41ftf9h77ws1ac4qw9', 10, 'result', '{"output":"the data\n"}', 1795392720034919);
INSERT INTO event VALUES ('run_01m82vxk41ftf9h77ws1ac4qw9', 11, 'status', '{"status":"succeeded"}', 1795392720034919);
INSERT INTO event VALUES ('run_01m82vxk8cemabrqwzvbczed2h', 1, 'status', '{"status":"queued"}', 1795392720140145);
INSERT INTO event VALUES ('run_01m82vxk8cemabrqwzvbczed2h', 2, 'status', '{"status":"starting"}', 1795392720140995);
INSERT INTO event VALUES ('run_01m82vxk8cemabrqwzvbczed2h', 3, 'status', '{"status":"running"}', 1795392720142273);
INSERT INTO event VALUES ('run_01m82vxk8cemabrqwzvbczed2h', 4, 'worker_started', '{"runtime":"namespaces","mode":"self-hosted","shell":true}', 1795392720142275);
INSERT INTO event VALUES ('run_01m82vxk8ffhv8bafz3fa8fv35', 1, 'status', '{"status":"queued"}', 1795392720143108);
INSERT INTO file VALUES ('file_01m82vw6zzfk4bveg5nb01zkwt', 'org_01m82vw6y8fgjr4q58ejwc0g1a', 'data.txt', 'blob_01m82vw6zmfqxstnkpx8pmbsbt', 9, X'F7712751E993B9972137E8DED3207D99D8747E041999182851225714EE0070E2', 'text/plain', 1795392674815287);
INSERT INTO fire VALUES ('sched_01m82vw76qftc9qq4y01herza6', 1795392720000000, '', 1795392720000000, 1, 'started', NULL, 'run_01m82vxk41ftf9h77ws1ac4qw9', 1795392720001281);
INSERT INTO migration VALUES (1, 'runs', '74e444b15cb28521b536d713f9b8309c6e30583856e7128b0736c681bc7a0b15');
INSERT INTO migration VALUES (2, 'journal', '618d35513d8588bfd3b351f0f67ddf28814ee7d5654fc3963d755872802e036d');
INSERT INTO migration VALUES (3, 'connections', 'aab0af613922d451d7c03a1c3dc5be789bb804f66ad685e3cd8b222bb9a1be92');
INSERT INTO migration VALUES (4, 'run_details', 'c69d8f765069d039526367fa6d97127d3518776f91a863ce7d5e396687e15d0a');
INSERT INTO migration VALUES (5, 'workflows', 'd1d2e8aaa20a09aad6ad3da65b0597e29d3c94aaf1ed5706ca0b7145225127d5');
INSERT INTO migration VALUES (6, 'schedules', 'e4bd0b077787c3664c856b2b2abbaac16d46b5640b846f821b8c686771172685');
INSERT INTO migration VALUES (7, 'files', '24a4b4824501248f1b2332a26e1524b1917f66379da7f8884472d37f3bab3c1a');
INSERT INTO migration VALUES (8, 'artifacts', '9a239a6fa65a32e108d95fdae830b5b4d71995be9fc08872021623ceef10bba9');
INSERT INTO migration VALUES (9, 'callbacks', '50755556b2bcce3f8ad126364d55cdca91eacc13cf06e3fcc75f8841a41ddac2');
INSERT INTO migration VALUES (10, 'zero_data_retention', 'c188dd8bded0e1eb166514767a303e96e7bf1646cbd22ba9b621fab15141886f');
INSERT INTO migration VALUES (11, 'administration', 'f5064a65e40ec1eeda93b4881ac30cfd6719bfc9d2f6966c7a40b86a780b5190');
INSERT INTO migration VALUES (12, 'budgets', '5fdca2ef3bef9db40d14f012594fa12dbf886235be994519265fa75dc810b58a');
INSERT INTO migration VALUES (13, 'rate_limits', '7d04131dfd2fb088dfc9a3fc971a3f962d57f42542c778d3255cbb2611a6fd01');
INSERT INTO migration VALUES (14, 'trace_context', '27a37e789dffde7fc6c2bb851b4ade3adb73c03a5f3117bf2df26620a330de8d');
INSERT INTO migration VALUES (15, 'cluster', '1ebc4c878ef47c8ed7ff2eeea3f14febd5da83b644952d35dd65a9f00d9a3335');
INSERT INTO migration VALUES (16, 'master_keys', '8c2f777ba8c3bc2ac9b1a5c91bac8722d84fac2953e83840b0f4119929abc8bd');
INSERT INTO migration VALUES (17, 'clocks', 'a3831397a973f804b2a4578896cbad2b427336b317ace9598f58f1934618aa77');
INSERT INTO migration VALUES (18, 'confirmed_authorizations', 'f3c248d911a2e1081b6b9f1b03d65bed96137c7c59fb9b1179db38ece4a92093');
INSERT INTO node VALUES (9116957092530944546, 'node-333b794b140c4f4f', 1795392674753982, 1795392729774134, NULL, 'http://127.0.0.1:33393', '0.1.0', NULL, 'e0a0e56296804bab,addressed');
INSERT INTO organization VALUES ('org_01m82vw6y8fgjr4q58ejwc0g1a', 'default', 1795392674760949, 0);
INSERT INTO queue VALUES ('run_01m82vxk8cemabrqwzvbczed2h', 'org_01m82vw6y8fgjr4q58ejwc0g1a', 1795392720140145, 9116957092530944546, NULL);
INSERT INTO queue VALUES ('run_01m82vxk8ffhv8bafz3fa8fv35', 'org_01m82vw6y8fgjr4q58ejwc0g1a', 1795392720143108, NULL, NULL);
INSERT INTO run VALUES ('run_01m82vw71vftnsxrt9dmhrmxmb', 'org_01m82vw6y8fgjr4q58ejwc0g1a', 'succeeded', 'succeeded', 1, 8, 1795392674875284, 1795392674876082, 1795392674878365, 1000000, 3, 0, 300, NULL, NULL, NULL, 0, NULL, 'runbook', 'key_01m82vw6yzeq8bx6af1nwt38z8', '["upgrade","x"]', 0, 0, 0, 0, 0, 1, 0, 0, NULL, 0, 0, NULL, 1, NULL, NULL, 1795392674876082, NULL);
INSERT INTO run VALUES ('run_01m82vw720faybd3rxc3w4n20b', 'org_01m82vw6y8fgjr4q58ejwc0g1a', 'failed', 'failed', 1, 8, 1795392674880004, 1795392674880584, 1795392674901689, 1000000, 22, 0, 300, NULL, NULL, 'block 1 exited with status 3: oh', 0, NULL, 'runbook', 'key_01m82vw6yzeq8bx6af1nwt38z8', NULL, 0, 0, 0, 0, 0, 1, 1, 0, NULL, 0, 0, NULL, 1, NULL, NULL, 1795392674880584, NULL);
INSERT INTO run VALUES ('run_01m82vw72qeb0aaw46838jta0z', 'org_01m82vw6y8fgjr4q58ejwc0g1a', 'succeeded', 'succeeded', 1, 11, 1795392674903641, 1795392674904213, 1795392674931516, 1000000, 28, 0, 300, NULL, NULL, NULL, 0, NULL, 'runbook', 'key_01m82vw6yzeq8bx6af1nwt38z8', NULL, 0, 0, 0, 0, 0, 2, 1, 1, NULL, 0, 0, NULL, 1, NULL, NULL, 1795392674904213, NULL);
INSERT INTO run VALUES ('run_01m82vw73nfndsjgb6r6v575rp', 'org_01m82vw6y8fgjr4q58ejwc0g1a', 'succeeded', 'succeeded', 1, 8, 1795392674933579, 1795392674935653, 1795392674939542, 1000000, 4, 0, 300, NULL, NULL, NULL, 0, NULL, 'runbook', 'key_01m82vw6yzeq8bx6af1nwt38z8', NULL, 0, 0, 0, 0, 0, 1, 0, 0, '127.0.16.1:21602', 0, 0, NULL, 1, NULL, NULL, 1795392674935653, NULL);
INSERT INTO run VALUES ('run_01m82vw740fpd96gam9jhfmtd7', 'org_01m82vw6y8fgjr4q58ejwc0g1a', 'succeeded', 'succeeded', 1, 11, 1795392674944704, 1795392674946862, 1795392674984320, 1000000, 38, 0, 300, NULL, NULL, NULL, 0, 'report', 'runbook', 'key_01m82vw6yzeq8bx6af1nwt38z8', NULL, 0, 0, 0, 0, 0, 2, 1, 0, NULL, 0, 0, NULL, 1, NULL, NULL, 1795392674946862, NULL);
INSERT INTO run VALUES ('run_01m82vw75cebg8y9rxfq8mn4x7', 'org_01m82vw6y8fgjr4q58ejwc0g1a', 'cancelled', 'cancelled', 1, 3, 1795392674988560, 1795392674989847, 1795392674990068, 1000000, 3, 0, 900, NULL, NULL, NULL, 0, NULL, 'runbook', 'key_01m82vw6yzeq8bx6af1nwt38z8', NULL, 0, 0, 0, 0, 0, 0, 0, 0, NULL, 0, 0, NULL, 1, NULL, NULL, 1795392674989847, 1795392674990068);
INSERT INTO run VALUES ('run_01m82vw75wf6ss3etgwe387n1p', 'org_01m82vw6y8fgjr4q58ejwc0g1a', 'succeeded', 'succeeded', 1, 8, 1795392675004405, 1795392675012669, 1795392675015475, 1000000, 3, 0, 300, NULL, NULL, NULL, 0, NULL, 'runbook', 'key_01m82vw6yzeq8bx6af1nwt38z8', NULL, 1, 0, 0, 0, 0, 1, 0, 0, NULL, 0, 0, NULL, 1, NULL, NULL, 1795392675012669, NULL);
INSERT INTO run VALUES ('run_01m82vw76bf4z9ynkhypw9pcge', 'org_01m82vw6y8fgjr4q58ejwc0g1a', 'succeeded', 'succeeded', 1, 8, 1795392675019659, 1795392675022470, 1795392675024791, 1000000, 3, 0, 300, 'once', NULL, NULL, 0, NULL, 'runbook', 'key_01m82vw6yzeq8bx6af1nwt38z8', NULL, 0, 0, 0, 0, 0, 1, 0, 0, NULL, 0, 0, NULL, 1, NULL, NULL, 1795392675022470, NULL);
INSERT INTO run VALUES ('run_01m82vxk41ftf9h77ws1ac4qw9', 'org_01m82vw6y8fgjr4q58ejwc0g1a', 'succeeded', 'succeeded', 1, 11, 1795392720001584, 1795392720002921, 1795392720034919, 1000000, 32, 0, 300, NULL, 'sched_01m82vw76qftc9qq4y01herza6', NULL, 0, 'report', 'runbook', NULL, NULL, 0, 0, 0, 0, 0, 2, 1, 0, NULL, 0, 0, NULL, 1, NULL, NULL, 1795392720002921, NULL);
INSERT INTO run VALUES ('run_01m82vxk8cemabrqwzvbczed2h', 'org_01m82vw6y8fgjr4q58ejwc0g1a', 'running', NULL, 1, 4, 1795392720140145, 1795392720140995, NULL, 1000000, 0, 1, 30, NULL, NULL, NULL, 0, NULL, 'runbook', 'key_01m82vw6z8e12rvxn8eaqextb2', NULL, 0, 0, 0, 0, 0, 0, 0, 0, NULL, 0, 0, NULL, 1, NULL, NULL, 1795392720140995, NULL);
INSERT INTO run VALUES ('run_01m82vxk8ffhv8bafz3fa8fv35', 'org_01m82vw6y8fgjr4q58ejwc0g1a', 'queued', NULL, 0, 1, 1795392720143108, NULL, NULL, 1000000, 0, 1, 300, NULL, NULL, NULL, 0, NULL, 'runbook', 'key_01m82vw6z8e12rvxn8eaqextb2', NULL, 0, 0, 0, 0, 0, 0, 0, 0, '127.0.16.1:21602', 0, 0, NULL, 1, NULL, NULL, NULL, NULL);
INSERT INTO run_artifacts VALUES ('run_01m82vw72qeb0aaw46838jta0z', '[{"path":"report.md","size":10,"sha256":"14e4cce86788499d03144f70ab24ca83d1abe97d55153c71ee1df55c5296c1f9","content_type":"text/markdown","blob":"blob_01m82vw739eansmjybt2yhmqhd"}]');
INSERT INTO run_definition VALUES ('run_01m82vw71vftnsxrt9dmhrmxmb', '{"prompt":"hello","input":{"a":[1,null]},"model":"runbook","timeout_seconds":300,"shell":true,"max_cost_micros":1000000,"tags":["upgrade","x"]}', NULL);
INSERT INTO run_definition VALUES ('run_01m82vw720faybd3rxc3w4n20b', '{"prompt":"```sh\necho oh >&2; exit 3\n```\n","model":"runbook","timeout_seconds":300,"shell":true,"max_cost_micros":1000000}', NULL);
INSERT INTO run_definition VALUES ('run_01m82vw72qeb0aaw46838jta0z', '{"prompt":"```sh\nmkdir outputs && printf ''the report'' > outputs/report.md\n```\n","model":"runbook","timeout_seconds":300,"shell":true,"max_cost_micros":1000000}', NULL);
INSERT INTO run_definition VALUES ('run_01m82vw73nfndsjgb6r6v575rp', '{"prompt":"called","model":"runbook","timeout_seconds":300,"shell":true,"max_cost_micros":1000000}', NULL);
INSERT INTO run_definition VALUES ('run_01m82vw740fpd96gam9jhfmtd7', '{"prompt":"```sh\ncat data.txt\n```\n","model":"runbook","files":[{"path":"data.txt","file":"file_01m82vw6zzfk4bveg5nb01zkwt"}],"timeout_seconds":300,"shell":true,"max_cost_micros":1000000}', NULL);
INSERT INTO run_definition VALUES ('run_01m82vw75cebg8y9rxfq8mn4x7', '{"prompt":"```wait 600000\n```\n","model":"runbook","timeout_seconds":900,"shell":true,"max_cost_micros":1000000}', NULL);
INSERT INTO run_definition VALUES ('run_01m82vw76bf4z9ynkhypw9pcge', '{"prompt":"once","model":"runbook","timeout_seconds":300,"shell":true,"max_cost_micros":1000000}', NULL);
INSERT INTO run_definition VALUES ('run_01m82vxk41ftf9h77ws1ac4qw9', '{"prompt":"```sh\ncat data.txt\n```\n","model":"runbook","files":[{"path":"data.txt","file":"file_01m82vw6zzfk4bveg5nb01zkwt"}],"timeout_seconds":300,"shell":true,"max_cost_micros":1000000}', NULL);
INSERT INTO run_definition VALUES ('run_01m82vxk8cemabrqwzvbczed2h', '{"prompt":"```wait 600000\n```\n","model":"runbook","timeout_seconds":30,"shell":true,"max_cost_micros":1000000}', NULL);
INSERT INTO run_definition VALUES ('run_01m82vxk8ffhv8bafz3fa8fv35', '{"prompt":"```tool inline__request\n{\"method\":\"GET\"}\n```\n","model":"runbook","connections":{"inline":{"type":"http","url":"http://127.0.16.1:21601/echo","headers":{"X-Key":""}}},"timeout_seconds":300,"shell":false,"max_cost_micros":1000000}', '["inline"]');
INSERT INTO run_output VALUES ('run_01m82vw71vftnsxrt9dmhrmxmb', 'hello');
INSERT INTO run_output VALUES ('run_01m82vw72qeb0aaw46838jta0z', '');
INSERT INTO run_output VALUES ('run_01m82vw73nfndsjgb6r6v575rp', 'called');
INSERT INTO run_output VALUES ('run_01m82vw740fpd96gam9jhfmtd7', 'the data
');
INSERT INTO run_output VALUES ('run_01m82vw76bf4z9ynkhypw9pcge', 'once');
INSERT INTO run_output VALUES ('run_01m82vxk41ftf9h77ws1ac4qw9', 'the data
');
INSERT INTO run_secret VALUES ('run_01m82vxk8ffhv8bafz3fa8fv35', X'01E0A0E56296804BABA4AC941450477FF53037AB0197DC6470E97E061CAE8A59E0F03CC01FCA1564C3A9B0DF31C06C4388B81BC44250AE3DAFFC3AA832E41578489159BFECC25ABFF2A3CDF90B1D911E908F9208E861086DEA4F3DFF6F07559B98E1B3A6143F378E2D9BC59609D3A9E07CEF5F669DB2C062FC287BB2C8B32BCCFFDE24242F5A10558773B4A5BF5164F0D4140BCC8D00F96E9C72ABAC2F79E28CBCD62FF65F708AD88FB9D35A3BDD7B69F973879C4844C2E66E5E3468F293DA');
INSERT INTO run_tag VALUES ('org_01m82vw6y8fgjr4q58ejwc0g1a', 'upgrade', 1795392674875284, 'run_01m82vw71vftnsxrt9dmhrmxmb');
INSERT INTO run_tag VALUES ('org_01m82vw6y8fgjr4q58ejwc0g1a', 'x', 1795392674875284, 'run_01m82vw71vftnsxrt9dmhrmxmb');
INSERT INTO schedule VALUES ('sched_01m82vw76jf1cakwax5815bq4g', 'org_01m82vw6y8fgjr4q58ejwc0g1a', 'rest', 'report', '30 7 * * MON-FRI', 'Europe/Berlin', NULL, 0, 'allow', 3600, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1795392675026730, NULL, 1795392675026730, NULL, NULL, NULL, 1, 1795392675026730, 1795392675026730);
INSERT INTO schedule VALUES ('sched_01m82vw76qftc9qq4y01herza6', 'org_01m82vw6y8fgjr4q58ejwc0g1a', 'each minute', 'report', '* * * * *', 'UTC', NULL, 1, 'allow', 3600, 0, NULL, NULL, NULL, NULL, NULL, 1795392780000000, 1795392780000000, 1795392720000000, NULL, 1795392675031526, 1795392720001584, 'run_01m82vxk41ftf9h77ws1ac4qw9', NULL, 2, 1795392675031526, 1795392675031526);
INSERT INTO seal_check VALUES (1, X'01E0A0E56296804BABF1312F6AED9331A85E35A2562B8CF1FE0F6C934F759A0BA0AA09CFA8A3324E6F1518E3746025306E4239C3611F12E880375D93B0F0BABEC6');
INSERT INTO unretained VALUES ('run_01m82vw75wf6ss3etgwe387n1p', 9116957092530944546);
INSERT INTO workflow VALUES ('org_01m82vw6y8fgjr4q58ejwc0g1a', 'report', 1, 1795392674819915, 1795392674819915, '{"name":"report"}', '{"prompt":"```sh\ncat data.txt\n```\n","files":[{"path":"data.txt","file":"data.txt"}]}');
CREATE UNIQUE INDEX api_key_hash ON api_key (hash);
CREATE INDEX api_key_list ON api_key (org_id, created_at, id);
CREATE UNIQUE INDEX api_key_previous_hash ON api_key (previous_hash) WHERE previous_hash IS NOT NULL;
CREATE INDEX artifact_blob_of ON artifact_blob (blob_id);
CREATE INDEX audit_action ON audit (org_id, action, at, id);
CREATE INDEX audit_key ON audit (org_id, key_id, at, id) WHERE key_id IS NOT NULL;
CREATE INDEX audit_target ON audit (org_id, target, at, id);
CREATE INDEX blob_check ON blob (check_at, id) WHERE check_at IS NOT NULL;
CREATE UNIQUE INDEX blob_content ON blob (org_id, sha256) WHERE doomed_at IS NULL;
CREATE INDEX blob_doomed ON blob (doomed_at, id) WHERE doomed_at IS NOT NULL;
CREATE UNIQUE INDEX connection_name ON connection (org_id, name);
CREATE INDEX delivery_due ON delivery (host, due_at, run_id) WHERE due_at >= 0;
CREATE INDEX delivery_node ON delivery (node) WHERE node IS NOT NULL;
CREATE INDEX file_blob ON file (blob_id);
CREATE INDEX file_list ON file (org_id, created_at, id) WHERE created_at >= 0;
CREATE UNIQUE INDEX file_name ON file (org_id, name);
CREATE INDEX oauth_flow_connection ON oauth_flow (connection_id);
CREATE INDEX oauth_flow_expires ON oauth_flow (expires_at);
CREATE INDEX queue_claimed ON queue (org_id, enqueued_at, run_id) WHERE node_id IS NOT NULL;
CREATE INDEX queue_node ON queue (node_id, run_id) WHERE node_id IS NOT NULL;
CREATE INDEX queue_stopping ON queue (node_id, run_id) WHERE stopping IS NOT NULL;
CREATE INDEX queue_waiting ON queue (org_id, enqueued_at, run_id) WHERE node_id IS NULL;
CREATE UNIQUE INDEX run_idempotency ON run (org_id, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX run_list ON run (org_id, created_at, id) WHERE created_at >= 0;
CREATE INDEX run_outcome ON run (org_id, outcome, created_at, id) WHERE created_at >= 0;
CREATE INDEX run_schedule ON run (schedule_id, created_at, id) WHERE schedule_id IS NOT NULL;
CREATE INDEX run_schedule_outcome ON run (schedule_id, outcome, created_at, id) WHERE schedule_id IS NOT NULL;
CREATE INDEX schedule_due ON schedule (due_at, id) WHERE due_at IS NOT NULL;
CREATE INDEX schedule_list ON schedule (org_id, created_at, id) WHERE created_at >= 0;
CREATE INDEX schedule_waiting ON schedule (waiting_instant, id) WHERE waiting_instant IS NOT NULL;
CREATE INDEX schedule_workflow ON schedule (org_id, workflow);
CREATE INDEX unretained_node ON unretained (node_id, run_id);
COMMIT;
