// What the console uses of the API beyond the reviewed document. A field that the document has too must have the same type.
import type { Run, Timestamp } from "./schema";

declare module "./schema" {
  interface Run {
    title?: string;
    model?: string;
    key_id?: string;
    timeout_seconds?: number;
    replay_of?: string;
    last_event_id?: number;
  }
  interface RunRequest {
    replay_of?: string;
  }
  interface OrganizationInfo {
    key_name?: string;
    organization_name?: string;
    version?: string;
    features?: string[];
    trace_url?: string;
  }
  interface ApiKey {
    last_used_at?: Timestamp;
  }
  interface Connection {
    used_by?: string[];
  }
  interface WorkflowSummary {
    model?: string;
    revision?: number;
    updated_at?: Timestamp;
    runs_30d?: number;
    cost_30d_micros?: number;
  }

  /** Answer of a cancel or a replay of all runs that match filters. With `dry_run` only `matched` is counted. */
  interface BulkResult {
    matched: number;
    done: number;
    failed: number;
    next_cursor: string;
  }
  /** Filters of the list, as its query has them, with the cursor of the last answer. */
  type BulkRequest = Record<string, string | string[] | boolean>;

  interface RunDelivery {
    run_id: string;
    receiver: string;
    state: "delivered" | "waiting" | "failed";
    attempts: number;
    last_at?: Timestamp;
    next_at?: Timestamp;
    status?: number;
    error?: string;
  }

  /** What a page may know before anybody signs in. */
  interface ConsoleInfo {
    version: string;
    mode: "hosted" | "self-hosted";
    sign_in_url?: string;
  }

  interface Operations {
    "GET /v1/console": { path: {}; query: {}; body: undefined; reply: ConsoleInfo };
    "POST /v1/console/sessions": { path: {}; query: {}; body: { key: string } | { code: string }; reply: unknown };
    "DELETE /v1/console/sessions/current": { path: {}; query: {}; body: undefined; reply: void };
    "POST /v1/runs/cancel": { path: {}; query: {}; body: BulkRequest; reply: BulkResult };
    "POST /v1/runs/replay": { path: {}; query: {}; body: BulkRequest; reply: BulkResult };
    "GET /v1/deliveries": {
      path: {};
      query: { state?: string; receiver?: string; limit?: number; cursor?: string };
      body: undefined;
      reply: { items: RunDelivery[]; next_cursor: string };
    };
    "GET /v1/usage": { path: {}; query: { from: string; to: string; by: string }; body: undefined; reply: Usage };
  }
}

export type { Run };
