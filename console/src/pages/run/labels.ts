// How a span is named and drawn.
import type { Span } from "../../model/fold.ts";
import { money, plainMoney } from "../../model/money.ts";
import { summaryOf, toolOf } from "../../model/spans.ts";
import { bytes, count, duration } from "../../model/time.ts";
import { t } from "../../text/en.ts";
import { runText } from "../../text/run.ts";
import type { IconName } from "../../ui/icon.tsx";
import { visible } from "../../model/ansi.ts";

export interface Label {
  name: string;
  /** What was called, in the font of code. */
  code: string;
  detail: string;
}

const ICONS: Record<Span["kind"], IconName> = {
  queue: "node",
  turn: "model",
  tool: "tool",
  connection: "plug",
  retry: "replay",
  artifact: "file",
  note: "note",
};

/** Colour of a kind. Kinds without one are drawn as a line. */
export const COLOURS: Partial<Record<Span["kind"], string>> = {
  turn: "var(--span-model)",
  tool: "var(--span-tool)",
  connection: "var(--span-conn)",
  retry: "var(--span-retry)",
};

export const iconOf = ({ kind, isFailed }: Span): IconName => (kind === "note" && isFailed ? "warning" : ICONS[kind]);

const firstLine = (text: string) =>
  visible(
    text
      .trim()
      .split("\n", 1)[0]!
      .replace(/[*_`#>]/g, "")
      .slice(0, 200),
  );

/** What a note says beyond its name. */
function noteDetail({ event }: Span): string {
  switch (event.type) {
    case "budget_warning":
    case "budget_reached":
      return `${money(event.data.spent_micros)} ${runText.of(plainMoney(event.data.limit_micros))}`;
    case "context_compacted":
      return `${count(event.data.before_tokens)} → ${count(event.data.after_tokens)} ${runText.tokensOut}`;
    case "answer_requested":
    case "interrupted":
      return runText.reasons[event.data.reason] ?? event.data.reason;
    case "output_rejected":
      return event.data.errors.join("; ");
    case "artifact_skipped":
      return `${event.data.path}: ${event.data.reason}`;
    case "output_truncated":
      return `${bytes(event.data.output_bytes)} → ${bytes(event.data.limit_bytes)}`;
    case "status":
      return event.data.error ?? "";
    default:
      return "";
  }
}

function connectionLabel(span: Span): Label {
  const call = span.calls?.at(-1)?.data;
  const name = toolOf(span) ?? "";
  if (!call) return { name, code: summaryOf(span), detail: "" };
  return {
    name,
    code: visible(`${call.method} ${call.path}`),
    detail: `${call.status ?? runText.inspector.noAnswer} · ${bytes(call.bytes)}`,
  };
}

export function labelOf(span: Span): Label {
  const { event, step } = span;
  switch (span.kind) {
    case "turn":
      return { name: runText.trace.turn(step), code: "", detail: span.text ? `· ${firstLine(span.text)}` : "" };
    case "queue": {
      const detail =
        event.type === "worker_started" ? `· ${runText.trace.sandbox(event.data.runtime, event.data.shell)}` : "";
      return { name: span.end === undefined ? runText.trace.queued : runText.trace.started, code: "", detail };
    }
    case "tool":
      return { name: visible(toolOf(span) ?? ""), code: visible(summaryOf(span)), detail: "" };
    case "connection":
      return connectionLabel(span);
    case "retry":
      if (event.type !== "retry") break;
      return {
        name: runText.trace.retry(event.data.what),
        code: "",
        detail: `· ${runText.trace.waits(visible(event.data.reason), duration(event.data.delay_ms))}`,
      };
    case "artifact":
      if (event.type !== "artifact") break;
      return { name: runText.trace.artifact, code: visible(event.data.path), detail: bytes(event.data.size) };
  }
  const name =
    event.type === "status"
      ? (t.status[event.data.status] ?? event.data.status)
      : (runText.notes[event.type]?.name ?? event.type);
  const detail = noteDetail(span);
  return { name, code: "", detail: detail && `· ${visible(detail)}` };
}

/** The whole label as one text, for names of buttons and lists. */
export function plainLabel(span: Span): string {
  const { name, code, detail } = labelOf(span);
  return [name, code, detail].filter(Boolean).join(" ");
}
