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
INSERT INTO api_key VALUES ('key_01m82ygvk6et4rkmh36brqweyr', 'org_01m82ygvk6edetkav836bzvrfy', 'first admin key', 'admin', X'02FAAD2E8FCD9F725FB311585531518FE213311A15A27FDB25DC66255AFE5F76', 1795395448422759, NULL, NULL, NULL);
INSERT INTO api_key VALUES ('key_01m82ygvm3f25bzv3dc7yxawb9', 'org_01m82ygvk6edetkav836bzvrfy', 'member', 'member', X'E62C916BC7806A14102A33E02B3F30C2DEA579C54C367F35101E285C1D3E8D4C', 1795395448451846, NULL, NULL, NULL);
INSERT INTO api_key VALUES ('key_01m82ygvm7f1hvasr002yzxa6a', 'org_01m82ygvk6edetkav836bzvrfy', 'late', 'member', X'0E5F0E226F521D9103CBE547D0A1FFC276E9A8D9DD2C9030E2841CE9D6511DBA', 1795395448455278, NULL, NULL, NULL);
INSERT INTO api_key VALUES ('key_01m82ygvmdeba9y7f01j3cnyqz', 'org_01m82ygvk6edetkav836bzvrfy', 'expired', 'member', X'51EBB011D4F9A6ACD10CE10FA3188E2AAE5B07E63838891386229C8D87F1B272', 1795395448461639, 1795395468459000, NULL, NULL);
INSERT INTO api_key VALUES ('key_01m82ygvmfffyte4smg7762wn3', 'org_01m82ygvk6edetkav836bzvrfy', 'rotated', 'admin', X'3974D9CFA77DCAA705D07A0B44451B452DE5F2A932AED3BB4CECD489D4F07599', 1795395448463499, NULL, X'3EC8AEE2F27250977DCF8EA983C90C2F1AAB0FC926248531F8A812B014EA48AC', 1795395449464471);
INSERT INTO artifact_blob VALUES ('run_01m82ygvqdf9eskr3r2pas050d', 'blob_01m82ygvrfe1zv8fen94vdarr8');
INSERT INTO audit VALUES ('org_01m82ygvk6edetkav836bzvrfy', 1795395448423108, 'aud_01m82ygvk7fshs2g5fc0a0st28', 'key.create', 'key_01m82ygvk6et4rkmh36brqweyr', NULL, NULL, NULL);
INSERT INTO audit VALUES ('org_01m82ygvk6edetkav836bzvrfy', 1795395448451851, 'aud_01m82ygvm3ewgtnsb5jpk50s78', 'key.create', 'key_01m82ygvm3f25bzv3dc7yxawb9', 'key_01m82ygvk6et4rkmh36brqweyr', '127.0.0.1', '2710eace273e57d100000001');
INSERT INTO audit VALUES ('org_01m82ygvk6edetkav836bzvrfy', 1795395448455279, 'aud_01m82ygvm7efhbwvq28nn030tp', 'key.create', 'key_01m82ygvm7f1hvasr002yzxa6a', 'key_01m82ygvk6et4rkmh36brqweyr', '127.0.0.1', '2710eace273e57d100000002');
INSERT INTO audit VALUES ('org_01m82ygvk6edetkav836bzvrfy', 1795395448461641, 'aud_01m82ygvmdekbbkyjhy2en1cdn', 'key.create', 'key_01m82ygvmdeba9y7f01j3cnyqz', 'key_01m82ygvk6et4rkmh36brqweyr', '127.0.0.1', '2710eace273e57d100000003');
INSERT INTO audit VALUES ('org_01m82ygvk6edetkav836bzvrfy', 1795395448463500, 'aud_01m82ygvmfezxv2fn9kv6xbth8', 'key.create', 'key_01m82ygvmfffyte4smg7762wn3', 'key_01m82ygvk6et4rkmh36brqweyr', '127.0.0.1', '2710eace273e57d100000004');
INSERT INTO audit VALUES ('org_01m82ygvk6edetkav836bzvrfy', 1795395448464471, 'aud_01m82ygvmgfvgv6pfsec9xxxjt', 'key.rotate', 'key_01m82ygvmfffyte4smg7762wn3', 'key_01m82ygvk6et4rkmh36brqweyr', '127.0.0.1', '2710eace273e57d100000005');
INSERT INTO audit VALUES ('org_01m82ygvk6edetkav836bzvrfy', 1795395448476089, 'aud_01m82ygvmwfxcby98qh1v3hxs1', 'file.create', 'file_01m82ygvmwfbdtg29hqxb51v2r', 'key_01m82ygvk6et4rkmh36brqweyr', '127.0.0.1', '2710eace273e57d100000006');
INSERT INTO audit VALUES ('org_01m82ygvk6edetkav836bzvrfy', 1795395448477487, 'aud_01m82ygvmxeh1vh47757pbbwjn', 'workflow.put', 'report', 'key_01m82ygvk6et4rkmh36brqweyr', '127.0.0.1', '2710eace273e57d100000007');
INSERT INTO audit VALUES ('org_01m82ygvk6edetkav836bzvrfy', 1795395448478277, 'aud_01m82ygvmyfamssbjgb7az3d5d', 'budget.put', 'organization', 'key_01m82ygvk6et4rkmh36brqweyr', '127.0.0.1', '2710eace273e57d100000008');
INSERT INTO audit VALUES ('org_01m82ygvk6edetkav836bzvrfy', 1795395448479137, 'aud_01m82ygvmzfqjst0s150y9zgjw', 'budget.put', 'key:key_01m82ygvm3f25bzv3dc7yxawb9', 'key_01m82ygvk6et4rkmh36brqweyr', '127.0.0.1', '2710eace273e57d100000009');
INSERT INTO audit VALUES ('org_01m82ygvk6edetkav836bzvrfy', 1795395448479990, 'aud_01m82ygvmze918381dee4jbrhx', 'budget.put', 'key:key_01m82ygvm7f1hvasr002yzxa6a', 'key_01m82ygvk6et4rkmh36brqweyr', '127.0.0.1', '2710eace273e57d10000000a');
INSERT INTO audit VALUES ('org_01m82ygvk6edetkav836bzvrfy', 1795395448483321, 'aud_01m82ygvn3fxzskg8x9d685d3s', 'connection.put', 'api', 'key_01m82ygvk6et4rkmh36brqweyr', '127.0.0.1', '2710eace273e57d10000000b');
INSERT INTO audit VALUES ('org_01m82ygvk6edetkav836bzvrfy', 1795395448484276, 'aud_01m82ygvn4esrv35jtx50z62qc', 'connection.put', 'crm', 'key_01m82ygvk6et4rkmh36brqweyr', '127.0.0.1', '2710eace273e57d10000000c');
INSERT INTO audit VALUES ('org_01m82ygvk6edetkav836bzvrfy', 1795395448487315, 'aud_01m82ygvn7eqqv33t4a7b7tx1s', 'connection.authorize', 'crm', 'key_01m82ygvk6et4rkmh36brqweyr', '127.0.0.1', '2710eace273e57d10000000d');
INSERT INTO audit VALUES ('org_01m82ygvk6edetkav836bzvrfy', 1795395448492142, 'aud_01m82ygvnced0tx3yhe4mvchsb', 'connection.consented', 'crm', NULL, '127.0.0.1', '2710eace273e57d10000000e');
INSERT INTO audit VALUES ('org_01m82ygvk6edetkav836bzvrfy', 1795395448493381, 'aud_01m82ygvndf0evjc3ekd64afzt', 'connection.authorized', 'crm', 'key_01m82ygvk6et4rkmh36brqweyr', '127.0.0.1', '2710eace273e57d10000000f');
INSERT INTO audit VALUES ('org_01m82ygvk6edetkav836bzvrfy', 1795395448660282, 'aud_01m82ygvtmfh7b8a2kzmafg7z1', 'schedule.create', 'sched_01m82ygvtmenyttsdy265e003e', 'key_01m82ygvk6et4rkmh36brqweyr', '127.0.0.1', '2710eace273e57d100000023');
INSERT INTO audit VALUES ('org_01m82ygvk6edetkav836bzvrfy', 1795395448661725, 'aud_01m82ygvtne9jr8s7nrjntshb5', 'schedule.create', 'sched_01m82ygvtnev7r9pgjmfcpswn7', 'key_01m82ygvk6et4rkmh36brqweyr', '127.0.0.1', '2710eace273e57d100000024');
INSERT INTO blob VALUES ('blob_01m82ygvmjf8nbb53x6bqambxv', 'org_01m82ygvk6edetkav836bzvrfy', X'F7712751E993B9972137E8DED3207D99D8747E041999182851225714EE0070E2', 9, 1795395448466558, 1795399048476087, NULL);
INSERT INTO blob VALUES ('blob_01m82ygvrfe1zv8fen94vdarr8', 'org_01m82ygvk6edetkav836bzvrfy', X'14E4CCE86788499D03144F70AB24CA83D1ABE97D55153C71EE1DF55C5296C1F9', 10, 1795395448591102, 1795399048602447, NULL);
INSERT INTO budget VALUES ('org_01m82ygvk6edetkav836bzvrfy', 'key:key_01m82ygvm3f25bzv3dc7yxawb9', 500000000, 'month', 1795395448479137, 1795395448479137, 1795395448479137);
INSERT INTO budget VALUES ('org_01m82ygvk6edetkav836bzvrfy', 'key:key_01m82ygvm7f1hvasr002yzxa6a', 500000000, 'month', 1795395448479990, 1795395448479990, 1795395448479990);
INSERT INTO budget VALUES ('org_01m82ygvk6edetkav836bzvrfy', 'organization', 500000000, 'month', 1795395448478277, 1795395448478277, 1795395448478277);
INSERT INTO budget_hold VALUES ('run_01m82yhthsedtvkh4qxjet1baw', 'org_01m82ygvk6edetkav836bzvrfy', 'key:key_01m82ygvm7f1hvasr002yzxa6a', 1795395448479990, 1793491200000000, 1000000);
INSERT INTO budget_hold VALUES ('run_01m82yhthsedtvkh4qxjet1baw', 'org_01m82ygvk6edetkav836bzvrfy', 'organization', 1795395448478277, 1793491200000000, 1000000);
INSERT INTO budget_hold VALUES ('run_01m82yhtj4ew698g13ef9pgscv', 'org_01m82ygvk6edetkav836bzvrfy', 'key:key_01m82ygvm7f1hvasr002yzxa6a', 1795395448479990, 1793491200000000, 1000000);
INSERT INTO budget_hold VALUES ('run_01m82yhtj4ew698g13ef9pgscv', 'org_01m82ygvk6edetkav836bzvrfy', 'organization', 1795395448478277, 1793491200000000, 1000000);
INSERT INTO budget_window VALUES ('org_01m82ygvk6edetkav836bzvrfy', 'key:key_01m82ygvm3f25bzv3dc7yxawb9', 1795395448479137, 1793491200000000, 0, 140);
INSERT INTO budget_window VALUES ('org_01m82ygvk6edetkav836bzvrfy', 'key:key_01m82ygvm7f1hvasr002yzxa6a', 1795395448479990, 1793491200000000, 2000000, 0);
INSERT INTO budget_window VALUES ('org_01m82ygvk6edetkav836bzvrfy', 'organization', 1795395448478277, 1793491200000000, 2000000, 240);
INSERT INTO connection VALUES ('conn_01m82ygvn2ee4t961txky0mstq', 'org_01m82ygvk6edetkav836bzvrfy', 'api', '{"type":"http","url":"http://127.0.16.1:21601/echo","auth":{"type":"bearer"},"headers":{"X-Key":""}}', X'01E0A0E56296804BABFE16BA992A6B6BAB129886B1D0DD33E89962165081FC72AAB6F8F23526F1CFF39AF1BBE2BF9EEFF5D6A00893B760EEC2C19FDF40221F0045DDACBA3D51D80AD9C9D3E8BE7E8044C598ED443C45A539994E7D111DEC0EAD7DBA27778BBA70CE7768DEBEACC65780EB3BC9FAFE4BBA7B4968CD6F5294E85753AD075970CABF371561A43E6F85AC25D503607EA5F11D89EE79A71DE510610634E4EAAE955C2474F88CDCF154C1EA71D29FD190A8C1F9EF12A0387E841BE99CAD6CC37B9BD328EC3ADB864F7CA06BF8678DC9D91FAF753C734FCD3A6D', NULL, 0, 0, 'ready', NULL, 1, 1795395448483321, 1795395448483321, NULL, NULL);
INSERT INTO connection VALUES ('conn_01m82ygvn4effsv3d0ak953h4s', 'org_01m82ygvk6edetkav836bzvrfy', 'crm', '{"type":"http","url":"http://127.0.16.1:21601/guarded","auth":{"type":"oauth"}}', X'01E0A0E56296804BABCA448B0B787D1060794DBA76576CA5809271F84F7D2CF7D592908E4E468413C4F971B58ABCAE8F122F519F68B3EC35031C13479D7FA1692832F6630E48D697B3AAF5FFF63C1AA7D8896A5F0003A4C34F77966F4773499E304FB983801D68327C68E728ABDD48623BDA1E1BDE15A4F747430F07BA1784B1D4EBE36DB4C520A8CC336EE0822626193011E1DB54D9F4A7579DCDA0930A43865BEB8027D4AB239D7704990F19F38A5A120591240BFC8170D81D523063BB959FC4EBEA681D531DB8D55714FA5A06B3FC36065A272F3F4BA97FD40F68C05DBDD87E608D0B0CA9FDC378FCA5D349FF3895653FEBF73BA3A0074C61A69908D4BC9B34185C7A3865331F7AB5ED6960A482176335F863D9BC09F7654566AAB1F39F8B95F32F35A31BDAA0B873D2D60222BECFC0C8F5F39F91E635996FBFC050AB4E31', X'01E0A0E56296804BAB12BC2D22C63F2151FA106F41B7F73DFA1A145D15AEA36C14A76BE56AB69D254E205B8E891F2A5FDC627BA4EEF46F9117B18AD9C1CA0EFFF473DE65ED2AAFFAEE379B8719C3A4ECBF085A679277FBE8F7F38597788129E33253AABFE5DC3594806E3CA183D52682C724EB1B5DDFC34069FBE6285551F8A5985AC2227383F666A8010550C77653C119F85B89AE74ACE911552206B1C262F022F892689577C2EB09CC1A6F1937945579128D8D0C23B3629719D2520FCA45E9B42CD69B229CE070DA937F63C5D40B79C5851F4062AF84CC1B0BC0985DCB67BB7CE92AAEE45F9A6005372D9278743EBE6EA0F4481BF2D807D5FCBA87EE244E950499BEB19FA961C801230FB9E6E9C6BA6D51CA7B8AC4A28715FB73AC761F0F6CA64E038EE21550375280F5BBF3BDE680520B6EAB5004443331DA32F159432811A145B606F890FF5C9E15299DD70757731158B09895D53295743FE56125A87041EECE8A096A6E5DD5A94EC8EB1DC7ABB2469C6FA356161F5E404A39A0597A777257B7B8952BA4AF23177F757B9644A64123244A18B8744460FB56F4E52B08D48F939A2DE80D0BB4F718027665EAC545CCE969C50A91982A3C505079BE30BFF06F9E609A6770D2D3CF205A9FB9CE60257E', 1, 0, 'ready', NULL, 1, 1795395448484276, 1795395448484276, NULL, NULL);
INSERT INTO delivery VALUES ('run_01m82ygvrwevsv8wv3e6s73bhv', 'org_01m82ygvk6edetkav836bzvrfy', '127.0.16.1:21602', X'01E0A0E56296804BAB2DEF1C8F6C665A50FB0FCBE1FCA632D7833EE939E6F1442E64B482F0E25709CDBD9EB251FCAB5BA60BE67A751D3498E5209C3FB301B154B20D9C7FFF116375CAAF9868A8A95404FDD3187D150EC8C0756BE353E76D3E790317915F3AA8970648D7F66B6C9BC994', 1, 0, NULL, 1795654648607020, 1, NULL);
INSERT INTO delivery VALUES ('run_01m82yhtj4ew698g13ef9pgscv', 'org_01m82ygvk6edetkav836bzvrfy', '127.0.16.1:21602', X'01E0A0E56296804BAB38B5DA154A26940AEF55DFDD325816023F19B75C870A7C746505893185F4E3E0B410AB2477FC1727C2CD6BD7C7653E2434CC9859282A4842F72B03720499160808931F214BCB3EE1B1B52CDF41EDDEE7F1646B0A2D4D597E8C7E5C2DDBE432DA7BC7D17833197D', 0, 0, NULL, NULL, 0, NULL);
INSERT INTO delivery_attempt VALUES ('run_01m82ygvrwevsv8wv3e6s73bhv', 1, 1795395448609198, 204, NULL, 0, NULL);
INSERT INTO dispatch VALUES (1, 12, 'org_01m82ygvk6edetkav836bzvrfy');
INSERT INTO event VALUES ('run_01m82ygvneejg89278zhdfpvrx', 1, 'status', '{"status":"queued"}', 1795395448494239);
INSERT INTO event VALUES ('run_01m82ygvneejg89278zhdfpvrx', 2, 'status', '{"status":"starting"}', 1795395448495005);
INSERT INTO event VALUES ('run_01m82ygvneejg89278zhdfpvrx', 3, 'status', '{"status":"running"}', 1795395448496705);
INSERT INTO event VALUES ('run_01m82ygvneejg89278zhdfpvrx', 4, 'worker_started', '{"runtime":"namespaces","mode":"self-hosted","shell":true}', 1795395448496707);
INSERT INTO event VALUES ('run_01m82ygvneejg89278zhdfpvrx', 5, 'model_call', '{"model":"runbook","step":1,"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"cost_micros":0,"duration_ms":0,"stop_reason":"end_turn"}', 1795395448496858);
INSERT INTO event VALUES ('run_01m82ygvneejg89278zhdfpvrx', 6, 'message', '{"text":"hello","step":1}', 1795395448496873);
INSERT INTO event VALUES ('run_01m82ygvneejg89278zhdfpvrx', 7, 'result', '{"output":"hello"}', 1795395448497279);
INSERT INTO event VALUES ('run_01m82ygvneejg89278zhdfpvrx', 8, 'status', '{"status":"succeeded"}', 1795395448497279);
INSERT INTO event VALUES ('run_01m82ygvnjeyhbhft1ag4908kk', 1, 'status', '{"status":"queued"}', 1795395448498402);
INSERT INTO event VALUES ('run_01m82ygvnjeyhbhft1ag4908kk', 2, 'status', '{"status":"starting"}', 1795395448499824);
INSERT INTO event VALUES ('run_01m82ygvnjeyhbhft1ag4908kk', 3, 'status', '{"status":"running"}', 1795395448500816);
INSERT INTO event VALUES ('run_01m82ygvnjeyhbhft1ag4908kk', 4, 'worker_started', '{"runtime":"namespaces","mode":"self-hosted","shell":true}', 1795395448500818);
INSERT INTO event VALUES ('run_01m82ygvnjeyhbhft1ag4908kk', 5, 'model_call', '{"model":"runbook","step":1,"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"cost_micros":0,"duration_ms":0,"stop_reason":"tool_use"}', 1795395448501081);
INSERT INTO event VALUES ('run_01m82ygvnjeyhbhft1ag4908kk', 6, 'tool_start', '{"tool":"shell","id":"block_1","arguments":{"command":"echo oh >&2; exit 3"}}', 1795395448501133);
INSERT INTO event VALUES ('run_01m82ygvnjeyhbhft1ag4908kk', 7, 'tool_end', '{"tool":"shell","id":"block_1","is_error":true,"output":"[the command exited with status 3]\n[stderr]\noh\n","output_bytes":47,"duration_ms":50}', 1795395448551868);
INSERT INTO event VALUES ('run_01m82ygvnjeyhbhft1ag4908kk', 8, 'status', '{"status":"failed","error":"block 1 exited with status 3: oh"}', 1795395448553212);
INSERT INTO event VALUES ('run_01m82ygvqdf9eskr3r2pas050d', 1, 'status', '{"status":"queued"}', 1795395448557875);
INSERT INTO event VALUES ('run_01m82ygvqdf9eskr3r2pas050d', 2, 'status', '{"status":"starting"}', 1795395448559406);
INSERT INTO event VALUES ('run_01m82ygvqdf9eskr3r2pas050d', 3, 'status', '{"status":"running"}', 1795395448560851);
INSERT INTO event VALUES ('run_01m82ygvqdf9eskr3r2pas050d', 4, 'worker_started', '{"runtime":"namespaces","mode":"self-hosted","shell":true}', 1795395448560854);
INSERT INTO event VALUES ('run_01m82ygvqdf9eskr3r2pas050d', 5, 'model_call', '{"model":"runbook","step":1,"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"cost_micros":0,"duration_ms":0,"stop_reason":"tool_use"}', 1795395448560986);
INSERT INTO event VALUES ('run_01m82ygvqdf9eskr3r2pas050d', 6, 'tool_start', '{"tool":"shell","id":"block_1","arguments":{"command":"mkdir outputs && printf ''the report'' > outputs/report.md"}}', 1795395448561032);
INSERT INTO event VALUES ('run_01m82ygvqdf9eskr3r2pas050d', 7, 'tool_end', '{"tool":"shell","id":"block_1","is_error":false,"output":"[the command exited with status 0]\n","output_bytes":35,"duration_ms":26}', 1795395448587844);
INSERT INTO event VALUES ('run_01m82ygvqdf9eskr3r2pas050d', 8, 'model_call', '{"model":"runbook","step":2,"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"cost_micros":0,"duration_ms":0,"stop_reason":"end_turn"}', 1795395448587943);
INSERT INTO event VALUES ('run_01m82ygvqdf9eskr3r2pas050d', 9, 'artifact', '{"path":"report.md","size":10,"sha256":"14e4cce86788499d03144f70ab24ca83d1abe97d55153c71ee1df55c5296c1f9","content_type":"text/markdown"}', 1795395448602451);
INSERT INTO event VALUES ('run_01m82ygvqdf9eskr3r2pas050d', 10, 'result', '{"output":""}', 1795395448602459);
INSERT INTO event VALUES ('run_01m82ygvqdf9eskr3r2pas050d', 11, 'status', '{"status":"succeeded"}', 1795395448602459);
INSERT INTO event VALUES ('run_01m82ygvrwevsv8wv3e6s73bhv', 1, 'status', '{"status":"queued"}', 1795395448604465);
INSERT INTO event VALUES ('run_01m82ygvrwevsv8wv3e6s73bhv', 2, 'status', '{"status":"starting"}', 1795395448604993);
INSERT INTO event VALUES ('run_01m82ygvrwevsv8wv3e6s73bhv', 3, 'status', '{"status":"running"}', 1795395448606550);
INSERT INTO event VALUES ('run_01m82ygvrwevsv8wv3e6s73bhv', 4, 'worker_started', '{"runtime":"namespaces","mode":"self-hosted","shell":true}', 1795395448606552);
INSERT INTO event VALUES ('run_01m82ygvrwevsv8wv3e6s73bhv', 5, 'model_call', '{"model":"runbook","step":1,"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"cost_micros":0,"duration_ms":0,"stop_reason":"end_turn"}', 1795395448606679);
INSERT INTO event VALUES ('run_01m82ygvrwevsv8wv3e6s73bhv', 6, 'message', '{"text":"called","step":1}', 1795395448606690);
INSERT INTO event VALUES ('run_01m82ygvrwevsv8wv3e6s73bhv', 7, 'result', '{"output":"called"}', 1795395448607020);
INSERT INTO event VALUES ('run_01m82ygvrwevsv8wv3e6s73bhv', 8, 'status', '{"status":"succeeded"}', 1795395448607020);
INSERT INTO event VALUES ('run_01m82ygvs0f1ptvbpj8czj37x5', 1, 'status', '{"status":"queued"}', 1795395448608439);
INSERT INTO event VALUES ('run_01m82ygvs0f1ptvbpj8czj37x5', 2, 'status', '{"status":"starting"}', 1795395448610420);
INSERT INTO event VALUES ('run_01m82ygvs0f1ptvbpj8czj37x5', 3, 'status', '{"status":"running"}', 1795395448612357);
INSERT INTO event VALUES ('run_01m82ygvs0f1ptvbpj8czj37x5', 4, 'worker_started', '{"runtime":"namespaces","mode":"self-hosted","shell":true}', 1795395448612359);
INSERT INTO event VALUES ('run_01m82ygvs0f1ptvbpj8czj37x5', 5, 'model_call', '{"model":"runbook","step":1,"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"cost_micros":0,"duration_ms":0,"stop_reason":"tool_use"}', 1795395448612598);
INSERT INTO event VALUES ('run_01m82ygvs0f1ptvbpj8czj37x5', 6, 'tool_start', '{"tool":"shell","id":"block_1","arguments":{"command":"cat data.txt"}}', 1795395448612639);
INSERT INTO event VALUES ('run_01m82ygvs0f1ptvbpj8czj37x5', 7, 'tool_end', '{"tool":"shell","id":"block_1","is_error":false,"output":"[the command exited with status 0]\n[stdout]\nthe data\n","output_bytes":53,"duration_ms":25}', 1795395448638278);
INSERT INTO event VALUES ('run_01m82ygvs0f1ptvbpj8czj37x5', 8, 'model_call', '{"model":"runbook","step":2,"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"cost_micros":0,"duration_ms":0,"stop_reason":"end_turn"}', 1795395448638367);
INSERT INTO event VALUES ('run_01m82ygvs0f1ptvbpj8czj37x5', 9, 'message', '{"text":"the data\n","step":2}', 1795395448638375);
INSERT INTO event VALUES ('run_01m82ygvs0f1ptvbpj8czj37x5', 10, 'result', '{"output":"the data\n"}', 1795395448639268);
INSERT INTO event VALUES ('run_01m82ygvs0f1ptvbpj8czj37x5', 11, 'status', '{"status":"succeeded"}', 1795395448639268);
INSERT INTO event VALUES ('run_01m82ygvt1etvvqrjarsm1wc96', 1, 'status', '{"status":"queued"}', 1795395448641344);
INSERT INTO event VALUES ('run_01m82ygvt1etvvqrjarsm1wc96', 2, 'status', '{"status":"starting"}', 1795395448641881);
INSERT INTO event VALUES ('run_01m82ygvt1etvvqrjarsm1wc96', 3, 'status', '{"status":"cancelled"}', 1795395448642228);
INSERT INTO event VALUES ('run_01m82ygvtgenhsprgqjk9wgaxp', 1, 'status', '{"status":"queued"}', 1795395448656632);
INSERT INTO event VALUES ('run_01m82ygvtgenhsprgqjk9wgaxp', 2, 'status', '{"status":"starting"}', 1795395448657142);
INSERT INTO event VALUES ('run_01m82ygvtgenhsprgqjk9wgaxp', 3, 'status', '{"status":"running"}', 1795395448658235);
INSERT INTO event VALUES ('run_01m82ygvtgenhsprgqjk9wgaxp', 4, 'worker_started', '{"runtime":"namespaces","mode":"self-hosted","shell":true}', 1795395448658237);
INSERT INTO event VALUES ('run_01m82ygvtgenhsprgqjk9wgaxp', 5, 'model_call', '{"model":"runbook","step":1,"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"cost_micros":0,"duration_ms":0,"stop_reason":"end_turn"}', 1795395448658334);
INSERT INTO event VALUES ('run_01m82ygvtgenhsprgqjk9wgaxp', 6, 'message', '{"text":"once","step":1}', 1795395448658340);
INSERT INTO event VALUES ('run_01m82ygvtgenhsprgqjk9wgaxp', 7, 'result', '{"output":"once"}', 1795395448658633);
INSERT INTO event VALUES ('run_01m82ygvtgenhsprgqjk9wgaxp', 8, 'status', '{"status":"succeeded"}', 1795395448658633);
INSERT INTO event VALUES ('run_01m82yhte2ej3r7c6bgyak8ds8', 1, 'status', '{"status":"queued"}', 1795395480002565);
INSERT INTO event VALUES ('run_01m82yhte2ej3r7c6bgyak8ds8', 2, 'status', '{"status":"starting"}', 1795395480004317);
INSERT INTO event VALUES ('run_01m82yhte2ej3r7c6bgyak8ds8', 3, 'status', '{"status":"running"}', 1795395480007495);
INSERT INTO event VALUES ('run_01m82yhte2ej3r7c6bgyak8ds8', 4, 'worker_started', '{"runtime":"namespaces","mode":"self-hosted","shell":true}', 1795395480007499);
INSERT INTO event VALUES ('run_01m82yhte2ej3r7c6bgyak8ds8', 5, 'model_call', '{"model":"runbook","step":1,"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"cost_micros":0,"duration_ms":0,"stop_reason":"tool_use"}', 1795395480007893);
INSERT INTO event VALUES ('run_01m82yhte2ej3r7c6bgyak8ds8', 6, 'tool_start', '{"tool":"shell","id":"block_1","arguments":{"command":"cat data.txt"}}', 1795395480007940);
INSERT INTO event VALUES ('run_01m82yhte2ej3r7c6bgyak8ds8', 7, 'tool_end', '{"tool":"shell","id":"block_1","is_error":false,"output":"[the command exited with status 0]\n[stdout]\nthe data\n","output_bytes":53,"duration_ms":91}', 1795395480099548);
INSERT INTO event VALUES ('run_01m82yhte2ej3r7c6bgyak8ds8', 8, 'model_call', '{"model":"runbook","step":2,"input_tokens":0,"output_tokens":0,"cache_read_tokens":0,"cache_write_tokens":0,"cost_micros":0,"duration_ms":0,"stop_reason":"end_turn"}', 1795395480099639);
INSERT INTO event VALUES ('run_01m82yhte2ej3r7c6bgyak8ds8', 9, 'message', '{"text":"the data\n","step":2}', 1795395480099646);
INSERT INTO event VALUES ('run_01m82yhte2ej3r7c6bgyak8ds8', 10, 'result', '{"output":"the data\n"}', 1795395480103326);
INSERT INTO event VALUES ('run_01m82yhte2ej3r7c6bgyak8ds8', 11, 'status', '{"status":"succeeded"}', 1795395480103326);
INSERT INTO event VALUES ('run_01m82yhthsedtvkh4qxjet1baw', 1, 'status', '{"status":"queued"}', 1795395480121310);
INSERT INTO event VALUES ('run_01m82yhthsedtvkh4qxjet1baw', 2, 'status', '{"status":"starting"}', 1795395480122327);
INSERT INTO event VALUES ('run_01m82yhthsedtvkh4qxjet1baw', 3, 'status', '{"status":"running"}', 1795395480123668);
INSERT INTO event VALUES ('run_01m82yhthsedtvkh4qxjet1baw', 4, 'worker_started', '{"runtime":"namespaces","mode":"self-hosted","shell":true}', 1795395480123671);
INSERT INTO event VALUES ('run_01m82yhtj4ew698g13ef9pgscv', 1, 'status', '{"status":"queued"}', 1795395480132885);
INSERT INTO file VALUES ('file_01m82ygvmwfbdtg29hqxb51v2r', 'org_01m82ygvk6edetkav836bzvrfy', 'data.txt', 'blob_01m82ygvmjf8nbb53x6bqambxv', 9, X'F7712751E993B9972137E8DED3207D99D8747E041999182851225714EE0070E2', 'text/plain', 1795395448476078);
INSERT INTO fire VALUES ('sched_01m82ygvtnev7r9pgjmfcpswn7', 1795395480000000, '', 1795395480000000, 1, 'started', NULL, 'run_01m82yhte2ej3r7c6bgyak8ds8', 1795395480001965);
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
INSERT INTO node VALUES (1909012112238815074, 'node-e5a5bff6d46c26ef', 1795395448419774, 1795395488434359, NULL, 'http://127.0.0.1:38757', '0.1.0', NULL, 'e0a0e56296804bab,addressed');
INSERT INTO organization VALUES ('org_01m82ygvk6edetkav836bzvrfy', 'default', 1795395448422759, 0);
INSERT INTO queue VALUES ('run_01m82yhthsedtvkh4qxjet1baw', 'org_01m82ygvk6edetkav836bzvrfy', 1795395480121310, 1909012112238815074, NULL);
INSERT INTO queue VALUES ('run_01m82yhtj4ew698g13ef9pgscv', 'org_01m82ygvk6edetkav836bzvrfy', 1795395480132885, NULL, NULL);
INSERT INTO run VALUES ('run_01m82ygvneejg89278zhdfpvrx', 'org_01m82ygvk6edetkav836bzvrfy', 'succeeded', 'succeeded', 1, 8, 1795395448494239, 1795395448495005, 1795395448497279, 1000000, 3, 0, 300, NULL, NULL, NULL, 0, NULL, 'runbook', 'key_01m82ygvm3f25bzv3dc7yxawb9', '["upgrade","x"]', 0, 0, 0, 0, 0, 1, 0, 0, NULL, 0, 0, NULL, 1, NULL, NULL, 1795395448495005, NULL);
INSERT INTO run VALUES ('run_01m82ygvnjeyhbhft1ag4908kk', 'org_01m82ygvk6edetkav836bzvrfy', 'failed', 'failed', 1, 8, 1795395448498402, 1795395448499824, 1795395448553212, 1000000, 54, 0, 300, NULL, NULL, 'block 1 exited with status 3: oh', 0, NULL, 'runbook', 'key_01m82ygvm3f25bzv3dc7yxawb9', NULL, 0, 0, 0, 0, 0, 1, 1, 0, NULL, 0, 0, NULL, 1, NULL, NULL, 1795395448499824, NULL);
INSERT INTO run VALUES ('run_01m82ygvqdf9eskr3r2pas050d', 'org_01m82ygvk6edetkav836bzvrfy', 'succeeded', 'succeeded', 1, 11, 1795395448557875, 1795395448559406, 1795395448602459, 1000000, 44, 0, 300, NULL, NULL, NULL, 0, NULL, 'runbook', 'key_01m82ygvm3f25bzv3dc7yxawb9', NULL, 0, 0, 0, 0, 0, 2, 1, 1, NULL, 0, 0, NULL, 1, NULL, NULL, 1795395448559406, NULL);
INSERT INTO run VALUES ('run_01m82ygvrwevsv8wv3e6s73bhv', 'org_01m82ygvk6edetkav836bzvrfy', 'succeeded', 'succeeded', 1, 8, 1795395448604465, 1795395448604993, 1795395448607020, 1000000, 3, 0, 300, NULL, NULL, NULL, 0, NULL, 'runbook', 'key_01m82ygvm3f25bzv3dc7yxawb9', NULL, 0, 0, 0, 0, 0, 1, 0, 0, '127.0.16.1:21602', 0, 0, NULL, 1, NULL, NULL, 1795395448604993, NULL);
INSERT INTO run VALUES ('run_01m82ygvs0f1ptvbpj8czj37x5', 'org_01m82ygvk6edetkav836bzvrfy', 'succeeded', 'succeeded', 1, 11, 1795395448608439, 1795395448610420, 1795395448639268, 1000000, 29, 0, 300, NULL, NULL, NULL, 0, 'report', 'runbook', 'key_01m82ygvm3f25bzv3dc7yxawb9', NULL, 0, 0, 0, 0, 0, 2, 1, 0, NULL, 0, 0, NULL, 1, NULL, NULL, 1795395448610420, NULL);
INSERT INTO run VALUES ('run_01m82ygvt1etvvqrjarsm1wc96', 'org_01m82ygvk6edetkav836bzvrfy', 'cancelled', 'cancelled', 1, 3, 1795395448641344, 1795395448641881, 1795395448642228, 1000000, 3, 0, 900, NULL, NULL, NULL, 0, NULL, 'runbook', 'key_01m82ygvm3f25bzv3dc7yxawb9', NULL, 0, 0, 0, 0, 0, 0, 0, 0, NULL, 0, 0, NULL, 1, NULL, NULL, 1795395448641881, 1795395448642228);
INSERT INTO run VALUES ('run_01m82ygvtbf5vvfxnxazn3nhvt', 'org_01m82ygvk6edetkav836bzvrfy', 'succeeded', 'succeeded', 1, 8, 1795395448651787, 1795395448652780, 1795395448654207, 1000000, 2, 0, 300, NULL, NULL, NULL, 0, NULL, 'runbook', 'key_01m82ygvm3f25bzv3dc7yxawb9', NULL, 1, 0, 0, 0, 0, 1, 0, 0, NULL, 0, 0, NULL, 1, NULL, NULL, 1795395448652780, NULL);
INSERT INTO run VALUES ('run_01m82ygvtgenhsprgqjk9wgaxp', 'org_01m82ygvk6edetkav836bzvrfy', 'succeeded', 'succeeded', 1, 8, 1795395448656632, 1795395448657142, 1795395448658633, 1000000, 2, 0, 300, 'once', NULL, NULL, 0, NULL, 'runbook', 'key_01m82ygvm3f25bzv3dc7yxawb9', NULL, 0, 0, 0, 0, 0, 1, 0, 0, NULL, 0, 0, NULL, 1, NULL, NULL, 1795395448657142, NULL);
INSERT INTO run VALUES ('run_01m82yhte2ej3r7c6bgyak8ds8', 'org_01m82ygvk6edetkav836bzvrfy', 'succeeded', 'succeeded', 1, 11, 1795395480002565, 1795395480004317, 1795395480103326, 1000000, 100, 0, 300, NULL, 'sched_01m82ygvtnev7r9pgjmfcpswn7', NULL, 0, 'report', 'runbook', NULL, NULL, 0, 0, 0, 0, 0, 2, 1, 0, NULL, 0, 0, NULL, 1, NULL, NULL, 1795395480004317, NULL);
INSERT INTO run VALUES ('run_01m82yhthsedtvkh4qxjet1baw', 'org_01m82ygvk6edetkav836bzvrfy', 'running', NULL, 1, 4, 1795395480121310, 1795395480122327, NULL, 1000000, 0, 1, 30, NULL, NULL, NULL, 0, NULL, 'runbook', 'key_01m82ygvm7f1hvasr002yzxa6a', NULL, 0, 0, 0, 0, 0, 0, 0, 0, NULL, 0, 0, NULL, 1, NULL, NULL, 1795395480122327, NULL);
INSERT INTO run VALUES ('run_01m82yhtj4ew698g13ef9pgscv', 'org_01m82ygvk6edetkav836bzvrfy', 'queued', NULL, 0, 1, 1795395480132885, NULL, NULL, 1000000, 0, 1, 300, NULL, NULL, NULL, 0, NULL, 'runbook', 'key_01m82ygvm7f1hvasr002yzxa6a', NULL, 0, 0, 0, 0, 0, 0, 0, 0, '127.0.16.1:21602', 0, 0, NULL, 1, NULL, NULL, NULL, NULL);
INSERT INTO run_artifacts VALUES ('run_01m82ygvqdf9eskr3r2pas050d', '[{"path":"report.md","size":10,"sha256":"14e4cce86788499d03144f70ab24ca83d1abe97d55153c71ee1df55c5296c1f9","content_type":"text/markdown","blob":"blob_01m82ygvrfe1zv8fen94vdarr8"}]');
INSERT INTO run_definition VALUES ('run_01m82ygvneejg89278zhdfpvrx', '{"prompt":"hello","input":{"a":[1,null]},"model":"runbook","timeout_seconds":300,"shell":true,"max_cost_micros":1000000,"tags":["upgrade","x"]}', NULL);
INSERT INTO run_definition VALUES ('run_01m82ygvnjeyhbhft1ag4908kk', '{"prompt":"```sh\necho oh >&2; exit 3\n```\n","model":"runbook","timeout_seconds":300,"shell":true,"max_cost_micros":1000000}', NULL);
INSERT INTO run_definition VALUES ('run_01m82ygvqdf9eskr3r2pas050d', '{"prompt":"```sh\nmkdir outputs && printf ''the report'' > outputs/report.md\n```\n","model":"runbook","timeout_seconds":300,"shell":true,"max_cost_micros":1000000}', NULL);
INSERT INTO run_definition VALUES ('run_01m82ygvrwevsv8wv3e6s73bhv', '{"prompt":"called","model":"runbook","timeout_seconds":300,"shell":true,"max_cost_micros":1000000}', NULL);
INSERT INTO run_definition VALUES ('run_01m82ygvs0f1ptvbpj8czj37x5', '{"prompt":"```sh\ncat data.txt\n```\n","model":"runbook","files":[{"path":"data.txt","file":"file_01m82ygvmwfbdtg29hqxb51v2r"}],"timeout_seconds":300,"shell":true,"max_cost_micros":1000000}', NULL);
INSERT INTO run_definition VALUES ('run_01m82ygvt1etvvqrjarsm1wc96', '{"prompt":"```wait 600000\n```\n","model":"runbook","timeout_seconds":900,"shell":true,"max_cost_micros":1000000}', NULL);
INSERT INTO run_definition VALUES ('run_01m82ygvtgenhsprgqjk9wgaxp', '{"prompt":"once","model":"runbook","timeout_seconds":300,"shell":true,"max_cost_micros":1000000}', NULL);
INSERT INTO run_definition VALUES ('run_01m82yhte2ej3r7c6bgyak8ds8', '{"prompt":"```sh\ncat data.txt\n```\n","model":"runbook","files":[{"path":"data.txt","file":"file_01m82ygvmwfbdtg29hqxb51v2r"}],"timeout_seconds":300,"shell":true,"max_cost_micros":1000000}', NULL);
INSERT INTO run_definition VALUES ('run_01m82yhthsedtvkh4qxjet1baw', '{"prompt":"```wait 600000\n```\n","model":"runbook","timeout_seconds":30,"shell":true,"max_cost_micros":1000000}', NULL);
INSERT INTO run_definition VALUES ('run_01m82yhtj4ew698g13ef9pgscv', '{"prompt":"```tool inline__request\n{\"method\":\"GET\"}\n```\n","model":"runbook","connections":{"inline":{"type":"http","url":"http://127.0.16.1:21601/echo","headers":{"X-Key":""}}},"timeout_seconds":300,"shell":false,"max_cost_micros":1000000}', '["inline"]');
INSERT INTO run_output VALUES ('run_01m82ygvneejg89278zhdfpvrx', 'hello');
INSERT INTO run_output VALUES ('run_01m82ygvqdf9eskr3r2pas050d', '');
INSERT INTO run_output VALUES ('run_01m82ygvrwevsv8wv3e6s73bhv', 'called');
INSERT INTO run_output VALUES ('run_01m82ygvs0f1ptvbpj8czj37x5', 'the data
');
INSERT INTO run_output VALUES ('run_01m82ygvtgenhsprgqjk9wgaxp', 'once');
INSERT INTO run_output VALUES ('run_01m82yhte2ej3r7c6bgyak8ds8', 'the data
');
INSERT INTO run_secret VALUES ('run_01m82yhtj4ew698g13ef9pgscv', X'01E0A0E56296804BAB3805594E58DB15B69AF0B9EE4A78AD4D3D03115D780686B23155A56D133DEEFFE29E229AFBCBAD05D07C4C8AC9002FA3AF0CB434F61C33AA24105CCD1497EE61AA51BD9BE4EE8CA190DC6CDE48971BC2049E5FD7DA09789FFC2BDB99CE3807B2C9441CC978214B47B5D69D2FBD94C3F804CFEF3091BDD485B590D8DA3714E7B0E8E724FFFF03BC0B96954F307822AA4479F0D35CBE720C24036E13F29C94BA34224402EFCF3AF60506A01C60E99148D2ACD166DBD871');
INSERT INTO run_tag VALUES ('org_01m82ygvk6edetkav836bzvrfy', 'upgrade', 1795395448494239, 'run_01m82ygvneejg89278zhdfpvrx');
INSERT INTO run_tag VALUES ('org_01m82ygvk6edetkav836bzvrfy', 'x', 1795395448494239, 'run_01m82ygvneejg89278zhdfpvrx');
INSERT INTO schedule VALUES ('sched_01m82ygvtmenyttsdy265e003e', 'org_01m82ygvk6edetkav836bzvrfy', 'rest', 'report', '30 7 * * MON-FRI', 'Europe/Berlin', NULL, 0, 'allow', 3600, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 1795395448660058, NULL, 1795395448660058, NULL, NULL, NULL, 1, 1795395448660058, 1795395448660058);
INSERT INTO schedule VALUES ('sched_01m82ygvtnev7r9pgjmfcpswn7', 'org_01m82ygvk6edetkav836bzvrfy', 'each minute', 'report', '* * * * *', 'UTC', NULL, 1, 'allow', 3600, 0, NULL, NULL, NULL, NULL, NULL, 1795395540000000, 1795395540000000, 1795395480000000, NULL, 1795395448661607, 1795395480002565, 'run_01m82yhte2ej3r7c6bgyak8ds8', NULL, 2, 1795395448661607, 1795395448661607);
INSERT INTO seal_check VALUES (1, X'01E0A0E56296804BABF21F8BE6EABC6CD79834DDDD060A7BF3E8205A2A0A95CD3158BE32A9327FD974CC2E3701987DF0AB69BAED1A04B2651682F4E0F3DEEBE12F');
INSERT INTO unretained VALUES ('run_01m82ygvtbf5vvfxnxazn3nhvt', 1909012112238815074);
INSERT INTO workflow VALUES ('org_01m82ygvk6edetkav836bzvrfy', 'report', 1, 1795395448477487, 1795395448477487, '{"name":"report"}', '{"prompt":"```sh\ncat data.txt\n```\n","files":[{"path":"data.txt","file":"data.txt"}]}');
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
