// The recorded events of a run, and the messages that a live stream adds to them.

export interface Artifact {
  path: string;
  size: number;
  sha256: string;
  content_type: string;
}

interface Spent {
  spent_micros: number;
  limit_micros: number;
}

export interface EventData {
  status: { status: string; error?: string };
  worker_started: { runtime: string; mode: string; shell: boolean };
  model_call: {
    model: string;
    step: number;
    input_tokens: number;
    output_tokens: number;
    cache_read_tokens: number;
    cache_write_tokens: number;
    cost_micros: number;
    duration_ms: number;
    stop_reason: string;
  };
  message: { text: string; step: number };
  thinking_summary: { text: string; step: number };
  tool_start: { tool: string; id: string; arguments: Record<string, unknown> };
  tool_end: {
    tool: string;
    id: string;
    is_error: boolean;
    output: string;
    output_bytes: number;
    duration_ms: number;
    cost_micros?: number;
  };
  connection_call: {
    connection: string;
    method: string;
    path: string;
    status?: number;
    bytes: number;
    duration_ms: number;
  };
  retry: { what: string; attempt: number; delay_ms: number; reason: string };
  budget_warning: Spent;
  budget_reached: Spent;
  context_compacted: { before_tokens: number; after_tokens: number };
  answer_requested: { reason: string; step: number };
  resumed: { step: number; attempt: number };
  interrupted: { reason: string; step: number; tool?: string; id?: string };
  output_rejected: { errors: string[]; attempt: number };
  artifact: Artifact;
  artifact_skipped: { path: string; reason: string };
  result: { output: string };
  output_truncated: { limit_bytes: number; output_bytes: number };
}

export type EventType = keyof EventData;
export type EventOf<Type extends EventType> = { id: number; type: Type; data: EventData[Type]; created_at: string };
export type RunEvent = { [Type in EventType]: EventOf<Type> }[EventType];

/** Messages of a live stream that are not recorded. */
export type LiveMessage =
  | { type: "message_start"; data: { model: string; step: number } }
  | { type: "message_delta"; data: { text: string; step: number } }
  | { type: "tool_output"; data: { id: string; text: string } };

export const FINAL = ["succeeded", "failed", "cancelled", "timed_out", "interrupted"];
export const IN_FLIGHT = ["reserving", "queued", "starting", "running"];

export const isFinal = (status: string) => FINAL.includes(status);
