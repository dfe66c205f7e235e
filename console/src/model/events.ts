// The recorded events of a run, and the messages that a live stream adds to them.
import type { Event as RunEvent } from "../api/schema";

export type { Artifact } from "../api/schema";
export type { RunEvent };

export type EventType = RunEvent["type"];
export type EventOf<Type extends EventType> = Extract<RunEvent, { type: Type }>;

/** Messages of a live stream that are not recorded. */
export type LiveMessage =
  | { type: "message_start"; data: { model: string; step: number } }
  | { type: "message_delta"; data: { text: string; step: number } }
  | { type: "tool_output"; data: { id: string; text: string } };

export const FINAL = ["succeeded", "failed", "cancelled", "timed_out", "interrupted"];
export const IN_FLIGHT = ["reserving", "queued", "starting", "running"];

export const isFinal = (status: string) => FINAL.includes(status);
