// Made by clients/generate from the OpenAPI documents of the engine.
export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description Kind of the author of a change. */
        ActorKind: ("key" | "grant" | "session" | "run_token" | "schedule" | "operator") | (string & {});
        /** @description The limit for which a model is asked for its final answer. */
        AnswerReason: ("budget" | "time" | "repetition") | (string & {});
        /** @description The model was asked for its final answer, and calls no more tools. */
        AnswerRequestedEvent: {
            created_at: components["schemas"]["Timestamp"];
            data: {
                /** @description The limit that the run came near to. */
                reason: components["schemas"]["AnswerReason"];
                /** @description The turn of the answer, from 1. */
                step: number;
            };
            /** @description Position in the run: 1, 2, 3 … without gaps. `Last-Event-ID` takes this number. */
            id: number;
            /**
             * @description Type of the event.
             * @enum {string}
             */
            type: "answer_requested";
        };
        /** @description An API key without its secret, which is shown once and never stored. */
        ApiKey: {
            /** @description Time of creation. */
            created_at: components["schemas"]["Timestamp"];
            /** @description Time at which the key expires; absent for a key that does not. */
            expires_at?: components["schemas"]["Timestamp"];
            /** @description ID of the key. */
            id: components["schemas"]["KeyId"];
            /** @description Start of the hour in which the key was last used; absent for a key that never was. */
            last_used_at?: components["schemas"]["Timestamp"];
            /** @description Name of the key: its purpose, for people. */
            name: string;
            /** @description Time at which the previous secret stops working; absent if the key was never rotated. */
            previous_until?: components["schemas"]["Timestamp"];
            /** @description Role of the key. */
            role: components["schemas"]["Role"];
        };
        /** @description A file that a run left under `outputs/` in its working directory. */
        Artifact: {
            /** @description Media type, from the name. */
            content_type: string;
            /** @description Path below `outputs/`, `/`-separated. */
            path: string;
            /** @description SHA-256 of the content. */
            sha256: components["schemas"]["Sha256"];
            /** @description Size in bytes. */
            size: number;
        };
        /** @description A file under `outputs/` was kept. */
        ArtifactEvent: {
            created_at: components["schemas"]["Timestamp"];
            data: components["schemas"]["Artifact"];
            /** @description Position in the run: 1, 2, 3 … without gaps. `Last-Event-ID` takes this number. */
            id: number;
            /**
             * @description Type of the event.
             * @enum {string}
             */
            type: "artifact";
        };
        /** @description A file under `outputs/` was not kept. */
        ArtifactSkippedEvent: {
            created_at: components["schemas"]["Timestamp"];
            data: {
                /** @description Path below `outputs/`. */
                path: string;
                /** @description Reason why the file was not kept. */
                reason: string;
            };
            /** @description Position in the run: 1, 2, 3 … without gaps. `Last-Event-ID` takes this number. */
            id: number;
            /**
             * @description Type of the event.
             * @enum {string}
             */
            type: "artifact_skipped";
        };
        /** @description Change of a resource: its kind, time, author and origin. */
        AuditEntry: {
            /** @description Kind of change, as `resource.verb`. */
            action: string;
            /** @description ID of the author: of the key, the grant, the session or the schedule; absent for an operator. */
            actor_id?: string;
            /** @description Kind of the author; absent for a change by the engine itself and for a request without a credential. */
            actor_kind?: components["schemas"]["ActorKind"];
            /** @description Client address of the request; absent for a change by the engine itself. */
            address?: string;
            /** @description Time of the change. */
            at: components["schemas"]["Timestamp"];
            /** @description ID of the entry. */
            id: components["schemas"]["AuditId"];
            /** @description ID of the key that made the change; absent where no key was used. */
            key_id?: components["schemas"]["KeyId"];
            /** @description ID of the request, which its log lines have too; absent for a change by the engine itself. */
            request_id?: string;
            /** @description Name or id of the changed resource. */
            target: string;
            /** @description ID of the person behind the grant or the session; absent for every other author. */
            user_id?: components["schemas"]["UserId"];
        };
        AuditId: string;
        /** @description Page of the audit log, newest first. */
        AuditPage: {
            /** @description The entries. */
            items: components["schemas"]["AuditEntry"][];
            /** @description Value for `cursor` to get the next page; empty on the last one. */
            next_cursor: string;
        };
        /** @description Authentication method of a connection. */
        AuthType: ("none" | "bearer" | "basic" | "header" | "query" | "oauth") | (string & {});
        /** @description Address at which a person authorizes a connection. */
        Authorization: {
            /** @description Address that the person opens in a browser. */
            authorization_url: string;
            /** @description Time at which the authorization expires. */
            expires_at: components["schemas"]["Timestamp"];
        };
        /** @description Body of `POST /v1/console/sessions`: a key or a code. */
        BeginConsoleSession: {
            /** @description Code of `POST /v1/console/codes`. */
            code?: string;
            /** @description API key of the engine. */
            key?: string;
        };
        /** @description Answer of `POST /v1/console/sessions`. */
        BegunConsoleSession: {
            /** @description ID of the session. */
            id: components["schemas"]["SessionId"];
        };
        /** @description A budget and its window now. */
        Budget: {
            /** @description Maximum budget of a new run, in micros; 0 where a lowered limit is exceeded. */
            available_micros: components["schemas"]["Micros"];
            /** @description Time at which the budget was first set. */
            created_at: components["schemas"]["Timestamp"];
            /** @description Amount held for the unsettled runs of this window, in micros: the whole budget of each. */
            held_micros: components["schemas"]["Micros"];
            /** @description Maximum cost of the runs of one window, in micros. */
            limit_micros: number;
            /** @description Length of a window. */
            period: components["schemas"]["BudgetPeriod"];
            /** @description Time at which the next window begins. */
            resets_at: components["schemas"]["Timestamp"];
            /** @description Runs that the budget covers. */
            scope: components["schemas"]["BudgetScope"];
            /** @description Cost of the settled runs of this window, in micros. */
            spent_micros: components["schemas"]["Micros"];
            /** @description Time at which the budget was last set. */
            updated_at: components["schemas"]["Timestamp"];
        };
        /** @description Length of a budget's window. */
        BudgetPeriod: ("day" | "month") | (string & {});
        /** @description The budget is spent, or its rest does not pay for another call. */
        BudgetReachedEvent: {
            created_at: components["schemas"]["Timestamp"];
            data: components["schemas"]["Spent"];
            /** @description Position in the run: 1, 2, 3 … without gaps. `Last-Event-ID` takes this number. */
            id: number;
            /**
             * @description Type of the event.
             * @enum {string}
             */
            type: "budget_reached";
        };
        /** @description Scope of the budget: `organization`, `workflow:NAME`, `schedule:ID` or `key:ID`. */
        BudgetScope: string;
        /** @description 80 % of the budget is spent. */
        BudgetWarningEvent: {
            created_at: components["schemas"]["Timestamp"];
            data: components["schemas"]["Spent"];
            /** @description Position in the run: 1, 2, 3 … without gaps. `Last-Event-ID` takes this number. */
            id: number;
            /**
             * @description Type of the event.
             * @enum {string}
             */
            type: "budget_warning";
        };
        /** @description Receiver of the completion callback. */
        Callback: {
            /** @description Key of the signature, 1 to 256 characters. */
            secret: string;
            /** @description http or https, without user info, at most 2,048 characters. */
            url: string;
        };
        /** @description Receiver of the callbacks of a schedule's runs; the secret is redacted. */
        CallbackTarget: {
            /** @description URL of the receiver. */
            url: string;
        };
        /** @description Answer of `POST /v1/runs/cancel`. */
        CancelledRuns: {
            /** @description Number of runs that are cancelled now. The others ended before, or it was a dry run. */
            cancelled: number;
            /** @description Number of open runs that matched the filters. */
            matched: number;
            /** @description Value for `cursor` to continue; empty if every open run was looked at. */
            next_cursor: string;
        };
        /** @description Check of one component. */
        Check: {
            /** @description Finding, in a sentence. */
            found: string;
            /** @description Problems, each with its remedy. */
            hints: string[];
            /** @description Name of the checked component. */
            name: string;
            /** @description Result of the check. */
            verdict: components["schemas"]["Verdict"];
        };
        /** @description Body of `POST /v1/connections/{name}/oauth/confirm`. */
        ConfirmAuthorization: {
            /** @description Code that the page shows to the person who has consented. Case, spaces and hyphens do not matter. */
            code: string;
        };
        /** @description A confirmed authorization. */
        ConfirmedAuthorization: {
            /** @description Account whose tokens the connection uses now, where the authorization server names it. */
            account?: string;
            /** @description Name of the connection. */
            connection: string;
            /** @description Issuer of the authorization server, where it is known. */
            issuer?: string;
            /** @description Scopes that were granted, where the server names them. */
            scope?: string;
            /** @description Status of the connection: `ready`. */
            status: components["schemas"]["ConnectionStatus"];
        };
        /** @description A saved connection. Nothing of it is secret. */
        Connection: {
            /** @description The only methods the agent may use. Absent: all. */
            allowed_methods?: string[];
            /** @description The only tools the agent may use. Absent: all. */
            allowed_tools?: string[];
            /** @description Authentication method, without credentials. */
            auth: components["schemas"]["ShownAuth"];
            /** @description Program that serves the connection, with its arguments. */
            command?: string[];
            /** @description Time of creation. */
            created_at: components["schemas"]["Timestamp"];
            /** @description Purpose of the connection. */
            description?: string;
            /** @description The names of the program's environment variables. */
            env?: string[];
            /** @description Reason why the connection cannot be used. */
            error?: string;
            /** @description The names of the headers that are added. */
            headers: string[];
            /** @description Name of the connection, unique in the organization. */
            name: string;
            /** @description State of the connection. */
            status: components["schemas"]["ConnectionStatus"];
            /** @description Kind of server behind the connection. */
            type: components["schemas"]["ConnectionType"];
            /** @description Time of the last change. */
            updated_at: components["schemas"]["Timestamp"];
            /** @description URL of the server, without its query. */
            url?: string;
            /** @description Names of the workflows that name the connection, in order: at most the first 20. */
            used_by: string[];
        };
        /** @description Authentication method of a connection: `type`, and the fields of that type. */
        ConnectionAuth: {
            /** @description `oauth`: authorization endpoint. Default, for `mcp`: discovered from the server. */
            authorization_url?: string;
            /**
             * @description `oauth`: the client ID that is registered for this engine. Default: the engine registers itself where the
             *     server allows it.
             */
            client_id?: string;
            /** @description `oauth`: the client secret, if there is one. */
            client_secret?: string;
            /**
             * @description `oauth`: issuer of the authorization server that `client_id` belongs to. The client and its secret go to no
             *     other. Default: the server that authorized the connection first; beside `authorization_url`, any of its origin.
             */
            issuer?: string;
            /** @description `header`, `query`: the name of the header or parameter. */
            name?: string;
            /** @description `basic`: the password, which may be empty. */
            password?: string;
            /** @description `oauth`: the scopes to ask for. */
            scopes?: string[];
            /** @description `bearer`: the token. */
            token?: string;
            /** @description `oauth`: token endpoint; sent together with `authorization_url`. */
            token_url?: string;
            /** @description Type of the authentication. */
            type: components["schemas"]["AuthType"];
            /** @description `basic`: the user name, without a colon. */
            username?: string;
            /** @description `header`, `query`: the value of the header or parameter. */
            value?: string;
        };
        /** @description Data of `connection_call`. */
        ConnectionCall: {
            /** @description Bytes of the answer's body that were read. */
            bytes: number;
            /** @description The connection's name in the run. */
            connection: string;
            /** @description Duration of the call, in milliseconds. */
            duration_ms: number;
            /** @description The HTTP method, or the method of the MCP request. */
            method: string;
            /** @description The path below the connection's URL without its query, or the name of the MCP tool. */
            path: string;
            /** @description The status of the answer; absent where there was none. */
            status?: number;
        };
        /** @description A call through a connection has ended. */
        ConnectionCallEvent: {
            created_at: components["schemas"]["Timestamp"];
            data: components["schemas"]["ConnectionCall"];
            /** @description Position in the run: 1, 2, 3 … without gaps. `Last-Event-ID` takes this number. */
            id: number;
            /**
             * @description Type of the event.
             * @enum {string}
             */
            type: "connection_call";
        };
        /** @description Body of `PUT /v1/connections/{name}`: an HTTP API, or an MCP server by `url` or, self-hosted, by `command`. */
        ConnectionDefinition: {
            /** @description `http`: the only methods the agent may use. Default: all. */
            allowed_methods?: string[];
            /** @description `mcp`: the only tools the agent may use, by the server's names. Default: all. */
            allowed_tools?: string[];
            /** @description Authentication method and credentials. Default: `{"type": "none"}`. */
            auth?: components["schemas"]["ConnectionAuth"];
            /** @description `mcp` on a self-hosted engine: the program that serves on its standard input and output, and its arguments. */
            command?: string[];
            /** @description Purpose of the connection, for people and agents. At most 500 characters. */
            description?: string;
            /** @description Environment of `command`, by name. The values are redacted in answers. */
            env?: {
                [key: string]: string;
            };
            /** @description Headers added to every request, by name; at most 32. The values are redacted in answers. */
            headers?: {
                [key: string]: string;
            };
            /** @description Kind of server behind the connection. */
            type: components["schemas"]["ConnectionType"];
            /**
             * @description Base URL of the API, or the endpoint of the MCP server: http or https, without user info and fragment. A query
             *     in it is kept secret and added to every request.
             */
            url?: string;
        };
        /** @description State of a connection. */
        ConnectionStatus: ("ready" | "needs_authorization" | "error") | (string & {});
        /** @description Result of a connection test. */
        ConnectionTest: {
            /** @description Finding, in a sentence. */
            detail: string;
            /** @description Duration of the test, in milliseconds. */
            duration_ms: number;
            /** @description `http`: the status of the answer. */
            http_status?: number;
            /** @description `mcp`: the revision of the protocol that the server speaks. */
            protocol_version?: string;
            /** @description State of the connection after the test. */
            status: components["schemas"]["ConnectionStatus"];
            /** @description `mcp`: the tools that the server offers, by its own names. */
            tools?: string[];
        };
        /** @description Kind of server behind a connection. */
        ConnectionType: ("http" | "mcp") | (string & {});
        /** @description Answer of `GET /v1/console`. */
        ConsoleInfo: {
            /** @description The deployment mode. */
            mode: components["schemas"]["Mode"];
            /** @description Path of the page where people sign in; absent if every sign-in needs a key. */
            sign_in_url?: string;
            /** @description Version of the engine. */
            version: string;
        };
        /** @description Session of a browser. Its token is in the cookie only. */
        ConsoleSession: {
            /** @description End of the session. A session of an API key that is used ends later, at most seven days after the sign-in. */
            expires_at: components["schemas"]["Timestamp"];
            /** @description ID of the session. */
            id: components["schemas"]["SessionId"];
        };
        /** @description The conversation came near the model's window and was shortened. */
        ContextCompactedEvent: {
            created_at: components["schemas"]["Timestamp"];
            data: {
                /** @description Estimated tokens of the conversation afterwards. */
                after_tokens: number;
                /** @description Estimated tokens of the conversation before. */
                before_tokens: number;
            };
            /** @description Position in the run: 1, 2, 3 … without gaps. `Last-Event-ID` takes this number. */
            id: number;
            /**
             * @description Type of the event.
             * @enum {string}
             */
            type: "context_compacted";
        };
        /** @description Body of `POST /v1/admin/keys`. */
        CreateKey: {
            /** @description Time at which the key expires; must be in the future. Absent: the key works until it is revoked. */
            expires_at?: components["schemas"]["Timestamp"];
            /** @description Name of the key: its purpose, for people. 1 to 200 characters after trimming, without control and invisible characters. */
            name: string;
            /** @description `member` (the default) or `admin`. */
            role?: ("member" | "admin") | (string & {});
        };
        /** @description Body of `POST /v1/runs/{id}/tokens`. */
        CreateRunToken: {
            /** @description Permissions of the token. Default: `["read"]`. */
            may?: components["schemas"]["RunPermission"][];
            /** @description Time for which the token is valid, in seconds. */
            ttl_seconds: number;
        };
        /** @description Body of `POST /v1/schedules`. */
        CreateSchedule: {
            /** @description Receiver of a signed request that is sent when a run is final. */
            callback?: components["schemas"]["Callback"];
            /**
             * @description Maximum delay of an occurrence that still starts a run, in seconds. Missed occurrences within it become one run.
             *     Default 3600; 0 is never.
             */
            catch_up_window_seconds?: number;
            /**
             * @description Cron expression: minute, hour, day of month, month and day of week, or `@hourly`, `@daily`, `@weekly`,
             *     `@monthly`, `@yearly`.
             */
            cron: string;
            /** @description Whether the schedule is enabled. A disabled schedule does not fire. Default `true`. */
            enabled?: boolean;
            /** @description Task data of every run, kept as sent. At most 1 MiB. */
            input?: unknown;
            /** @description Maximum jitter in seconds. Each schedule uses a fixed offset between 0 and this value. Default 0. */
            jitter_seconds?: number;
            /** @description Number of consecutive runs without success after which the schedule is disabled. Default: never. */
            max_consecutive_failures?: number;
            /** @description Budget of each run in micros, as in a run request. */
            max_cost_micros?: number;
            /** @description Name of the schedule, for people: 1 to 200 characters. */
            name?: string;
            /** @description Rule for occurrences that come while an earlier run is not final. Default `allow`. */
            overlap?: components["schemas"]["Overlap"];
            /** @description Occurrences before this time are skipped. */
            paused_until?: components["schemas"]["Timestamp"];
            /** @description The IANA time zone of `cron`. Default `UTC`. */
            timezone?: string;
            /** @description Name of the saved workflow that the runs start from. */
            workflow: string;
        };
        /** @description Answer of `POST /v1/console/codes`. */
        CreatedConsoleCode: {
            /** @description Code that begins one session with the role of the key. */
            code: string;
            /** @description Time at which the code stops working. */
            expires_at: components["schemas"]["Timestamp"];
        };
        /** @description Answer of `POST /v1/admin/keys` and of a rotation: the only time the secret is shown. */
        CreatedKey: {
            /** @description Time at which the key expires; absent for a key that does not. */
            expires_at?: components["schemas"]["Timestamp"];
            /** @description ID of the key. */
            id: components["schemas"]["KeyId"];
            /** @description The secret to send as `Authorization: Bearer`. */
            key: string;
            /** @description Name of the key: its purpose, for people. */
            name: string;
            /** @description After a rotation: time until which the previous secret works. */
            previous_until?: components["schemas"]["Timestamp"];
            /** @description Role of the key. */
            role: components["schemas"]["Role"];
        };
        /** @description Answer of `POST /v1/runs/{id}/tokens`: the only time the token is shown. */
        CreatedRunToken: {
            /** @description Time at which it expires. It ends earlier if the API key that made it is revoked. */
            expires_at: components["schemas"]["Timestamp"];
            /** @description Permissions of the token. */
            may: components["schemas"]["RunPermission"][];
            /** @description ID of the run. */
            run_id: components["schemas"]["RunId"];
            /** @description The token, a bearer credential. */
            token: string;
        };
        /**
         * Format: date
         * @description A day in UTC.
         */
        Day: string;
        /** @description Completion callback of a finished run. */
        Delivery: {
            /** @description Number of attempts so far. */
            attempts: number;
            /** @description Reason why the last attempt failed; absent after a success. */
            error?: string;
            /** @description Time at which the last attempt began. */
            last_attempt_at?: components["schemas"]["Timestamp"];
            /** @description Time at which the next attempt is due; absent if there is none, and while an attempt is under way. */
            next_at?: components["schemas"]["Timestamp"];
            /** @description Host and port of the receiver. */
            receiver: string;
            /** @description ID of the run. */
            run_id: components["schemas"]["RunId"];
            /** @description State of the delivery. */
            state: components["schemas"]["DeliveryState"];
            /** @description The HTTP status of the last answer; absent where there was none. */
            status?: number;
        };
        /** @description Attempt to deliver a run's completion callback. */
        DeliveryAttempt: {
            /** @description Time at which the attempt began. */
            at: components["schemas"]["Timestamp"];
            /** @description Number of the attempt within the run, from 1. */
            attempt: number;
            /** @description Duration of the attempt, in milliseconds. */
            duration_ms: number;
            /** @description Reason of the failure; absent after a success. */
            error?: string;
            /**
             * @description Time of the next attempt, as scheduled at the end of this one. Absent after a success, and on the last attempt
             *     before the delivery was abandoned.
             */
            next_at?: components["schemas"]["Timestamp"];
            /** @description The HTTP status of the answer; absent where there was none. */
            status?: number;
        };
        /** @description Page of deliveries, of the newest run first. */
        DeliveryPage: {
            /** @description The deliveries. */
            items: components["schemas"]["Delivery"][];
            /** @description Value for `cursor` to get the next page; empty on the last one. */
            next_cursor: string;
        };
        /** @description State of the completion callback of a finished run. */
        DeliveryState: ("pending" | "retrying" | "delivered" | "abandoned") | (string & {});
        DeploymentId: string;
        /**
         * @description Effort of a language model, from the least to the most. Each provider's client maps it to the nearest level that the
         *     model has.
         */
        Effort: ("minimal" | "low" | "medium" | "high" | "xhigh" | "max") | (string & {});
        /** @description The body of every failure. */
        ErrorBody: {
            /** @description The machine-readable name. */
            code: components["schemas"]["ErrorCode"];
            /** @description Message for people: the field, its mistake and the rule. */
            error: string;
        };
        /** @description A stable, machine-readable name of a failure. */
        ErrorCode: ("invalid_request" | "unauthorized" | "second_factor_required" | "payment_required" | "forbidden" | "not_found" | "method_not_allowed" | "conflict" | "gone" | "precondition_failed" | "payload_too_large" | "range_not_satisfiable" | "rate_limited" | "internal" | "unavailable") | (string & {});
        /** @description Recorded event of a run. New types may be added: ignore those you do not know. */
        Event: components["schemas"]["StatusEvent"] | components["schemas"]["WorkerStartedEvent"] | components["schemas"]["ModelCallEvent"] | components["schemas"]["MessageEvent"] | components["schemas"]["ThinkingSummaryEvent"] | components["schemas"]["ToolStartEvent"] | components["schemas"]["ToolEndEvent"] | components["schemas"]["RetryEvent"] | components["schemas"]["BudgetWarningEvent"] | components["schemas"]["BudgetReachedEvent"] | components["schemas"]["ConnectionCallEvent"] | components["schemas"]["ContextCompactedEvent"] | components["schemas"]["AnswerRequestedEvent"] | components["schemas"]["ResumedEvent"] | components["schemas"]["InterruptedEvent"] | components["schemas"]["OutputRejectedEvent"] | components["schemas"]["ArtifactEvent"] | components["schemas"]["ArtifactSkippedEvent"] | components["schemas"]["ResultEvent"] | components["schemas"]["OutputTruncatedEvent"];
        /** @description Features of a deployment, as it is configured. */
        Features: {
            /** @description Whether the web console is enabled, at `/console/`. */
            console: boolean;
            /** @description Whether the deployment sends mail, such as invitations. */
            mail: boolean;
            /** @description Whether organizations can buy credits. */
            payments: boolean;
            /** @description Rule for new accounts of people. Absent on a self-hosted engine. */
            sign_up?: components["schemas"]["SignUpRule"];
            /**
             * @description Address of a trace in the operator's tracing tool: replace `{trace_id}` by the `trace_id` of a run. Absent if none is
             *     configured.
             */
            trace_url?: string;
        };
        /** @description Message of the feed of a list of runs. */
        FeedMessage: {
            /** @description The run as JSON without its output (`Run`); on `reset` an empty object. */
            data: string;
            /** @description `run`, or `reset`: load the list again. */
            event: string;
            /** @description Position for `Last-Event-ID`. */
            id: string;
        };
        /** @description A saved file. */
        File: {
            /** @description Media type: as sent, else from the name. */
            content_type: string;
            /** @description Time at which the file was saved. */
            created_at: components["schemas"]["Timestamp"];
            /** @description ID of the file. */
            id: components["schemas"]["FileId"];
            /** @description Name of the file, unique in the organization. */
            name: string;
            /** @description SHA-256 of the content, in lowercase hexadecimal. */
            sha256: components["schemas"]["Sha256"];
            /** @description Size in bytes. */
            size: number;
            /** @description Names of the workflows that name the file, by ID or by name, in order: at most the first 20. */
            used_by: string[];
        };
        /** @description File to upload, and optionally a name for it. */
        FileForm: {
            /**
             * Format: binary
             * @description The content. Its `filename` is the name, where `name` is not sent.
             */
            file: string;
            /**
             * @description The name: 1 to 255 bytes, no `/`, no control or invisible character, not `.` or `..`, not in the form of a
             *     file's id.
             */
            name?: string;
        };
        FileId: string;
        /** @description Files as a plain list, or a page of them. */
        FileList: components["schemas"]["File"][] | components["schemas"]["FilePage"];
        /** @description Page of files, newest first. */
        FilePage: {
            /** @description The files. */
            items: components["schemas"]["File"][];
            /** @description Value for `cursor` to get the next page; empty on the last one. */
            next_cursor: string;
        };
        /** @description Outcome of an occurrence of a schedule, or of many in a row that were missed at once. */
        Fire: {
            /** @description Scheduled time of the occurrence, without jitter; for a manual trigger, its time. */
            instant: components["schemas"]["Timestamp"];
            /** @description Number of occurrences that this entry stands for; absent for one. */
            instants?: number;
            /** @description Scheduled time of the last of them. */
            last_instant?: components["schemas"]["Timestamp"];
            /** @description Outcome of the occurrence. */
            outcome: components["schemas"]["FireOutcome"];
            /**
             * @description Reason why the occurrence was skipped: `overlap`, `paused`, `missed`, `coalesced`, `failures`, `disabled`,
             *     `budget`, `credits`, `suspended`, or `invalid: ` and the rule that the request of its run broke.
             */
            reason?: string;
            /** @description Time at which the entry was recorded. */
            recorded_at: components["schemas"]["Timestamp"];
            /** @description ID of the run that the occurrence started. */
            run_id?: components["schemas"]["RunId"];
            /** @description ID of the schedule; only in the history of all schedules. */
            schedule_id?: components["schemas"]["ScheduleId"];
            /** @description Trigger of the occurrence. */
            trigger: components["schemas"]["FireTrigger"];
        };
        /** @description Outcome of an occurrence. */
        FireOutcome: ("started" | "waiting" | "skipped") | (string & {});
        /** @description Page of the history of one schedule or of all, newest first. */
        FirePage: {
            /** @description The occurrences. */
            items: components["schemas"]["Fire"][];
            /** @description Value for `cursor` to get the next page; empty on the last one. */
            next_cursor: string;
        };
        /** @description Trigger of an occurrence. */
        FireTrigger: ("timetable" | "manual") | (string & {});
        /** @description The state of the node. */
        Health: {
            /** @description `ok`. */
            status: string;
        };
        /** @description The worker was lost and the run cannot go on, or the node was stopped. */
        InterruptedEvent: {
            created_at: components["schemas"]["Timestamp"];
            data: {
                /** @description With `uncertain_call`: the id of that call, as in its `tool_start`. */
                id?: string;
                /** @description `worker_lost`, `shutdown` or `uncertain_call`. */
                reason: string;
                /** @description The turn it was in; 0 if it is not known. */
                step: number;
                /** @description With `uncertain_call`: the tool whose call was under way and may have had its effect. */
                tool?: string;
            };
            /** @description Position in the run: 1, 2, 3 … without gaps. `Last-Event-ID` takes this number. */
            id: number;
            /**
             * @description Type of the event.
             * @enum {string}
             */
            type: "interrupted";
        };
        /** @description Request to keep an artifact of a run as a saved file. */
        KeepArtifact: {
            /**
             * @description The file's name: 1 to 255 bytes, no `/`, no control or invisible character, not `.` or `..`, not in the form of
             *     a file's id.
             */
            name: string;
            /** @description Path of the artifact, as in the run object. */
            path: string;
            /** @description The run. */
            run: components["schemas"]["RunId"];
        };
        KeyId: string;
        /** @description Well-known service that can be connected by name and credential alone. */
        KnownService: {
            /** @description Authentication method of the service. */
            auth: components["schemas"]["ShownAuth"];
            /** @description Suggested name of the connection. */
            name: string;
            /** @description Kind of server. */
            type: components["schemas"]["ConnectionType"];
            /** @description URL of the server. */
            url: string;
        };
        /** @description Answer of `GET` and `PUT /v1/admin/license`. */
        License: {
            /** @description Deployment that the license is for; absent without a license. */
            deployment_id?: components["schemas"]["DeploymentId"];
            /** @description End of the license; absent without a license. */
            expires_at?: components["schemas"]["Timestamp"];
            /** @description Time from which on an expired license allows no runs, 14 days after `expires_at`; absent without a license. */
            grace_until?: components["schemas"]["Timestamp"];
            /** @description Whether the engine has a license. Without one it has no monthly allowance to use up. */
            licensed: boolean;
            /** @description ID of the installation that a license is issued for, the same on every node of one database. */
            machine_id: string;
            /** @description Runs that the license allows in a calendar month, in UTC; absent without a license. */
            monthly_runs?: number;
            /** @description Name of the deployment; absent without a license. */
            name?: string;
            /** @description Organization that has the license, on the deployment that issued it; absent without a license. */
            organization?: components["schemas"]["OrgId"];
            /** @description Time at which the next month begins and `runs_used` starts from zero. */
            resets_at: components["schemas"]["Timestamp"];
            /** @description Runs that were created in this month, in UTC; with a license, those that were created under one. */
            runs_used: number;
        };
        /** @description Answer of `GET /v1/admin/master-key` and `GET /v1/operator/master-key`: a page of sealed values, and the keys of each node. */
        MasterKeys: {
            /** @description IDs of the keys of the node that answers. The node seals with the first key and opens with all of them. */
            keys: string[];
            /** @description Continues the list; empty on the last page. */
            next_cursor: string;
            /** @description Keys of every node whose lease has not expired. */
            nodes: components["schemas"]["NodeKeys"][];
            /** @description Number of values of this page for each key. The sum over all pages is the total. */
            sealed: components["schemas"]["SealedValues"][];
        };
        /** @description Data of `message_delta`: text that the model is writing. */
        MessageDelta: {
            /** @description The turn, from 1. */
            step: number;
            /** @description The next piece of the text. The whole text follows as `message`; after a `retry` it restarts. */
            text: string;
        };
        /** @description Text of the assistant in one turn. */
        MessageEvent: {
            created_at: components["schemas"]["Timestamp"];
            data: {
                /** @description The turn, from 1. */
                step: number;
                /** @description The text. */
                text: string;
            };
            /** @description Position in the run: 1, 2, 3 … without gaps. `Last-Event-ID` takes this number. */
            id: number;
            /**
             * @description Type of the event.
             * @enum {string}
             */
            type: "message";
        };
        /** @description Data of `message_start`: a model call begins. */
        MessageStart: {
            /** @description ID of the model that is called. */
            model: string;
            /** @description The turn, from 1. */
            step: number;
        };
        /** @description A non-negative amount in micros (1,000,000 = one US dollar). */
        Micros: number;
        /** @description Deployment mode of the engine. */
        Mode: ("hosted" | "self-hosted") | (string & {});
        /** @description Data of `model_call`. */
        ModelCall: {
            /** @description Tokens read from the provider's cache. */
            cache_read_tokens: number;
            /** @description Tokens written to the provider's cache. */
            cache_write_tokens: number;
            /** @description Cost of the call. */
            cost_micros: components["schemas"]["Micros"];
            /** @description Duration of the call, in milliseconds. */
            duration_ms: number;
            /** @description Tokens read, without those from a cache. */
            input_tokens: number;
            /** @description The model's id. */
            model: string;
            /** @description Tokens written. */
            output_tokens: number;
            /** @description The turn, from 1. */
            step: number;
            /**
             * @description Reason why the model stopped: `end_turn`, `tool_use`, `max_tokens`, `refusal`; `error` where the call failed, and
             *     `given_up` where the run did not wait for its end: the figures are then estimated.
             */
            stop_reason: string;
        };
        /** @description A model call has ended. */
        ModelCallEvent: {
            created_at: components["schemas"]["Timestamp"];
            data: components["schemas"]["ModelCall"];
            /** @description Position in the run: 1, 2, 3 … without gaps. `Last-Event-ID` takes this number. */
            id: number;
            /**
             * @description Type of the event.
             * @enum {string}
             */
            type: "model_call";
        };
        /** @description The models runs can use now. */
        ModelCatalog: {
            /** @description The model of a run that names none. */
            default_model: string;
            /** @description Every usable model. */
            models: components["schemas"]["ModelInfo"][];
        };
        /** @description Model of the catalog. */
        ModelInfo: {
            /** @description Capabilities of the model: `tools`, `structured_output`, `thinking`, `offline`. */
            capabilities: string[];
            /** @description Maximum tokens of a request and its answer together. */
            context_window: number;
            /** @description ID of the model, as a run's `model` takes it. */
            id: string;
            /** @description Maximum tokens of one answer. */
            max_output_tokens: number;
            /** @description Display name of the model. */
            name: string;
            /** @description Prices of the model. */
            prices: components["schemas"]["ModelPrices"];
            /** @description Name of the provider. */
            provider: string;
        };
        /** @description Prices in micros per million tokens. */
        ModelPrices: {
            /** @description Price of tokens read from the provider's cache. */
            cache_read_micros_per_mtok: components["schemas"]["Micros"];
            /** @description Price of tokens written to the provider's cache. */
            cache_write_micros_per_mtok: components["schemas"]["Micros"];
            /** @description Price of tokens read. */
            input_micros_per_mtok: components["schemas"]["Micros"];
            /** @description Price of tokens written. */
            output_micros_per_mtok: components["schemas"]["Micros"];
        };
        /** @description Occurrence to come. */
        NextFire: {
            /** @description Scheduled time of the occurrence, without jitter. */
            instant: components["schemas"]["Timestamp"];
            /** @description Time at which the run starts: later than `instant` by the schedule's jitter. */
            run_at: components["schemas"]["Timestamp"];
        };
        /** @description Node: a process that works on runs, or did until it was lost. */
        Node: {
            /** @description Address at which other nodes reach this one; absent where they cannot. */
            address?: string;
            /** @description ID of this start of the node: new at each start, and after the node was declared lost. Decimal digits. */
            id: string;
            /** @description End of the node's lease. The node renews it every few seconds and keeps its runs until then. */
            lease_until: components["schemas"]["Timestamp"];
            /** @description Name of the node, the same at each start. */
            name: string;
            /** @description Number of runs that the node holds, with those that are cancelled and not settled yet. */
            runs_at_work: number;
            /** @description Time at which the node started. */
            started_at: components["schemas"]["Timestamp"];
            /** @description State of the node. */
            state: components["schemas"]["NodeState"];
            /** @description Version of the node's program; absent for versions older than this field. */
            version?: string;
        };
        /** @description Answer of `GET /v1/admin/checks` and `GET /v1/operator/checks`: the findings of the node that answers. */
        NodeChecks: {
            /** @description Checks of the node. */
            checks: components["schemas"]["Check"][];
            /** @description The node's name. */
            node: string;
            /** @description Version of the node's program. */
            version: string;
        };
        /** @description The keys of a node. */
        NodeKeys: {
            /** @description IDs of the node's keys, the one that seals first. */
            keys: string[];
            /** @description The node's name. */
            name: string;
        };
        /** @description State of a node. */
        NodeState: ("ready" | "draining" | "lost") | (string & {});
        OrgId: string;
        /** @description Answer of `GET /v1/me`. */
        OrganizationInfo: {
            /** @description Compute price per second of a run, in micros. */
            compute_micros_per_second: components["schemas"]["Micros"];
            /** @description Budget of a run that names none, in micros. */
            default_max_cost_micros: components["schemas"]["Micros"];
            /** @description Features of the deployment, as it is configured. */
            features: components["schemas"]["Features"];
            /** @description ID of the API key. */
            key_id?: components["schemas"]["KeyId"];
            /** @description Name of the API key. */
            key_name?: string;
            /** @description The deployment mode. */
            mode: components["schemas"]["Mode"];
            /** @description The organization of the credential. */
            organization_id: components["schemas"]["OrgId"];
            /** @description Name of the organization. */
            organization_name: string;
            /** @description The credential's role. */
            role: components["schemas"]["Role"];
            /** @description Version of the engine. */
            version: string;
        };
        /** @description An answer did not match `output_schema`. */
        OutputRejectedEvent: {
            created_at: components["schemas"]["Timestamp"];
            data: {
                /** @description Number of the answer, from 1. */
                attempt: number;
                /** @description Mismatches, as in the error message. */
                errors: string[];
            };
            /** @description Position in the run: 1, 2, 3 … without gaps. `Last-Event-ID` takes this number. */
            id: number;
            /**
             * @description Type of the event.
             * @enum {string}
             */
            type: "output_rejected";
        };
        /** @description The final answer was longer than the limit. */
        OutputTruncatedEvent: {
            created_at: components["schemas"]["Timestamp"];
            data: {
                /** @description The limit, in bytes. */
                limit_bytes: number;
                /** @description The whole answer, in bytes. */
                output_bytes: number;
            };
            /** @description Position in the run: 1, 2, 3 … without gaps. `Last-Event-ID` takes this number. */
            id: number;
            /**
             * @description Type of the event.
             * @enum {string}
             */
            type: "output_truncated";
        };
        /** @description Rule for an occurrence that comes while a run of the schedule is not final yet. */
        Overlap: ("allow" | "skip" | "queue_one" | "cancel_other") | (string & {});
        /** @description Session of a person at a self-hosted engine, as an admin sees it. */
        PersonSession: {
            /** @description Address that the person signed in from; absent where it is not known. */
            address?: string;
            /** @description Name that the client gave itself (`User-Agent`); absent where it gave none. */
            agent?: string;
            /** @description Time of the sign-in. */
            created_at: components["schemas"]["Timestamp"];
            /** @description Email address of the person. */
            email: string;
            /** @description End of the session. */
            expires_at: components["schemas"]["Timestamp"];
            /** @description ID of the session. */
            id: components["schemas"]["SessionId"];
            /** @description Time of a late use; the last one may be an hour later. */
            seen_at: components["schemas"]["Timestamp"];
            /** @description The person. */
            user_id: components["schemas"]["UserId"];
        };
        /** @description Body of `PUT /v1/budgets/{scope}`. */
        PutBudget: {
            /** @description Maximum cost of the runs of one window, in micros: 0 to 1000000000000000. With 0 every run is refused. */
            limit_micros: number;
            /** @description Length of a window. */
            period: components["schemas"]["BudgetPeriod"];
        };
        /** @description Body of `PUT /v1/admin/license`. */
        PutLicense: {
            /** @description License token. An organization creates one with a deployment of its own. */
            token: string;
        };
        /** @description The state of a node that takes runs. */
        Readiness: {
            /**
             * @description Optional parts that are unavailable. With `storage`, files are refused with 503, and runs that have files or leave
             *     outputs wait. New names may be added.
             */
            degraded: string[];
            /** @description `ok`. */
            status: string;
        };
        /** @description Delivery that is to be repeated. */
        Redelivery: {
            /** @description The number that the next attempt will have in the list of attempts. */
            attempt: number;
        };
        /** @description Request for a new name of a file. */
        RenameFile: {
            /**
             * @description The name: 1 to 255 bytes, no `/`, no control or invisible character, not `.` or `..`, not in the form of a
             *     file's id.
             */
            name: string;
        };
        /**
         * @description Answer of `POST /v1/admin/master-key/reseal` and `POST /v1/operator/master-key/reseal`: the result for a page of sealed
         *     values.
         */
        Reseal: {
            /** @description Values that changed at the same time: they may be sealed with another key. */
            changed_meanwhile: number;
            /** @description Values that were processed. */
            looked_at: number;
            /** @description Value for `cursor` to get the next page; empty on the last one. */
            next_cursor: string;
            /** @description Values that were sealed again, with the first key of this node. */
            resealed: number;
            /** @description Values that none of the node's keys opens. They are unchanged; the node's log names them. */
            unreadable: number;
        };
        /** @description The final answer. */
        ResultEvent: {
            created_at: components["schemas"]["Timestamp"];
            data: {
                /** @description The answer, cut at 1 MiB. */
                output: string;
            };
            /** @description Position in the run: 1, 2, 3 … without gaps. `Last-Event-ID` takes this number. */
            id: number;
            /**
             * @description Type of the event.
             * @enum {string}
             */
            type: "result";
        };
        /** @description The run continues from its last completed step after its worker was lost. */
        ResumedEvent: {
            created_at: components["schemas"]["Timestamp"];
            data: {
                /** @description Number of this attempt at the run, from 2. */
                attempt: number;
                /** @description The last turn that was completed; 0 where it begins again. */
                step: number;
            };
            /** @description Position in the run: 1, 2, 3 … without gaps. `Last-Event-ID` takes this number. */
            id: number;
            /**
             * @description Type of the event.
             * @enum {string}
             */
            type: "resumed";
        };
        /** @description Something is tried again. */
        RetryEvent: {
            created_at: components["schemas"]["Timestamp"];
            data: {
                /** @description The attempt that comes next, from 2. */
                attempt: number;
                /** @description Wait before the next attempt, in milliseconds. */
                delay_ms: number;
                /** @description Reason why the last attempt failed. */
                reason: string;
                /** @description Operation that is tried again. */
                what: string;
            };
            /** @description Position in the run: 1, 2, 3 … without gaps. `Last-Event-ID` takes this number. */
            id: number;
            /**
             * @description Type of the event.
             * @enum {string}
             */
            type: "retry";
        };
        /** @description Role of a credential, ordered by power. */
        Role: ("member" | "admin" | "owner") | (string & {});
        /** @description Body of `POST /v1/admin/keys/{id}/rotate`. */
        RotateKey: {
            /**
             * @description Time for which the previous secret still works, in seconds: 0 to 604800. Default: 3600.
             * @default 3600
             */
            grace_seconds?: number;
        };
        /** @description A run as a client sees it. */
        Run: {
            /** @description Files that the run left under `outputs/`, by path; absent where there are none. */
            artifacts?: components["schemas"]["Artifact"][];
            /** @description Whether the cost is still to be settled. */
            billing_pending: boolean;
            /** @description Cost so far, in micros; omitted when zero. Provisional until `billing_pending` is false on a finished run. */
            cost_micros?: components["schemas"]["Micros"];
            /** @description Time of creation. */
            created_at: components["schemas"]["Timestamp"];
            /** @description Reason why the run did not succeed. */
            error?: string;
            /** @description Time at which the run reached a final status. */
            finished_at?: components["schemas"]["Timestamp"];
            /** @description ID of the run. */
            id: components["schemas"]["RunId"];
            /** @description ID of the API key that started the run. Absent if a person, an application or a schedule did. */
            key_id?: components["schemas"]["KeyId"];
            /** @description ID of the last recorded event. */
            last_event_id: number;
            /** @description Budget of the run, in micros. */
            max_cost_micros: components["schemas"]["Micros"];
            /** @description Metadata of the run: the pairs sent and those of its workflow. */
            metadata?: {
                [key: string]: string;
            };
            /** @description ID of the model that the run uses. */
            model?: string;
            /** @description The agent's final answer, at most 1 MiB. Absent until there is one. */
            output?: string;
            /** @description Zero-data-retention runs: whether the output is still held for retrieval. */
            output_available?: boolean;
            /** @description Zero-data-retention runs: time at which an unread output is deleted. */
            output_expires_at?: components["schemas"]["Timestamp"];
            /**
             * @description Zero-data-retention runs: time at which the output was read, or delivered to the callback. Absent if the output was
             *     deleted unread.
             */
            output_read_at?: components["schemas"]["Timestamp"];
            /** @description ID of the run that this one repeats, as sent. That run may be deleted by now. */
            replay_of?: components["schemas"]["RunId"];
            /** @description ID of the schedule that started the run. */
            schedule_id?: components["schemas"]["ScheduleId"];
            /** @description Time at which the run left the queue. */
            started_at?: components["schemas"]["Timestamp"];
            /** @description Current status of the run. */
            status: components["schemas"]["RunStatus"];
            /** @description Part of `cost_micros` that the surcharge added; omitted when zero. */
            surcharge_micros?: components["schemas"]["Micros"];
            /** @description Zero-data-retention runs on the hosted service: surcharge in percent. */
            surcharge_percent?: number;
            /** @description Tags of the run, as sent. */
            tags?: string[];
            /** @description Time limit from `started_at`, in seconds. */
            timeout_seconds: number;
            /** @description First line of the description, or else of the prompt, at most 120 characters. Absent with zero data retention. */
            title?: string;
            /**
             * @description Trace that the run belongs to, as W3C Trace Context has it: 32 hexadecimal digits. Absent if the request that started the
             *     run had no `traceparent` and the engine exports no traces.
             */
            trace_id?: string;
            /** @description Tokens and calls that the run used so far; absent until it starts. */
            usage?: components["schemas"]["RunUsage"];
            /** @description Name of the saved workflow that the run was started from. */
            workflow?: string;
            /** @description Whether the run stores nothing of its content. */
            zero_data_retention: boolean;
        };
        /** @description A connection of a run: a saved one by `ref`, or an inline definition by `type` and `url`. */
        RunConnection: {
            /** @description The only HTTP methods the agent may use; beside `ref`, of those the saved connection allows. */
            allowed_methods?: string[];
            /** @description The only MCP tools the agent may use; beside `ref`, of those the saved connection allows. */
            allowed_tools?: string[];
            /** @description Authentication of an inline definition, every type but `oauth`. The engine uses it and does not keep it. */
            auth?: components["schemas"]["ConnectionAuth"];
            /**
             * @description Headers added to every request of an inline definition, by name; at most 32. The engine uses the values and does
             *     not keep them.
             */
            headers?: {
                [key: string]: string;
            };
            /** @description Name of a saved connection. */
            ref?: string;
            /** @description Kind of an inline definition. */
            type?: components["schemas"]["ConnectionType"];
            /**
             * @description Base URL of an inline HTTP API, or the endpoint of an MCP server. User info and query are credentials: the
             *     engine uses them and does not keep them.
             */
            url?: string;
        };
        /** @description Definition that a run used. */
        RunDefinition: {
            /** @description The resolved request: defaults filled in, workflow name and callback removed. */
            request: components["schemas"]["RunRequest"];
            /** @description Inline connections whose credentials were not kept. */
            requires_credentials: string[];
        };
        /** @description A file for the working directory: a saved one by `file`, or its text by `content`; exactly one of the two. */
        RunFile: {
            /** @description Inline text, UTF-8; all inline contents of a run together at most 8 MiB. */
            content?: string;
            /** @description ID or name of a saved file. */
            file?: string;
            /** @description Path in the working directory: relative, `/`-separated, no `..`, at most 1,024 bytes, unique in the run. */
            path: string;
        };
        RunId: string;
        /** @description Runs as a plain list, or a page of them. */
        RunList: components["schemas"]["Run"][] | components["schemas"]["RunPage"];
        /** @description Page of runs, newest first. */
        RunPage: {
            /** @description The runs. */
            items: components["schemas"]["Run"][];
            /** @description Value for `cursor` to get the next page; empty on the last one. */
            next_cursor: string;
        };
        /** @description Permission of a run token. */
        RunPermission: ("read" | "cancel") | (string & {});
        /** @description Body of `POST /v1/runs`. */
        RunRequest: {
            /** @description Receiver of a signed request that is sent when the run is final. */
            callback?: components["schemas"]["Callback"];
            /** @description APIs and MCP servers the agent may call, keyed by the name it sees. At most 16. */
            connections?: {
                [key: string]: components["schemas"]["RunConnection"];
            };
            /** @description Purpose of the run, for people and agents. At most 500 characters. No effect on the run. */
            description?: string;
            /** @description Effort of the model's thinking, mapped to the nearest level that the model has. Default: the model's setting. */
            effort?: components["schemas"]["Effort"];
            /** @description Fallback model, called once if `model` refuses to answer. Must differ from it. */
            fallback_model?: string;
            /** @description Files staged in the working directory before the agent begins. At most 32. */
            files?: components["schemas"]["RunFile"][];
            /** @description Task data passed to the agent as JSON, kept as sent. At most 1 MiB. */
            input?: unknown;
            /**
             * @description A JSON Schema that `input` must match. At most 64 KiB; only local `$ref`s. Patterns are regular expressions without
             *     look-around and back-references, of a limited size.
             */
            input_schema?: {
                [key: string]: unknown;
            };
            /**
             * @description Instructions that say who the agent is and how it works. The model reads them after the engine's system prompt and
             *     before the task. Replaces the saved instructions of the workflow; an empty text uses none. At most 64 KiB.
             */
            instructions?: string;
            /** @description Budget in micros. Default: `default_max_cost_micros` of `GET /v1/me`. */
            max_cost_micros?: number;
            /** @description Maximum number of model calls; retries do not count. The run fails when it needs more. Default 200. */
            max_steps?: number;
            /**
             * @description Pairs of texts that the run carries and can be found by: at most 16. A key has 1 to 64 characters and no control
             *     characters, a value at most 512 characters. Pairs sent are added to those of the workflow and replace those with the
             *     same key.
             */
            metadata?: {
                [key: string]: string;
            };
            /** @description Model ID. Default: `default_model` of `GET /v1/models`. */
            model?: string;
            /**
             * @description A JSON Schema that the run's output must match. At most 64 KiB; only local `$ref`s. Patterns are regular expressions
             *     without look-around and back-references, of a limited size.
             */
            output_schema?: {
                [key: string]: unknown;
            };
            /** @description The task. Required unless `workflow` is set, whose saved prompt it then replaces. At most 128 KiB. */
            prompt?: string;
            /** @description ID of the run that this one repeats. It is only kept and shown: send the definition of that run as well. */
            replay_of?: components["schemas"]["RunId"];
            /** @description Lets the agent run shell commands and write files in its working directory. Default `true`. */
            shell?: boolean;
            /** @description Short texts to find the run by: at most 16, each 1 to 64 characters, none twice. */
            tags?: string[];
            /** @description Time limit from `started_at`, in seconds. Default 300. */
            timeout_seconds?: number;
            /** @description Lets the agent fetch pages, call public APIs and search. Default off. */
            web?: components["schemas"]["Web"];
            /** @description Name of a saved workflow. Other definition fields sent replace the saved ones whole; only `metadata` is merged. */
            workflow?: string;
            /** @description Stores nothing of the run's content. Default `false`. */
            zero_data_retention?: boolean;
        };
        /** @description Status of a run. */
        RunStatus: ("reserving" | "queued" | "starting" | "running" | "succeeded" | "failed" | "cancelled" | "timed_out" | "interrupted") | (string & {});
        /** @description Tokens and calls that a run used. */
        RunUsage: {
            /** @description Tokens read from the provider's cache. */
            cache_read_tokens: number;
            /** @description Tokens written to the provider's cache. */
            cache_write_tokens: number;
            /** @description Tokens read, without those from a cache. */
            input_tokens: number;
            /** @description Calls of a model that have ended. */
            model_calls: number;
            /** @description Tokens written. */
            output_tokens: number;
            /** @description Calls of tools that have ended. */
            tool_calls: number;
        };
        /** @description A schedule. */
        Schedule: {
            /** @description Receiver of a signed request that is sent when a run is final. */
            callback?: components["schemas"]["CallbackTarget"];
            /** @description Maximum delay of an occurrence that still starts a run, in seconds. */
            catch_up_window_seconds: number;
            /** @description Time of creation. */
            created_at: components["schemas"]["Timestamp"];
            /** @description Cron expression, as sent. */
            cron: string;
            /** @description Whether the schedule is enabled. */
            enabled: boolean;
            /** @description ID of the schedule. */
            id: components["schemas"]["ScheduleId"];
            /** @description Task data of every run, kept as sent. At most 1 MiB. */
            input?: unknown;
            /** @description Maximum jitter in seconds. */
            jitter_seconds: number;
            /** @description Reason why the last occurrence started no run, else why the last run did not succeed. */
            last_error?: string;
            /** @description Time at which the schedule last started a run. */
            last_run_at?: components["schemas"]["Timestamp"];
            /** @description ID of the run that the schedule started last. */
            last_run_id?: components["schemas"]["RunId"];
            /** @description Number of consecutive runs without success after which the schedule is disabled. */
            max_consecutive_failures?: number;
            /** @description Budget of each run. */
            max_cost_micros?: components["schemas"]["Micros"];
            /** @description Name of the schedule. */
            name?: string;
            /** @description Time at which the next occurrence is processed; absent while the schedule is disabled. */
            next_run_at?: components["schemas"]["Timestamp"];
            /** @description Rule for occurrences that come while an earlier run is not final. */
            overlap: components["schemas"]["Overlap"];
            /** @description Occurrences before this time are skipped. */
            paused_until?: components["schemas"]["Timestamp"];
            /** @description The IANA time zone of `cron`. */
            timezone: string;
            /** @description Time of the last change by a client. */
            updated_at: components["schemas"]["Timestamp"];
            /** @description Name of the saved workflow that the runs start from. */
            workflow: string;
        };
        ScheduleId: string;
        /** @description Page of schedules, newest first. */
        SchedulePage: {
            /** @description The schedules. */
            items: components["schemas"]["Schedule"][];
            /** @description Value for `cursor` to get the next page; empty on the last one. */
            next_cursor: string;
        };
        /** @description Number of values that are sealed with a key. */
        SealedValues: {
            /** @description ID of the key; `unknown` for values that are not sealed at all. */
            key: string;
            /** @description Column that holds the values, as `table.column`. */
            place: string;
            /** @description Number of values. */
            values: number;
        };
        SessionId: string;
        Sha256: string;
        /** @description The kind of a connection's authentication. */
        ShownAuth: {
            /** @description Type of the authentication. */
            type: components["schemas"]["AuthType"];
        };
        /** @description Rule for new accounts of a hosted deployment. */
        SignUpRule: ("open" | "verify_first" | "invited" | "closed") | (string & {});
        /** @description Data of `budget_warning` and `budget_reached`. */
        Spent: {
            /** @description The run's budget. */
            limit_micros: components["schemas"]["Micros"];
            /** @description Spent so far. */
            spent_micros: components["schemas"]["Micros"];
        };
        /** @description The run moved to another status. */
        StatusEvent: {
            created_at: components["schemas"]["Timestamp"];
            data: {
                /** @description On a final status that is not a success: why. */
                error?: string;
                /** @description The new status. */
                status: components["schemas"]["RunStatus"];
            };
            /** @description Position in the run: 1, 2, 3 … without gaps. `Last-Event-ID` takes this number. */
            id: number;
            /**
             * @description Type of the event.
             * @enum {string}
             */
            type: "status";
        };
        /** @description Message of the stream. */
        StreamMessage: {
            /** @description The event as JSON (`Event`); on `done` the run (`Run`), and of a live message its data. */
            data: string;
            /** @description The event's type, `done`, or with `deltas=true` `message_start`, `message_delta` or `tool_output`. */
            event: string;
            /** @description The event's id; absent on `done` and on live messages. */
            id?: string;
            /** @description Milliseconds to wait before reconnecting; sent once. */
            retry?: number;
        };
        /** @description A readable summary of what the model thought in one turn, where its provider gives one. */
        ThinkingSummaryEvent: {
            created_at: components["schemas"]["Timestamp"];
            data: {
                /** @description The turn, from 1. */
                step: number;
                /** @description The text. */
                text: string;
            };
            /** @description Position in the run: 1, 2, 3 … without gaps. `Last-Event-ID` takes this number. */
            id: number;
            /**
             * @description Type of the event.
             * @enum {string}
             */
            type: "thinking_summary";
        };
        /**
         * Format: date-time
         * @description RFC 3339, UTC, millisecond precision.
         */
        Timestamp: string;
        /** @description Data of `tool_end`. */
        ToolEnd: {
            /** @description Price of the call; left out where it is zero. */
            cost_micros?: components["schemas"]["Micros"];
            /** @description Duration of the call, in milliseconds. */
            duration_ms: number;
            /** @description The call's id. */
            id: string;
            /** @description Whether the model was told of a failure. */
            is_error: boolean;
            /** @description Output that the model was given, cut at [`TOOL_OUTPUT_BYTES`]. */
            output: string;
            /** @description The whole output, in bytes. */
            output_bytes: number;
            /** @description The tool's name. */
            tool: string;
        };
        /** @description A tool has ended. */
        ToolEndEvent: {
            created_at: components["schemas"]["Timestamp"];
            data: components["schemas"]["ToolEnd"];
            /** @description Position in the run: 1, 2, 3 … without gaps. `Last-Event-ID` takes this number. */
            id: number;
            /**
             * @description Type of the event.
             * @enum {string}
             */
            type: "tool_end";
        };
        /** @description Data of `tool_output`: output that a command is printing. */
        ToolOutput: {
            /** @description ID of the tool call, as in `tool_start`. */
            id: string;
            /** @description The next piece of the output. A slow client misses some; `tool_end` has the recorded output. */
            text: string;
        };
        /** @description A tool begins. */
        ToolStartEvent: {
            created_at: components["schemas"]["Timestamp"];
            data: {
                /** @description The arguments, a JSON object. */
                arguments: {
                    [key: string]: unknown;
                };
                /** @description The call's id, the same in `tool_end`. */
                id: string;
                /** @description The tool's name. */
                tool: string;
            };
            /** @description Position in the run: 1, 2, 3 … without gaps. `Last-Event-ID` takes this number. */
            id: number;
            /**
             * @description Type of the event.
             * @enum {string}
             */
            type: "tool_start";
        };
        /** @description Message of the UI message stream. */
        UiStreamMessage: {
            /** @description A chunk as JSON, or `[DONE]` at the end. */
            data: string;
            /** @description Number of the event and of the chunk; absent on live chunks and `[DONE]`. */
            id?: string;
            /** @description Milliseconds to wait before reconnecting; sent once. */
            retry?: number;
        };
        /** @description Body of `PATCH /v1/schedules/{id}`: what is absent stays, `null` puts an optional field back to its default. */
        UpdateSchedule: {
            callback?: components["schemas"]["Callback"] | null;
            /** @description Maximum delay of an occurrence that still starts a run, in seconds; `null` is 3600. */
            catch_up_window_seconds?: number | null;
            /** @description Cron expression, as in a new schedule. */
            cron?: string;
            /** @description Whether the schedule is enabled; `null` is `true`. An enabled schedule goes on with its next occurrence. */
            enabled?: boolean | null;
            /** @description Task data of every run, kept as sent. At most 1 MiB. */
            input?: unknown;
            /** @description Maximum jitter in seconds; `null` is 0. */
            jitter_seconds?: number | null;
            /** @description Number of consecutive runs without success after which the schedule is disabled; `null` is never. */
            max_consecutive_failures?: number | null;
            /** @description Budget of each run in micros; `null` leaves it to the workflow and the engine. */
            max_cost_micros?: number | null;
            /** @description Name of the schedule; `null` removes it. */
            name?: string | null;
            overlap?: components["schemas"]["Overlap"] | null;
            paused_until?: components["schemas"]["Timestamp"] | null;
            /** @description The IANA time zone of `cron`; `null` is `UTC`. */
            timezone?: string | null;
            /** @description Name of the saved workflow that the runs start from. */
            workflow?: string;
        };
        /** @description Answer of `GET /v1/usage` and `GET /v1/admin/usage`. */
        Usage: {
            /** @description Dimensions by which the rows are grouped. */
            by: components["schemas"]["UsageDimension"][];
            /** @description The first day. */
            from: components["schemas"]["Day"];
            /** @description Rows, sorted by dimension; empty if no run matches. */
            rows: components["schemas"]["UsageRow"][];
            /** @description The last day. */
            to: components["schemas"]["Day"];
            /** @description The sums of all rows. */
            totals: components["schemas"]["UsageFigures"];
        };
        /** @description Dimension by which usage is grouped. */
        UsageDimension: ("day" | "workflow" | "model" | "key") | (string & {});
        /** @description Sums over runs. Runs that are not settled yet count with what they have cost so far. */
        UsageFigures: {
            /** @description Cost of the runs. */
            cost_micros: components["schemas"]["Micros"];
            /** @description Runs that were created. */
            runs: number;
            /** @description Runs that succeeded. */
            succeeded: number;
            /** @description Tokens and calls that the runs used. */
            usage: components["schemas"]["RunUsage"];
        };
        /** @description Usage of one group of runs. A dimension is absent if it was not requested or the runs have none. */
        UsageRow: {
            /** @description Cost of the runs. */
            cost_micros: components["schemas"]["Micros"];
            /** @description Day on which the runs were created. */
            day?: components["schemas"]["Day"];
            /** @description ID of the key that the runs were started with; it may be deleted by now. */
            key_id?: components["schemas"]["KeyId"];
            /** @description Model of the runs. */
            model?: string;
            /** @description Runs that were created. */
            runs: number;
            /** @description Runs that succeeded. */
            succeeded: number;
            /** @description Tokens and calls that the runs used. */
            usage: components["schemas"]["RunUsage"];
            /** @description Name of the saved workflow that the runs were started from. */
            workflow?: string;
        };
        UserId: string;
        /** @description Result of a check. */
        Verdict: ("ok" | "warning" | "fault") | (string & {});
        /** @description `true`, `false`, or an object that enables web access with restrictions. */
        Web: boolean | components["schemas"]["WebRestriction"];
        /** @description Restriction of the agent's web access. */
        WebRestriction: {
            /** @description Domains with their subdomains. Absent: every public address. */
            allow?: string[];
            /** @description Whether the agent may search. Default `true`. */
            search?: boolean;
        };
        /** @description A worker has the run and its agent begins. */
        WorkerStartedEvent: {
            created_at: components["schemas"]["Timestamp"];
            data: {
                /** @description The deployment mode. */
                mode: components["schemas"]["Mode"];
                /** @description The isolation level in use: `namespaces`, `landlock`, `none`. */
                runtime: string;
                /** @description Whether the agent may run shell commands. */
                shell: boolean;
            };
            /** @description Position in the run: 1, 2, 3 … without gaps. `Last-Event-ID` takes this number. */
            id: number;
            /**
             * @description Type of the event.
             * @enum {string}
             */
            type: "worker_started";
        };
        /** @description A saved workflow: its definition as it was saved, with its name, its revision and its times. */
        Workflow: {
            /** @description APIs and MCP servers the agent may call, keyed by the name it sees. At most 16. */
            connections?: {
                [key: string]: components["schemas"]["RunConnection"];
            };
            /** @description Time of creation. */
            created_at: components["schemas"]["Timestamp"];
            /** @description Purpose of the run, for people and agents. At most 500 characters. No effect on the run. */
            description?: string;
            /** @description Effort of the model's thinking, mapped to the nearest level that the model has. Default: the model's setting. */
            effort?: components["schemas"]["Effort"];
            /** @description Fallback model, called once if `model` refuses to answer. Must differ from it. */
            fallback_model?: string;
            /** @description Files staged in the working directory before the agent begins. At most 32. */
            files?: components["schemas"]["RunFile"][];
            /** @description Task data passed to the agent as JSON, kept as sent. At most 1 MiB. */
            input?: unknown;
            /**
             * @description A JSON Schema that `input` must match. At most 64 KiB; only local `$ref`s. Patterns are regular expressions without
             *     look-around and back-references, of a limited size.
             */
            input_schema?: {
                [key: string]: unknown;
            };
            /**
             * @description Instructions that say who the agent is and how it works. The model reads them after the engine's system prompt and
             *     before the task. Replaces the saved instructions of the workflow; an empty text uses none. At most 64 KiB.
             */
            instructions?: string;
            /** @description Budget in micros. Default: `default_max_cost_micros` of `GET /v1/me`. */
            max_cost_micros?: number;
            /** @description Maximum number of model calls; retries do not count. The run fails when it needs more. Default 200. */
            max_steps?: number;
            /**
             * @description Pairs of texts that the run carries and can be found by: at most 16. A key has 1 to 64 characters and no control
             *     characters, a value at most 512 characters. Pairs sent are added to those of the workflow and replace those with the
             *     same key.
             */
            metadata?: {
                [key: string]: string;
            };
            /** @description Model ID. Default: `default_model` of `GET /v1/models`. */
            model?: string;
            /** @description Name of the workflow, unique in the organization. */
            name: string;
            /**
             * @description A JSON Schema that the run's output must match. At most 64 KiB; only local `$ref`s. Patterns are regular expressions
             *     without look-around and back-references, of a limited size.
             */
            output_schema?: {
                [key: string]: unknown;
            };
            /** @description The task. At most 128 KiB. */
            prompt: string;
            /** @description Revision of the definition: 1 at first, and one more with each change. */
            revision: number;
            /** @description Lets the agent run shell commands and write files in its working directory. Default `true`. */
            shell?: boolean;
            /** @description Short texts to find the run by: at most 16, each 1 to 64 characters, none twice. */
            tags?: string[];
            /** @description Time limit from `started_at`, in seconds. Default 300. */
            timeout_seconds?: number;
            /** @description Time of the last change of the definition. */
            updated_at: components["schemas"]["Timestamp"];
            /** @description Lets the agent fetch pages, call public APIs and search. Default off. */
            web?: components["schemas"]["Web"];
        };
        /** @description Body of `PUT /v1/workflows/{name}`: the fields of a run request that hold for every run of the workflow. */
        WorkflowDefinition: {
            /** @description APIs and MCP servers the agent may call, keyed by the name it sees. At most 16. */
            connections?: {
                [key: string]: components["schemas"]["RunConnection"];
            };
            /** @description Purpose of the run, for people and agents. At most 500 characters. No effect on the run. */
            description?: string;
            /** @description Effort of the model's thinking, mapped to the nearest level that the model has. Default: the model's setting. */
            effort?: components["schemas"]["Effort"];
            /** @description Fallback model, called once if `model` refuses to answer. Must differ from it. */
            fallback_model?: string;
            /** @description Files staged in the working directory before the agent begins. At most 32. */
            files?: components["schemas"]["RunFile"][];
            /** @description Task data passed to the agent as JSON, kept as sent. At most 1 MiB. */
            input?: unknown;
            /**
             * @description A JSON Schema that `input` must match. At most 64 KiB; only local `$ref`s. Patterns are regular expressions without
             *     look-around and back-references, of a limited size.
             */
            input_schema?: {
                [key: string]: unknown;
            };
            /**
             * @description Instructions that say who the agent is and how it works. The model reads them after the engine's system prompt and
             *     before the task. Replaces the saved instructions of the workflow; an empty text uses none. At most 64 KiB.
             */
            instructions?: string;
            /** @description Budget in micros. Default: `default_max_cost_micros` of `GET /v1/me`. */
            max_cost_micros?: number;
            /** @description Maximum number of model calls; retries do not count. The run fails when it needs more. Default 200. */
            max_steps?: number;
            /**
             * @description Pairs of texts that the run carries and can be found by: at most 16. A key has 1 to 64 characters and no control
             *     characters, a value at most 512 characters. Pairs sent are added to those of the workflow and replace those with the
             *     same key.
             */
            metadata?: {
                [key: string]: string;
            };
            /** @description Model ID. Default: `default_model` of `GET /v1/models`. */
            model?: string;
            /**
             * @description A JSON Schema that the run's output must match. At most 64 KiB; only local `$ref`s. Patterns are regular expressions
             *     without look-around and back-references, of a limited size.
             */
            output_schema?: {
                [key: string]: unknown;
            };
            /** @description The task. At most 128 KiB. */
            prompt: string;
            /** @description Lets the agent run shell commands and write files in its working directory. Default `true`. */
            shell?: boolean;
            /** @description Short texts to find the run by: at most 16, each 1 to 64 characters, none twice. */
            tags?: string[];
            /** @description Time limit from `started_at`, in seconds. Default 300. */
            timeout_seconds?: number;
            /** @description Lets the agent fetch pages, call public APIs and search. Default off. */
            web?: components["schemas"]["Web"];
        };
        /** @description A workflow in a list. */
        WorkflowSummary: {
            /** @description With `detail=true`: names of the saved connections that the definition uses. */
            connections?: string[];
            /** @description With `detail=true`: cost of these runs so far, in micros. */
            cost_30d_micros?: components["schemas"]["Micros"];
            /** @description With `detail=true`: purpose of the workflow, where one is set. */
            description?: string;
            /** @description With `detail=true`: IDs or names of the saved files that the definition uses, as saved. */
            files?: string[];
            /** @description With `detail=true`: the JSON Schema of its `input`, where one is set. */
            input_schema?: {
                [key: string]: unknown;
            };
            /** @description With `detail=true`: ID of the model that is set. */
            model?: string;
            /** @description Name of the workflow. */
            name: string;
            /** @description With `detail=true`: the JSON Schema of its runs' output, where one is set. */
            output_schema?: {
                [key: string]: unknown;
            };
            /** @description With `detail=true`: revision of the definition. */
            revision?: number;
            /** @description With `detail=true`: number of runs that were created in the last 30 days, today included, in UTC. */
            runs_30d?: number;
            /** @description With `detail=true`: time of the last change of the definition. */
            updated_at?: components["schemas"]["Timestamp"];
        };
        /** @description Body of `POST /v1/invitations/accept`. */
        AcceptInvitation: {
            /** @description Token of the invitation. */
            token: string;
        };
        /** @description Data that the service keeps about a person. */
        AccountExport: {
            /** @description Changes that the person made, newest first, at most 10,000. */
            changes: components["schemas"]["ExportedChange"][];
            /** @description Permissions that the person has given to applications. */
            grants: components["schemas"]["ExportedGrant"][];
            /** @description Identities of the person at identity providers. */
            identities: components["schemas"]["LinkedIdentity"][];
            /** @description Organizations of the person. */
            organizations: components["schemas"]["Organization"][];
            /** @description Sessions of the person that have not ended, newest first, at most 100. */
            sessions: components["schemas"]["Session"][];
            /** @description The person. */
            user: components["schemas"]["User"];
        };
        /** @description Automatic purchases of credits. */
        AutoTopup: {
            /** @description Amount of a purchase; `null` while disabled. */
            amount_cents: number | null;
            /** @description Whether credits are bought automatically. */
            enabled: boolean;
            /**
             * @description Result of the last automatic purchase: `succeeded`, `processing`, `failed` or `requires_action`; `null` before the
             *     first one.
             */
            last_topup_status: string | null;
            /** @description Whether a card is saved for automatic purchases. */
            payment_method_saved: boolean;
            /** @description Credits are bought when fewer than this are available; `null` while disabled. */
            threshold_cents: number | null;
        };
        /** @description Answer of `GET /v1/organizations/{id}/balance`. */
        Balance: {
            /** @description Credits available for new runs: the balance without what is reserved, at least 0. */
            available_micros: components["schemas"]["Micros"];
            /** @description Credits of the organization. Negative where credits that were spent were taken back. */
            balance_micros: number;
            /** @description Credits reserved for runs that are not settled. */
            reserved_micros: components["schemas"]["Micros"];
        };
        /** @description Answer of `GET /v1/organizations/{id}/billing`. */
        Billing: components["schemas"]["Balance"] & {
            /** @description Automatic purchases. */
            auto_topup: components["schemas"]["AutoTopup"];
            /** @description The newest movements of credits, at most 100. */
            ledger: components["schemas"]["LedgerEntry"][];
            payment_method: components["schemas"]["PaymentMethod"] | null;
            /** @description State of `payment_method`: `unavailable` does not mean that there is no card. */
            payment_method_sync: components["schemas"]["PaymentMethodSync"];
            /** @description Limits of purchases. */
            purchase_limits: components["schemas"]["PurchaseLimits"];
            /** @description Whether the deployment takes payments. */
            stripe_configured: boolean;
        };
        /** @description Body of `PUT /v1/me/password`. */
        ChangePassword: {
            /** @description Password that the account has now. An account without one needs a sign-in of the last ten minutes instead. */
            current_password?: string;
            /** @description New password: 12 to 72 bytes, hard to guess. */
            new_password: string;
        };
        /** @description Body of `PATCH /v1/organizations/{id}/members/{user_id}`. */
        ChangeRole: {
            /** @description New role of the member. */
            role: components["schemas"]["MemberRole"];
        };
        /** @description Registered client (RFC 7591, section 3.2.1). */
        ClientInformation: {
            /** @description ID that the client sends. */
            client_id: string;
            /** @description Time of the registration, in seconds since 1970. */
            client_id_issued_at: number;
            /** @description Name that the client calls itself by. */
            client_name?: string;
            /** @description Secret of a confidential client. It is returned once. */
            client_secret?: string;
            /** @description End of the secret; 0 as it does not expire. */
            client_secret_expires_at?: number;
            /** @description Ways in which the client gets tokens. */
            grant_types: string[];
            /** @description Addresses that a browser may bring codes to. */
            redirect_uris: string[];
            /** @description Responses of the authorization endpoint. */
            response_types: string[];
            /** @description Proof of identity at the token endpoint. */
            token_endpoint_auth_method: string;
        };
        /** @description Body of `POST /v1/auth/me/second-factor/confirm`. */
        ConfirmSecondFactor: {
            /** @description Current code of the authenticator: six digits. */
            code: string;
        };
        /** @description Body of `POST /v1/organizations/{id}/billing/checkout`. */
        CreateCheckout: {
            /** @description Amount to pay, in cents. */
            amount_cents: number;
            /**
             * @description Whether the card is saved for later purchases. Default: `false`.
             * @default false
             */
            save_payment_method?: boolean;
        };
        /** @description Body of `POST /v1/organizations/{id}/deployments`. */
        CreateDeployment: {
            /**
             * @description ID of the installation, as `sortie license` shows it there. Default: a new one, which the installation then needs
             *     as `license.machine_id`.
             */
            machine_id?: string;
            /** @description Name of the deployment, for people. 1 to 200 characters after trimming, without control and invisible characters. */
            name: string;
        };
        /** @description Body of `POST /v1/organizations/{id}/invitations`. */
        CreateInvitation: {
            /** @description Email address of the person to invite. */
            email: string;
            /** @description Role of the person once the invitation is accepted. */
            role: components["schemas"]["MemberRole"];
        };
        /** @description Body of `POST /v1/organizations/{id}/license/checkout`. */
        CreateLicenseCheckout: {
            /** @description Name of the plan, as `GET /v1/organizations/{id}/license` lists it. */
            plan: string;
        };
        /** @description Body of `POST /v1/operator/users`. */
        CreateUser: {
            /** @description Email address of the person. */
            email: string;
            /** @description Name of the person: 1 to 200 characters after trimming, without control and invisible characters. */
            name: string;
        };
        /** @description Answer of `POST /v1/organizations/{id}/deployments`: the only time the license token is shown. */
        CreatedDeployment: {
            /** @description Time of the creation. */
            created_at: components["schemas"]["Timestamp"];
            /** @description End of the license. */
            expires_at: components["schemas"]["Timestamp"];
            /** @description ID of the deployment. */
            id: components["schemas"]["DeploymentId"];
            /** @description ID of the installation, which alone accepts the license. */
            machine_id: string;
            /** @description Runs in a calendar month, in UTC. */
            monthly_runs: number;
            /** @description Name of the deployment, for people. */
            name: string;
            /** @description License token, for `PUT /v1/admin/license` of the installation. */
            token: string;
        };
        /** @description Answer of `POST /v1/organizations/{id}/invitations`: the only time the token is shown. */
        CreatedInvitation: components["schemas"]["Invitation"] & {
            /** @description Outcome of the mail to the person. Share `url` privately unless it is `accepted`. */
            email_delivery: components["schemas"]["EmailDelivery"];
            /** @description Token that accepts the invitation, for the person with this email address. */
            token: string;
            /** @description Page that accepts the invitation, to share with the person. */
            url: string;
        };
        /** @description Answer of `POST /v1/operator/users`: the account, and the page at which its person sets a password. */
        CreatedUser: {
            /** @description Link for the person. */
            reset_link: components["schemas"]["ResetLink"];
            /** @description The account. */
            user: components["schemas"]["OperatedUser"];
        };
        /** @description Body of `DELETE /v1/organizations/{id}`. */
        DeleteOrganization: {
            /** @description Name of the organization, as the confirmation. */
            name: string;
            /** @description Password of the account. An account without one needs a sign-in of the last ten minutes instead. */
            password?: string;
        };
        /** @description Body of `DELETE /v1/auth/me`. */
        DeleteUser: {
            /** @description Password of the account. An account without one needs a sign-in of the last ten minutes instead. */
            password?: string;
        };
        /** @description Self-hosted installation that an organization has licensed. */
        Deployment: {
            /** @description Time of the creation. */
            created_at: components["schemas"]["Timestamp"];
            /** @description Person who added the deployment. */
            created_by: components["schemas"]["UserId"];
            /** @description Time at which the deployment was deleted. Its license works until `expires_at`. Absent for one in use. */
            ended_at?: components["schemas"]["Timestamp"];
            /** @description End of the license. */
            expires_at: components["schemas"]["Timestamp"];
            /** @description ID of the deployment. */
            id: components["schemas"]["DeploymentId"];
            /** @description ID of the installation, which alone accepts the license. */
            machine_id: string;
            /** @description Runs in a calendar month, in UTC. */
            monthly_runs: number;
            /** @description Name of the deployment, for people. */
            name: string;
        };
        /** @description Outcome of a mail that was sent while the caller waited. */
        EmailDelivery: ("accepted" | "unavailable" | "failed") | (string & {});
        /** @description Body of `POST /v1/auth/me/second-factor`. */
        EnrolSecondFactor: {
            /** @description Password of the account. An account without one needs a sign-in of the last ten minutes instead. */
            password?: string;
        };
        /** @description Entitlement of an organization to licenses. */
        Entitlement: {
            /** @description Maximum number of deployments. */
            deployments: number;
            /** @description Deployments in use. */
            deployments_used: number;
            /** @description Runs in a calendar month, in UTC, for each deployment. */
            monthly_runs: number;
            /** @description End of the licenses that are issued. From then on no deployment can be added. */
            period_end: components["schemas"]["Timestamp"];
            /** @description Name of the plan; absent for a grant of the operator. */
            plan?: string;
            /** @description Origin of the entitlement. */
            source: components["schemas"]["EntitlementSource"];
            /** @description State of the entitlement. */
            state: components["schemas"]["EntitlementState"];
        };
        /** @description Origin of an entitlement. */
        EntitlementSource: ("operator" | "stripe") | (string & {});
        /** @description State of an entitlement. */
        EntitlementState: ("active" | "past_due" | "ended") | (string & {});
        /** @description Change that a person made in an organization. */
        ExportedChange: {
            /** @description Entry of the audit log of the organization. */
            entry: components["schemas"]["AuditEntry"];
            /** @description The organization. */
            organization_id: components["schemas"]["OrgId"];
        };
        /** @description Permission that a person has given to an application. */
        ExportedGrant: {
            /** @description ID of the application. */
            client_id: string;
            /** @description Name that the application gave itself. */
            client_name: string;
            /** @description Time of the permission. */
            created_at: components["schemas"]["Timestamp"];
            /** @description End of the permission. */
            expires_at: components["schemas"]["Timestamp"];
            /** @description ID of the permission. */
            id: components["schemas"]["GrantId"];
            /** @description Organization in which the application may act. */
            organization_id: components["schemas"]["OrgId"];
            /** @description Highest role of the application. */
            scope: components["schemas"]["Role"];
        };
        /** @description Body of `POST /v1/auth/forgot-password`. */
        ForgotPassword: {
            /** @description Email address of the person. */
            email: string;
        };
        /** @description Application that acts for a person in an organization. */
        Grant: {
            /** @description ID of the application. */
            client_id: string;
            /** @description Name that the application calls itself by. */
            client_name: string;
            /** @description Time at which the person allowed it. */
            created_at: components["schemas"]["Timestamp"];
            /** @description End of the access. */
            expires_at: components["schemas"]["Timestamp"];
            /** @description ID of the grant. */
            id: components["schemas"]["GrantId"];
            /** @description Organization in which the application acts. */
            organization: components["schemas"]["GrantedOrganization"];
            /** @description Highest role of the application: `member` or `admin`. */
            scope: components["schemas"]["Role"];
            /** @description Time at which the application last got tokens. */
            used_at: components["schemas"]["Timestamp"];
        };
        GrantId: string;
        /** @description Body of `PUT /v1/operator/organizations/{id}/license`. */
        GrantLicense: {
            /** @description Maximum number of deployments: 0 to 1000. */
            deployments: number;
            /** @description End of the licenses that are issued; must be in the future. Default: in 365 days. */
            expires_at?: components["schemas"]["Timestamp"];
            /** @description Runs in a calendar month, in UTC, for each deployment: 0 to 1000000000000. */
            monthly_runs: number;
        };
        /** @description Organization of a grant. */
        GrantedOrganization: {
            /** @description ID of the organization. */
            id: components["schemas"]["OrgId"];
            /** @description Name of the organization. */
            name: string;
        };
        /** @description Invitation that has not been accepted. */
        Invitation: {
            /** @description Time of the invitation. */
            created_at: components["schemas"]["Timestamp"];
            /** @description Email address of the person who is invited. */
            email: string;
            /** @description End of the invitation, seven days later. */
            expires_at: components["schemas"]["Timestamp"];
            /** @description ID of the invitation. */
            id: components["schemas"]["InvitationId"];
            /** @description ID of the person who invites. */
            invited_by: components["schemas"]["UserId"];
            /** @description Role of the person once the invitation is accepted. */
            role: components["schemas"]["Role"];
        };
        InvitationId: string;
        /** @description Page of a check of the ledger. */
        LedgerCheck: {
            /** @description Breaches of the rules. Each is a defect. */
            differences: components["schemas"]["LedgerDifference"][];
            /** @description Value for `cursor` to check the next organizations; empty on the last page. */
            next_cursor: string;
            /** @description Number of organizations that were checked. */
            organizations: number;
            /** @description Number of runs that were checked. */
            runs: number;
        };
        /** @description Breach of a rule of the ledger. Amounts are in micros. */
        LedgerDifference: {
            /** @description Amount by the ledger, the runs and the payments; for `cost` the most that the run may cost. */
            expected_micros: number;
            /** @description Amount that was found. */
            found_micros: number;
            /** @description The organization. */
            organization_id: components["schemas"]["OrgId"];
            /** @description Payment that breaks the rule; absent for another rule, and for entries of the ledger that name no payment. */
            payment_id?: components["schemas"]["PaymentId"];
            /** @description Rule that does not hold: `balance`, `reserved`, `charge`, `cost`, `purchase`, `taken_back` or `readable`. */
            rule: string;
            /** @description Run that breaks the rule; absent for a rule of the whole organization or of payments. */
            run_id?: components["schemas"]["RunId"];
        };
        /** @description Movement of credits. Entries are never changed. */
        LedgerEntry: {
            /** @description Micros that were added to the balance; negative where they were taken. */
            amount_micros: number;
            /** @description Time of the movement. */
            created_at: components["schemas"]["Timestamp"];
            /** @description Text for people. */
            description: string;
            /** @description Kind of the movement. New kinds may be added. */
            kind: components["schemas"]["LedgerKind"];
            /** @description Payment that the movement belongs to; absent where there is none. */
            payment_id?: string;
            /** @description Run that was charged; absent for other movements. */
            run_id?: components["schemas"]["RunId"];
            /** @description Purchase that the movement belongs to; absent where there is none. */
            topup_id?: string;
        };
        /** @description Kind of a movement of credits. */
        LedgerKind: ("charge" | "purchase" | "refund" | "refund_failed" | "dispute" | "dispute_won" | "grant" | "correction") | (string & {});
        /** @description Page of the ledger, newest first. */
        LedgerPage: {
            /** @description The movements. */
            ledger: components["schemas"]["LedgerEntry"][];
            /** @description Value for `cursor` to get the next page; empty on the last one. */
            next_cursor: string;
        };
        /** @description Answer of `GET /v1/operator/license-key`: the key that verifies the licenses of this deployment. */
        LicenseKey: {
            /** @description ID of the key, as the footer of a token names it. */
            id: string;
            /** @description Public key, for `license.public_keys` of self-hosted engines. */
            public_key: string;
        };
        /** @description Plan of licenses that can be bought as a subscription. Its price is on the page of the payment provider. */
        LicensePlan: {
            /** @description Maximum number of deployments. */
            deployments: number;
            /** @description Runs in a calendar month, in UTC, for each deployment. */
            monthly_runs: number;
            /** @description Name of the plan. */
            name: string;
        };
        /** @description Account of a person at an identity provider, with which the person signs in. */
        LinkedIdentity: {
            /** @description Time of the first sign-in with it. */
            created_at: components["schemas"]["Timestamp"];
            /** @description ID of the identity: 32 hexadecimal characters of a hash of `issuer` and `subject`. */
            id: string;
            /** @description Issuer of the provider. */
            issuer: string;
            /** @description Name of the account there (`sub`). */
            subject: string;
        };
        /** @description Body of `POST /v1/auth/login`. */
        LogIn: {
            /** @description Code of the authenticator, or a recovery code; needed where the account has a second factor. */
            code?: string;
            /** @description Email address of the person. */
            email: string;
            /** @description Password of the person. */
            password: string;
        };
        /** @description Answer to a sign-in. */
        Login: {
            /** @description Organizations of the person. */
            organizations: components["schemas"]["Organization"][];
            /** @description Token of the session: send it as `Authorization: Bearer`. Works for 30 days. Only this answer shows it. */
            token: string;
            /** @description The person. */
            user: components["schemas"]["User"];
        };
        /** @description Role that a member can be given: an organization has one owner. */
        MemberRole: ("member" | "admin") | (string & {});
        /** @description Body of `POST /v1/operator/organizations/{id}/credits`. */
        MoveCredits: {
            /** @description Micros to add to the balance, up to a million dollars. Only a correction may be negative. */
            amount_micros: number;
            /**
             * @description Kind of the movement. Default: `grant`.
             * @default grant
             */
            kind?: components["schemas"]["MovementKind"];
            /** @description Reason, which the organization sees in its ledger: 1 to 500 characters. */
            reason: string;
            /** @description Idempotency reference: a repetition moves no credits. 1 to 200 characters. */
            reference: string;
        };
        /** @description Kind of a movement that the operator makes. */
        MovementKind: ("grant" | "correction") | (string & {});
        /** @description Error of an OAuth endpoint (RFC 6749, section 5.2). */
        OauthErrorBody: {
            /** @description Machine-readable name of the error. */
            error: string;
            /** @description Parameter and the rule that it breaks. */
            error_description: string;
        };
        /** @description Organization of the deployment. */
        OperatedOrganization: {
            /** @description Time of the creation. */
            created_at: components["schemas"]["Timestamp"];
            /** @description Time at which the owner deleted the organization; absent where not. */
            deleted_at?: components["schemas"]["Timestamp"];
            /** @description ID of the organization. */
            id: components["schemas"]["OrgId"];
            /** @description Number of members, with the owner. */
            members: number;
            /** @description Name of the organization. */
            name: string;
            /** @description Owner of the organization; absent where no person owns it. */
            owner?: components["schemas"]["OperatedOwner"];
            /** @description Bytes of files and artifacts that the organization has stored. */
            stored_bytes: number;
            /** @description Time of the suspension; absent while the organization is not suspended. */
            suspended_at?: components["schemas"]["Timestamp"];
            /** @description Reason of the suspension; absent where none was given. */
            suspension_reason?: string;
        };
        /** @description Page of organizations, in the order of their ids. */
        OperatedOrganizationPage: {
            /** @description The organizations. */
            items: components["schemas"]["OperatedOrganization"][];
            /** @description Value for `cursor` to get the next page; empty on the last one. */
            next_cursor: string;
        };
        /** @description Owner of an organization. */
        OperatedOwner: {
            /** @description Email address of the person. */
            email: string;
            /** @description ID of the person. */
            id: components["schemas"]["UserId"];
        };
        /** @description Person with an account. */
        OperatedUser: {
            /** @description Time at which the account was made. */
            created_at: components["schemas"]["Timestamp"];
            /** @description Time since which the person cannot sign in; absent for everybody else. */
            disabled_at?: components["schemas"]["Timestamp"];
            /** @description Email address of the person. */
            email: string;
            /** @description Whether the person has proved that the address is theirs. */
            email_verified: boolean;
            /** @description ID of the person. */
            id: components["schemas"]["UserId"];
            /** @description Name of the person. */
            name: string;
        };
        /** @description Page of people, in the order of their ids. */
        OperatedUserPage: {
            /** @description The people. */
            items: components["schemas"]["OperatedUser"][];
            /** @description Value for `cursor` to get the next page; empty on the last one. */
            next_cursor: string;
        };
        /** @description Organization of the person who asks. */
        Organization: {
            /** @description ID of the organization. */
            id: components["schemas"]["OrgId"];
            /** @description Name of the organization. */
            name: string;
            /** @description Role of the person in the organization. */
            role: components["schemas"]["Role"];
            /** @description Whether the operator has suspended the organization; absent where not. */
            suspended?: boolean;
        };
        /** @description Answer of `GET /v1/organizations/{id}/license`. */
        OrganizationLicense: {
            entitlement: components["schemas"]["Entitlement"] | null;
            /** @description Plans that can be bought with `POST /v1/organizations/{id}/license/checkout`. Absent where none can. */
            plans?: components["schemas"]["LicensePlan"][];
        };
        /** @description Member of an organization. */
        OrganizationMember: {
            /** @description Address of the person's picture; absent where there is none. */
            avatar_url?: string;
            /** @description Email address of the person. */
            email: string;
            /** @description ID of the person. */
            id: components["schemas"]["UserId"];
            /** @description Name of the person. */
            name: string;
            /** @description Role of the person in the organization. */
            role: components["schemas"]["Role"];
        };
        /** @description Body of `POST /v1/organizations` and `PATCH /v1/organizations/{id}`. */
        OrganizationName: {
            /** @description Name of the organization: 1 to 200 characters after trimming, without control and invisible characters. */
            name: string;
        };
        /** @description Payment of a purchase of credits. */
        Payment: {
            /** @description Amount that was paid, in cents. */
            amount_cents: number;
            /** @description Time of the payment. */
            created_at: components["schemas"]["Timestamp"];
            /** @description Cents in disputes of the cardholder that are open or lost. */
            disputed_cents: number;
            /** @description ID of the payment. */
            id: components["schemas"]["PaymentId"];
            /** @description Path of the operation that returns the receipt. */
            receipt_endpoint: string;
            /** @description Part of the payment that was refunded. */
            refund_status: components["schemas"]["RefundStatus"];
            /** @description Cents that were refunded. */
            refunded_cents: number;
            /** @description Purchase that was paid. */
            topup_id: components["schemas"]["TopupId"];
        };
        PaymentId: string;
        /** @description Saved card. */
        PaymentMethod: {
            /** @description Brand of the card. */
            brand: string;
            /** @description Month of its end. */
            exp_month: number;
            /** @description Year of its end. */
            exp_year: number;
            /** @description Last four digits of its number. */
            last4: string;
            /** @description Page on which the card was saved: `checkout` or `portal`. */
            source: string;
        };
        /** @description State of the saved card. */
        PaymentMethodSync: ("synced" | "unavailable") | (string & {});
        /** @description Page of payments, newest first. */
        PaymentPage: {
            /** @description Value for `cursor` to get the next page; empty on the last one. */
            next_cursor: string;
            /** @description The payments. */
            payments: components["schemas"]["Payment"][];
        };
        /** @description Page of the payment provider. */
        ProviderPage: {
            /** @description Address of the page. */
            url: string;
        };
        /** @description Limits of purchases, in cents. */
        PurchaseLimits: {
            /** @description Greatest amount of a purchase. */
            max_amount_cents: number;
            /** @description Least amount of a purchase. */
            min_amount_cents: number;
            /** @description Least threshold of automatic purchases. */
            min_threshold_cents: number;
        };
        /** @description Body of `PUT /v1/organizations/{id}/billing/auto-topup`. */
        PutAutoTopup: {
            /** @description Amount of a purchase in cents. */
            amount_cents?: number;
            /** @description Whether the signed-in person agrees that the saved card is charged without being asked again. Must be `true`. */
            consent?: boolean;
            /** @description Whether credits are bought automatically. The other fields are needed where they are. */
            enabled: boolean;
            /** @description Credits are bought when fewer than this are available, in cents. */
            threshold_cents?: number;
        };
        /** @description Codes that each stand in for the authenticator once. */
        RecoveryCodes: {
            /** @description The codes. Only this answer shows them. */
            recovery_codes: string[];
        };
        /** @description Body of `POST /v1/operator/payments/{id}/refund`. */
        RefundPayment: {
            /** @description Cents to refund. Default: all that is left of the payment. */
            amount_cents?: number;
            /** @description Name of the refund: the same one twice is one refund of the payment. Required with `amount_cents`. */
            reference?: string;
        };
        /** @description Part of a payment that was refunded. */
        RefundStatus: ("none" | "partial" | "full") | (string & {});
        /** @description Body of `DELETE /v1/auth/me/second-factor`. */
        RemoveSecondFactor: {
            /** @description Current code of the authenticator, or a recovery code. */
            code: string;
            /** @description Password of the account. An account without one needs a sign-in of the last ten minutes instead. */
            password?: string;
        };
        /** @description Page at which a person sets a password without the old one. */
        ResetLink: {
            /** @description Time at which the token expires. */
            expires_at: components["schemas"]["Timestamp"];
            /** @description Address of the page, with a token that works once. It is shown this once. */
            url: string;
        };
        /** @description Body of `POST /v1/auth/reset-password`. */
        ResetPassword: {
            /** @description New password: 12 to 72 bytes, hard to guess. */
            new_password: string;
            /** @description Token of the mail. */
            token: string;
        };
        /** @description Key of an authenticator, which waits for its confirmation. */
        SecondFactorKey: {
            /** @description The key in base32, to type it into an authenticator. Only this answer shows it. */
            secret: string;
            /** @description The key as an `otpauth` URI, for a QR code. */
            uri: string;
        };
        /** @description A sign-in of a person that has not ended. */
        Session: {
            /** @description Address that the person signed in from. */
            address?: string;
            /** @description Name that the client gave itself (`User-Agent`). */
            agent?: string;
            /** @description Time of the sign-in. */
            created_at: components["schemas"]["Timestamp"];
            /** @description Whether the request came with the token of this session. */
            current: boolean;
            /** @description End of the session. */
            expires_at: components["schemas"]["Timestamp"];
            /** @description ID of the session. */
            id: components["schemas"]["SessionId"];
            /** @description Client of the session. */
            kind: components["schemas"]["SessionClient"];
            /** @description Time of a late use; the last use may be an hour later. */
            seen_at: components["schemas"]["Timestamp"];
        };
        /** @description Client of a session. */
        SessionClient: ("api" | "web") | (string & {});
        /** @description Body of `POST /v1/auth/signup`. */
        SignUp: {
            /** @description Email address of the person. At most 254 bytes. */
            email: string;
            /** @description Token of an invitation of the address. A deployment may require one. */
            invitation?: string;
            /** @description Name that others see. 1 to 100 characters after trimming, without control and invisible characters. */
            name: string;
            /** @description Password of the person: 12 to 72 bytes, hard to guess. */
            password: string;
        };
        /** @description Body of `POST /v1/operator/organizations/{id}/suspend`. */
        SuspendOrganization: {
            /**
             * @description Whether runs at work are cancelled too. Default: false, they end normally.
             * @default false
             */
            cancel?: boolean;
            /** @description Reason, for operators: at most 500 characters. */
            reason?: string;
        };
        /** @description Tokens (RFC 6749, section 5.1). */
        TokenAnswer: {
            /** @description Access token, for the `Authorization` header of the engine API. */
            access_token: string;
            /** @description Lifetime of the access token, in seconds. */
            expires_in: number;
            /** @description Refresh token, which works once. */
            refresh_token: string;
            /** @description Scope of the tokens. */
            scope: components["schemas"]["Role"];
            /** @description Type of the token: `Bearer`. */
            token_type: string;
        };
        TopupId: string;
        /** @description Body of `POST /v1/organizations/{id}/ownership`. */
        TransferOwnership: {
            /** @description Member who becomes the owner. */
            user_id: components["schemas"]["UserId"];
        };
        /** @description Body of `PATCH /v1/auth/me`. */
        UpdateUser: {
            /** @description Name that others see. 1 to 100 characters after trimming, without control and invisible characters. */
            name: string;
        };
        /** @description A person who can sign in. */
        User: {
            /** @description Address of the person's picture, which changes with the picture; absent where there is none. */
            avatar_url?: string;
            /** @description Time of the sign-up. */
            created_at: components["schemas"]["Timestamp"];
            /** @description Email address as the person typed it. */
            email: string;
            /** @description Whether the person has proved that the address is theirs. */
            email_verified: boolean;
            /** @description ID of the person. */
            id: components["schemas"]["UserId"];
            /** @description Name that others see. */
            name: string;
            /** @description Whether a sign-in needs a code of an authenticator. */
            second_factor: boolean;
        };
        /** @description Body of `POST /v1/auth/verify-email`. */
        VerifyEmail: {
            /** @description Token of the mail. */
            token: string;
        };
        GetMemberUsageQuery: {
            /** @description The first day. Default: 29 days before the last one. */
            from?: components["schemas"]["Day"];
            /** @description The last day, at most 365 days after the first. Default: today. */
            to?: components["schemas"]["Day"];
            /** @description Dimensions to group by: one or more of `day`, `workflow`, `model`, `key`, separated by commas. Default: `day`. */
            by?: string;
        };
        ListRunsQuery: {
            /** @description Runs on a page. Turns on pagination. */
            limit?: number;
            /** @description `next_cursor` of the page before; valid only with the same filters. */
            cursor?: string;
            /** @description Only runs with one of these statuses, separated by commas. */
            status?: components["schemas"]["RunStatus"][];
            /** @description Only runs started by this schedule. */
            schedule?: components["schemas"]["ScheduleId"];
            /** @description Only runs with this tag. */
            tag?: string;
            /** @description Only runs whose `metadata` has this value for `KEY`: `metadata.customer=c-1042`. Several such parameters combine. */
            metadata?: {
                [key: string]: string;
            };
            /** @description Only runs of this saved workflow. */
            workflow?: string;
            /** @description Only runs with this model. */
            model?: string;
            /** @description Only runs started with this API key. */
            key?: components["schemas"]["KeyId"];
            /** @description Only runs created at this time or later. */
            since?: components["schemas"]["Timestamp"];
            /** @description Only runs created before this time. */
            until?: components["schemas"]["Timestamp"];
            /** @description Only runs whose `error` contains this text, without regard to the case of ASCII letters. */
            error?: string;
            /** @description Only runs that cost at least this so far, in micros. */
            min_cost_micros?: number;
            /** @description Only runs with this text in the first 2,000 characters of description and prompt together, without regard to case. Each page looks at 5,000 runs at most. Runs with zero data retention are never found. */
            q?: string;
            /** @description Only these runs: at most 100 ids, separated by commas. */
            ids?: components["schemas"]["RunId"][];
        };
        GetRunQuery: {
            /** @description Whether the answer has the output. With `false`, an output that can be read once stays readable, and `wait` does not wait for a run with zero data retention that another node works on. */
            output?: boolean;
        };
        ListWorkflowsQuery: {
            /** @description Also show descriptions, models, schemas, revisions and usage. Default `false`. */
            detail?: boolean;
        };
        ListSchedulesQuery: {
            /** @description Schedules on a page. Default 100. */
            limit?: number;
            /** @description `next_cursor` of the page before. */
            cursor?: string;
        };
        ListFiresQuery: {
            /** @description Rows on a page. Default 100. */
            limit?: number;
            /** @description `next_cursor` of the page before. */
            cursor?: string;
        };
        ListAllFiresQuery: {
            /** @description Only occurrences at this time or later. */
            since?: components["schemas"]["Timestamp"];
            /** @description Only occurrences before this time. */
            until?: components["schemas"]["Timestamp"];
            /** @description Rows on a page. Default 100. */
            limit?: number;
            /** @description `next_cursor` of the page before; valid only with the same times. */
            cursor?: string;
        };
        PreviewScheduleQuery: {
            /** @description Number of occurrences. Default 10. */
            count?: number;
        };
        ListFilesQuery: {
            /** @description Files on a page. Turns on pagination. */
            limit?: number;
            /** @description `next_cursor` of the page before. */
            cursor?: string;
        };
        ListAllDeliveriesQuery: {
            /** @description Callbacks on a page. Default 100. */
            limit?: number;
            /** @description `next_cursor` of the page before. */
            cursor?: string;
            /** @description Only callbacks in one of these states, separated by commas. */
            state?: components["schemas"]["DeliveryState"][];
            /** @description Only callbacks to this host and port. */
            receiver?: string;
        };
        ListAuditQuery: {
            /** @description Entries on a page. Default: 100. */
            limit?: number;
            /** @description `next_cursor` of the page before; valid only with the same filters. */
            cursor?: string;
            /** @description Only this action. */
            action?: string;
            /** @description Only changes of the resource with this name or id. */
            target?: string;
            /** @description Only changes made with this API key. */
            key?: components["schemas"]["KeyId"];
            /** @description Only from this time on. */
            since?: components["schemas"]["Timestamp"];
            /** @description Only before this time. */
            until?: components["schemas"]["Timestamp"];
        };
        GetChecksQuery: {
            /** @description Also ask the model providers for their models, which takes up to ten seconds. Default: false. */
            providers?: boolean;
        };
        GetUsageQuery: {
            /** @description The first day. Default: 29 days before the last one. */
            from?: components["schemas"]["Day"];
            /** @description The last day, at most 365 days after the first. Default: today. */
            to?: components["schemas"]["Day"];
            /** @description Dimensions to group by: one or more of `day`, `workflow`, `model`, `key`, separated by commas. Default: `day`. */
            by?: string;
        };
        GetMasterKeysQuery: {
            /** @description The `next_cursor` of the page before. */
            cursor?: string;
        };
        ResealQuery: {
            /** @description The `next_cursor` of the page before. */
            cursor?: string;
        };
        ListLedgerQuery: {
            /** @description Movements on a page. Default: 100. */
            limit?: number;
            /** @description `next_cursor` of the page before. */
            cursor?: string;
        };
        ListPaymentsQuery: {
            /** @description Payments on a page. Default: 25. */
            limit?: number;
            /** @description `next_cursor` of the page before. */
            cursor?: string;
        };
        GetOperatedChecksQuery: {
            /** @description Also ask the model providers for their models, which takes up to ten seconds. Default: false. */
            providers?: boolean;
        };
        CheckLedgerQuery: {
            /** @description Organizations on a page. Default: 100. */
            limit?: number;
            /** @description `next_cursor` of the page before. */
            cursor?: string;
        };
        GetOperatedMasterKeysQuery: {
            /** @description The `next_cursor` of the page before. */
            cursor?: string;
        };
        ResealEverythingQuery: {
            /** @description The `next_cursor` of the page before. */
            cursor?: string;
        };
        ListOperatedOrganizationsQuery: {
            /** @description Organizations on a page. Default: 100. */
            limit?: number;
            /** @description `next_cursor` of the page before. */
            cursor?: string;
        };
        ListUsersQuery: {
            /** @description Only the person with this email address. */
            email?: string;
            /** @description People on a page. Default: 100. */
            limit?: number;
            /** @description `next_cursor` of the page before. */
            cursor?: string;
        };
        CancelRunsQuery: {
            /** @description Number of runs at most. Default 100. */
            limit?: number;
            /** @description `next_cursor` of the request before; valid only with the same filters. */
            cursor?: string;
            /** @description Only count the runs. Default `false`. */
            dry_run?: boolean;
            /** @description Only runs with one of these statuses, separated by commas. Default: every status that is not final. */
            status?: components["schemas"]["RunStatus"][];
            /** @description Only runs started by this schedule. */
            schedule?: components["schemas"]["ScheduleId"];
            /** @description Only runs with this tag. */
            tag?: string;
            /** @description Only runs whose `metadata` has this value for `KEY`, as in the list. */
            metadata?: {
                [key: string]: string;
            };
            /** @description Only runs of this saved workflow. */
            workflow?: string;
            /** @description Only runs with this model. */
            model?: string;
            /** @description Only runs started with this API key. */
            key?: components["schemas"]["KeyId"];
            /** @description Only runs created at this time or later. */
            since?: components["schemas"]["Timestamp"];
            /** @description Only runs created before this time. */
            until?: components["schemas"]["Timestamp"];
            /** @description Only runs whose `error` contains this text. */
            error?: string;
            /** @description Only runs that cost at least this so far, in micros. */
            min_cost_micros?: number;
            /** @description Only runs with this text, as in the list. */
            q?: string;
            /** @description Only these runs: at most 100 ids, separated by commas. */
            ids?: components["schemas"]["RunId"][];
        };
        FollowRunQuery: {
            /** @description Also send live messages without an id, which are not recorded: `message_start` `{model, step}` when a model call begins, `message_delta` `{text, step}` with text that the model is writing (the whole text follows as `message`, and after a `retry` the text restarts), and `tool_output` `{id, text}` with output of a running command, of which a slow client misses some. */
            deltas?: boolean;
            /** @description Only events after this one; `Last-Event-ID` and `lastEventId` come before it. */
            after?: number;
            /** @description Only events before this one, and of these the last; as JSON only. `last_event_id` of the run plus 1 gives the newest. */
            before?: number;
            /** @description Maximum number of events; as JSON only. Default 1000. */
            limit?: number;
            /** @description Only events of these types, separated by commas; as JSON only. */
            types?: string[];
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type ActorKind = components['schemas']['ActorKind'];
export type AnswerReason = components['schemas']['AnswerReason'];
export type AnswerRequestedEvent = components['schemas']['AnswerRequestedEvent'];
export type ApiKey = components['schemas']['ApiKey'];
export type Artifact = components['schemas']['Artifact'];
export type ArtifactEvent = components['schemas']['ArtifactEvent'];
export type ArtifactSkippedEvent = components['schemas']['ArtifactSkippedEvent'];
export type AuditEntry = components['schemas']['AuditEntry'];
export type AuditId = components['schemas']['AuditId'];
export type AuditPage = components['schemas']['AuditPage'];
export type AuthType = components['schemas']['AuthType'];
export type Authorization = components['schemas']['Authorization'];
export type BeginConsoleSession = components['schemas']['BeginConsoleSession'];
export type BegunConsoleSession = components['schemas']['BegunConsoleSession'];
export type Budget = components['schemas']['Budget'];
export type BudgetPeriod = components['schemas']['BudgetPeriod'];
export type BudgetReachedEvent = components['schemas']['BudgetReachedEvent'];
export type BudgetScope = components['schemas']['BudgetScope'];
export type BudgetWarningEvent = components['schemas']['BudgetWarningEvent'];
export type Callback = components['schemas']['Callback'];
export type CallbackTarget = components['schemas']['CallbackTarget'];
export type CancelledRuns = components['schemas']['CancelledRuns'];
export type Check = components['schemas']['Check'];
export type ConfirmAuthorization = components['schemas']['ConfirmAuthorization'];
export type ConfirmedAuthorization = components['schemas']['ConfirmedAuthorization'];
export type Connection = components['schemas']['Connection'];
export type ConnectionAuth = components['schemas']['ConnectionAuth'];
export type ConnectionCall = components['schemas']['ConnectionCall'];
export type ConnectionCallEvent = components['schemas']['ConnectionCallEvent'];
export type ConnectionDefinition = components['schemas']['ConnectionDefinition'];
export type ConnectionStatus = components['schemas']['ConnectionStatus'];
export type ConnectionTest = components['schemas']['ConnectionTest'];
export type ConnectionType = components['schemas']['ConnectionType'];
export type ConsoleInfo = components['schemas']['ConsoleInfo'];
export type ConsoleSession = components['schemas']['ConsoleSession'];
export type ContextCompactedEvent = components['schemas']['ContextCompactedEvent'];
export type CreateKey = components['schemas']['CreateKey'];
export type CreateRunToken = components['schemas']['CreateRunToken'];
export type CreateSchedule = components['schemas']['CreateSchedule'];
export type CreatedConsoleCode = components['schemas']['CreatedConsoleCode'];
export type CreatedKey = components['schemas']['CreatedKey'];
export type CreatedRunToken = components['schemas']['CreatedRunToken'];
export type Day = components['schemas']['Day'];
export type Delivery = components['schemas']['Delivery'];
export type DeliveryAttempt = components['schemas']['DeliveryAttempt'];
export type DeliveryPage = components['schemas']['DeliveryPage'];
export type DeliveryState = components['schemas']['DeliveryState'];
export type DeploymentId = components['schemas']['DeploymentId'];
export type Effort = components['schemas']['Effort'];
export type ErrorBody = components['schemas']['ErrorBody'];
export type ErrorCode = components['schemas']['ErrorCode'];
export type Event = components['schemas']['Event'];
export type Features = components['schemas']['Features'];
export type FeedMessage = components['schemas']['FeedMessage'];
export type File = components['schemas']['File'];
export type FileForm = components['schemas']['FileForm'];
export type FileId = components['schemas']['FileId'];
export type FileList = components['schemas']['FileList'];
export type FilePage = components['schemas']['FilePage'];
export type Fire = components['schemas']['Fire'];
export type FireOutcome = components['schemas']['FireOutcome'];
export type FirePage = components['schemas']['FirePage'];
export type FireTrigger = components['schemas']['FireTrigger'];
export type Health = components['schemas']['Health'];
export type InterruptedEvent = components['schemas']['InterruptedEvent'];
export type KeepArtifact = components['schemas']['KeepArtifact'];
export type KeyId = components['schemas']['KeyId'];
export type KnownService = components['schemas']['KnownService'];
export type License = components['schemas']['License'];
export type MasterKeys = components['schemas']['MasterKeys'];
export type MessageDelta = components['schemas']['MessageDelta'];
export type MessageEvent = components['schemas']['MessageEvent'];
export type MessageStart = components['schemas']['MessageStart'];
export type Micros = components['schemas']['Micros'];
export type Mode = components['schemas']['Mode'];
export type ModelCall = components['schemas']['ModelCall'];
export type ModelCallEvent = components['schemas']['ModelCallEvent'];
export type ModelCatalog = components['schemas']['ModelCatalog'];
export type ModelInfo = components['schemas']['ModelInfo'];
export type ModelPrices = components['schemas']['ModelPrices'];
export type NextFire = components['schemas']['NextFire'];
export type Node = components['schemas']['Node'];
export type NodeChecks = components['schemas']['NodeChecks'];
export type NodeKeys = components['schemas']['NodeKeys'];
export type NodeState = components['schemas']['NodeState'];
export type OrgId = components['schemas']['OrgId'];
export type OrganizationInfo = components['schemas']['OrganizationInfo'];
export type OutputRejectedEvent = components['schemas']['OutputRejectedEvent'];
export type OutputTruncatedEvent = components['schemas']['OutputTruncatedEvent'];
export type Overlap = components['schemas']['Overlap'];
export type PersonSession = components['schemas']['PersonSession'];
export type PutBudget = components['schemas']['PutBudget'];
export type PutLicense = components['schemas']['PutLicense'];
export type Readiness = components['schemas']['Readiness'];
export type Redelivery = components['schemas']['Redelivery'];
export type RenameFile = components['schemas']['RenameFile'];
export type Reseal = components['schemas']['Reseal'];
export type ResultEvent = components['schemas']['ResultEvent'];
export type ResumedEvent = components['schemas']['ResumedEvent'];
export type RetryEvent = components['schemas']['RetryEvent'];
export type Role = components['schemas']['Role'];
export type RotateKey = components['schemas']['RotateKey'];
export type Run = components['schemas']['Run'];
export type RunConnection = components['schemas']['RunConnection'];
export type RunDefinition = components['schemas']['RunDefinition'];
export type RunFile = components['schemas']['RunFile'];
export type RunId = components['schemas']['RunId'];
export type RunList = components['schemas']['RunList'];
export type RunPage = components['schemas']['RunPage'];
export type RunPermission = components['schemas']['RunPermission'];
export type RunRequest = components['schemas']['RunRequest'];
export type RunStatus = components['schemas']['RunStatus'];
export type RunUsage = components['schemas']['RunUsage'];
export type Schedule = components['schemas']['Schedule'];
export type ScheduleId = components['schemas']['ScheduleId'];
export type SchedulePage = components['schemas']['SchedulePage'];
export type SealedValues = components['schemas']['SealedValues'];
export type SessionId = components['schemas']['SessionId'];
export type Sha256 = components['schemas']['Sha256'];
export type ShownAuth = components['schemas']['ShownAuth'];
export type SignUpRule = components['schemas']['SignUpRule'];
export type Spent = components['schemas']['Spent'];
export type StatusEvent = components['schemas']['StatusEvent'];
export type StreamMessage = components['schemas']['StreamMessage'];
export type ThinkingSummaryEvent = components['schemas']['ThinkingSummaryEvent'];
export type Timestamp = components['schemas']['Timestamp'];
export type ToolEnd = components['schemas']['ToolEnd'];
export type ToolEndEvent = components['schemas']['ToolEndEvent'];
export type ToolOutput = components['schemas']['ToolOutput'];
export type ToolStartEvent = components['schemas']['ToolStartEvent'];
export type UiStreamMessage = components['schemas']['UiStreamMessage'];
export type UpdateSchedule = components['schemas']['UpdateSchedule'];
export type Usage = components['schemas']['Usage'];
export type UsageDimension = components['schemas']['UsageDimension'];
export type UsageFigures = components['schemas']['UsageFigures'];
export type UsageRow = components['schemas']['UsageRow'];
export type UserId = components['schemas']['UserId'];
export type Verdict = components['schemas']['Verdict'];
export type Web = components['schemas']['Web'];
export type WebRestriction = components['schemas']['WebRestriction'];
export type WorkerStartedEvent = components['schemas']['WorkerStartedEvent'];
export type Workflow = components['schemas']['Workflow'];
export type WorkflowDefinition = components['schemas']['WorkflowDefinition'];
export type WorkflowSummary = components['schemas']['WorkflowSummary'];
export type AcceptInvitation = components['schemas']['AcceptInvitation'];
export type AccountExport = components['schemas']['AccountExport'];
export type AutoTopup = components['schemas']['AutoTopup'];
export type Balance = components['schemas']['Balance'];
export type Billing = components['schemas']['Billing'];
export type ChangePassword = components['schemas']['ChangePassword'];
export type ChangeRole = components['schemas']['ChangeRole'];
export type ClientInformation = components['schemas']['ClientInformation'];
export type ConfirmSecondFactor = components['schemas']['ConfirmSecondFactor'];
export type CreateCheckout = components['schemas']['CreateCheckout'];
export type CreateDeployment = components['schemas']['CreateDeployment'];
export type CreateInvitation = components['schemas']['CreateInvitation'];
export type CreateLicenseCheckout = components['schemas']['CreateLicenseCheckout'];
export type CreateUser = components['schemas']['CreateUser'];
export type CreatedDeployment = components['schemas']['CreatedDeployment'];
export type CreatedInvitation = components['schemas']['CreatedInvitation'];
export type CreatedUser = components['schemas']['CreatedUser'];
export type DeleteOrganization = components['schemas']['DeleteOrganization'];
export type DeleteUser = components['schemas']['DeleteUser'];
export type Deployment = components['schemas']['Deployment'];
export type EmailDelivery = components['schemas']['EmailDelivery'];
export type EnrolSecondFactor = components['schemas']['EnrolSecondFactor'];
export type Entitlement = components['schemas']['Entitlement'];
export type EntitlementSource = components['schemas']['EntitlementSource'];
export type EntitlementState = components['schemas']['EntitlementState'];
export type ExportedChange = components['schemas']['ExportedChange'];
export type ExportedGrant = components['schemas']['ExportedGrant'];
export type ForgotPassword = components['schemas']['ForgotPassword'];
export type Grant = components['schemas']['Grant'];
export type GrantId = components['schemas']['GrantId'];
export type GrantLicense = components['schemas']['GrantLicense'];
export type GrantedOrganization = components['schemas']['GrantedOrganization'];
export type Invitation = components['schemas']['Invitation'];
export type InvitationId = components['schemas']['InvitationId'];
export type LedgerCheck = components['schemas']['LedgerCheck'];
export type LedgerDifference = components['schemas']['LedgerDifference'];
export type LedgerEntry = components['schemas']['LedgerEntry'];
export type LedgerKind = components['schemas']['LedgerKind'];
export type LedgerPage = components['schemas']['LedgerPage'];
export type LicenseKey = components['schemas']['LicenseKey'];
export type LicensePlan = components['schemas']['LicensePlan'];
export type LinkedIdentity = components['schemas']['LinkedIdentity'];
export type LogIn = components['schemas']['LogIn'];
export type Login = components['schemas']['Login'];
export type MemberRole = components['schemas']['MemberRole'];
export type MoveCredits = components['schemas']['MoveCredits'];
export type MovementKind = components['schemas']['MovementKind'];
export type OauthErrorBody = components['schemas']['OauthErrorBody'];
export type OperatedOrganization = components['schemas']['OperatedOrganization'];
export type OperatedOrganizationPage = components['schemas']['OperatedOrganizationPage'];
export type OperatedOwner = components['schemas']['OperatedOwner'];
export type OperatedUser = components['schemas']['OperatedUser'];
export type OperatedUserPage = components['schemas']['OperatedUserPage'];
export type Organization = components['schemas']['Organization'];
export type OrganizationLicense = components['schemas']['OrganizationLicense'];
export type OrganizationMember = components['schemas']['OrganizationMember'];
export type OrganizationName = components['schemas']['OrganizationName'];
export type Payment = components['schemas']['Payment'];
export type PaymentId = components['schemas']['PaymentId'];
export type PaymentMethod = components['schemas']['PaymentMethod'];
export type PaymentMethodSync = components['schemas']['PaymentMethodSync'];
export type PaymentPage = components['schemas']['PaymentPage'];
export type ProviderPage = components['schemas']['ProviderPage'];
export type PurchaseLimits = components['schemas']['PurchaseLimits'];
export type PutAutoTopup = components['schemas']['PutAutoTopup'];
export type RecoveryCodes = components['schemas']['RecoveryCodes'];
export type RefundPayment = components['schemas']['RefundPayment'];
export type RefundStatus = components['schemas']['RefundStatus'];
export type RemoveSecondFactor = components['schemas']['RemoveSecondFactor'];
export type ResetLink = components['schemas']['ResetLink'];
export type ResetPassword = components['schemas']['ResetPassword'];
export type SecondFactorKey = components['schemas']['SecondFactorKey'];
export type Session = components['schemas']['Session'];
export type SessionClient = components['schemas']['SessionClient'];
export type SignUp = components['schemas']['SignUp'];
export type SuspendOrganization = components['schemas']['SuspendOrganization'];
export type TokenAnswer = components['schemas']['TokenAnswer'];
export type TopupId = components['schemas']['TopupId'];
export type TransferOwnership = components['schemas']['TransferOwnership'];
export type UpdateUser = components['schemas']['UpdateUser'];
export type User = components['schemas']['User'];
export type VerifyEmail = components['schemas']['VerifyEmail'];
export type GetMemberUsageQuery = components['schemas']['GetMemberUsageQuery'];
export type ListRunsQuery = components['schemas']['ListRunsQuery'];
export type GetRunQuery = components['schemas']['GetRunQuery'];
export type ListWorkflowsQuery = components['schemas']['ListWorkflowsQuery'];
export type ListSchedulesQuery = components['schemas']['ListSchedulesQuery'];
export type ListFiresQuery = components['schemas']['ListFiresQuery'];
export type ListAllFiresQuery = components['schemas']['ListAllFiresQuery'];
export type PreviewScheduleQuery = components['schemas']['PreviewScheduleQuery'];
export type ListFilesQuery = components['schemas']['ListFilesQuery'];
export type ListAllDeliveriesQuery = components['schemas']['ListAllDeliveriesQuery'];
export type ListAuditQuery = components['schemas']['ListAuditQuery'];
export type GetChecksQuery = components['schemas']['GetChecksQuery'];
export type GetUsageQuery = components['schemas']['GetUsageQuery'];
export type GetMasterKeysQuery = components['schemas']['GetMasterKeysQuery'];
export type ResealQuery = components['schemas']['ResealQuery'];
export type ListLedgerQuery = components['schemas']['ListLedgerQuery'];
export type ListPaymentsQuery = components['schemas']['ListPaymentsQuery'];
export type GetOperatedChecksQuery = components['schemas']['GetOperatedChecksQuery'];
export type CheckLedgerQuery = components['schemas']['CheckLedgerQuery'];
export type GetOperatedMasterKeysQuery = components['schemas']['GetOperatedMasterKeysQuery'];
export type ResealEverythingQuery = components['schemas']['ResealEverythingQuery'];
export type ListOperatedOrganizationsQuery = components['schemas']['ListOperatedOrganizationsQuery'];
export type ListUsersQuery = components['schemas']['ListUsersQuery'];
export type CancelRunsQuery = components['schemas']['CancelRunsQuery'];
export type FollowRunQuery = components['schemas']['FollowRunQuery'];
export type $defs = Record<string, never>;
export type operations = Record<string, never>;
