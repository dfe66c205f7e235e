// The head of the run page: what the run is, how it ended and why, and its figures.
import type { Api } from "../../api/client.ts";
import { isFinal } from "../../model/events.ts";
import { lengthOf, type Fold, type Span } from "../../model/fold.ts";
import { money, plainMoney } from "../../model/money.ts";
import { longest } from "../../model/spans.ts";
import { bytes, count, dateTime, duration, limit, percent } from "../../model/time.ts";
import { visible } from "../../model/ansi.ts";
import { setQuery } from "../../router.ts";
import { features } from "../../session.ts";
import { t } from "../../text/en.ts";
import { runText } from "../../text/run.ts";
import { Button, Chip, copyText, Meter, Status } from "../../ui/basics.tsx";
import { ask } from "../../ui/dialog.tsx";
import { Icon } from "../../ui/icon.tsx";
import { plainLabel } from "./labels.ts";

const texts = runText;

const lastNote = ({ spans }: Pick<Fold, "spans">, ...types: string[]): Span | undefined =>
  spans.findLast(({ event }) => types.includes(event.type));

const show = (span: Span) => setQuery({ tab: "trace", event: String(span.id) }, { replace: false });

/** The call that may have had its effect when the run was interrupted. */
function uncertainCall({ spans }: Pick<Fold, "spans">): Span | undefined {
  const { event } = lastNote({ spans }, "interrupted") ?? {};
  const id = event?.type === "interrupted" ? event.data.id : undefined;
  return id === undefined ? undefined : spans.find(({ event }) => event.type === "tool_start" && event.data.id === id);
}

/** The step that shows best why a run did not succeed. */
export function causeOf(fold: Fold): Span | undefined {
  if (!isFinal(fold.status) || fold.status === "succeeded") return undefined;
  if (fold.status === "timed_out") return longest(fold, 1, fold.last)[0];
  const failed = fold.spans.findLast(({ isFailed, event }) => isFailed && event.type !== "status");
  return (
    uncertainCall(fold) ??
    lastNote(fold, "interrupted", "budget_reached", "output_rejected") ??
    failed ??
    lastNote(fold, "status")
  );
}

function headline({ status, timeout_seconds: seconds }: Api.Run): string {
  if (status === "timed_out") return texts.ends.timed_out(seconds ? limit(seconds) : "");
  return status === "failed" ? texts.ends.failed : texts.ends.interrupted;
}

/** Where the time went: the three longest steps. */
const Longest = ({ fold, now }: { fold: Fold; now: number }) => (
  <p>
    {texts.ends.whereTime}{" "}
    {longest(fold, 3, now).map((span, index) => (
      <span key={span.id}>
        {index > 0 && " · "}
        <button type="button" class="as-link" onClick={() => show(span)}>
          {plainLabel(span).slice(0, 60)}
        </button>{" "}
        <span class="dim num">{duration(lengthOf(span, now))}</span>
      </span>
    ))}
  </p>
);

/** Why a run did not succeed, with a way to the event. */
export function EndReason({ run, fold, now }: { run: Api.Run; fold: Fold; now: number }) {
  if (!isFinal(run.status) || run.status === "succeeded" || run.status === "cancelled") return null;
  const error = run.error ?? fold.error;
  const budget = lastNote(fold, "budget_reached")?.event;
  const call = uncertainCall(fold);
  const cause = causeOf(fold);
  return (
    <div class={`notice ${run.status === "failed" ? "bad" : "warn"}`} role="note">
      <Icon name="warning" />
      <div>
        <b>{headline(run)}</b>
        {call?.event.type === "tool_start" && <p>{texts.ends.uncertain(visible(call.event.data.tool))}</p>}
        {budget?.type === "budget_reached" && (
          <p>{texts.budgetReached(money(budget.data.spent_micros), money(budget.data.limit_micros))}</p>
        )}
        {error && <p class={call ? "dim" : ""}>{visible(error)}</p>}
        {run.status === "timed_out" && <Longest fold={fold} now={now} />}
      </div>
      {cause && <Button onClick={() => show(cause)}>{texts.ends.toEvent}</Button>}
    </div>
  );
}

interface RetentionProps {
  run: Api.Run;
  onRead: () => Promise<void>;
  isRead: boolean;
}

/** What is kept of a run with zero data retention, and the button that reads its answer. */
export function Retention({ run, onRead, isRead }: RetentionProps) {
  const retention = texts.retention;
  if (!run.zero_data_retention) return null;
  const text = !isFinal(run.status)
    ? retention.working
    : run.output_read_at
      ? retention.goneAt(dateTime(run.output_read_at))
      : run.output_available && run.output_expires_at
        ? retention.held(dateTime(run.output_expires_at))
        : retention.gone;
  const canRead = isFinal(run.status) && run.output_available && !isRead;
  return (
    <div class="notice" role="note">
      <Icon name="note" />
      <div>
        <b>{retention.title}</b>
        <p>{isRead ? retention.gone : text}</p>
      </div>
      {canRead && (
        <Button
          icon="download"
          onClick={() =>
            ask({
              title: retention.read,
              explain: retention.confirm,
              confirm: retention.read,
              isDangerous: false,
              act: onRead,
            })
          }
        >
          {retention.read}
        </Button>
      )}
    </div>
  );
}

// A longer value of metadata is cut; the title of its chip has the whole.
const METADATA_CHARS = 60;

export function Chips({ run }: { run: Api.Run }) {
  const trace = run.trace_id && features()?.trace_url?.replaceAll("{trace_id}", run.trace_id);
  return (
    <div class="l2">
      <button type="button" class="chip mono" title={texts.actions.copyId} onClick={() => void copyText(run.id)}>
        {run.id}
        <span class="vh">{texts.actions.copyId}</span>
        <Icon name="copy" />
      </button>
      {run.workflow && (
        <Chip icon="workflow" to={`/workflows/${run.workflow}`}>
          {run.workflow}
        </Chip>
      )}
      {run.model && <Chip icon="chip">{run.model}</Chip>}
      {run.schedule_id && (
        <Chip icon="clock" to={`/runs?schedule=${run.schedule_id}`}>
          {run.schedule_id.slice(0, 14)}…
        </Chip>
      )}
      {trace && (
        <a class="chip" href={trace} target="_blank" rel="noopener noreferrer">
          <Icon name="link" />
          {texts.inTraces}
        </a>
      )}
      {run.replay_of && (
        <Chip icon="replay" to={`/runs/${run.replay_of}`}>
          {texts.replayOf} …{run.replay_of.slice(-8)}
        </Chip>
      )}
      {run.tags?.map((tag) => (
        <Chip key={tag} icon="tag" to={`/runs?tag=${encodeURIComponent(tag)}`}>
          {tag}
        </Chip>
      ))}
      {Object.entries(run.metadata ?? {}).map(([key, value]) => (
        <Chip key={`metadata.${key}`} title={`${key}: ${value}`}>
          {key}: {value.length > METADATA_CHARS ? `${value.slice(0, METADATA_CHARS)}…` : value}
        </Chip>
      ))}
    </div>
  );
}

/** Tokens and calls: those of the run once it is final, and those of the events before. */
function figuresOf({ status, usage }: Api.Run, fold: Fold) {
  if (!isFinal(status) || !usage)
    return {
      input: fold.inputTokens,
      cached: fold.cachedTokens,
      output: fold.outputTokens,
      models: fold.modelCalls,
      tools: fold.toolCalls,
    };
  const { input_tokens: fresh, cache_read_tokens: cached, cache_write_tokens: written } = usage;
  return {
    input: fresh + cached + written,
    cached,
    output: usage.output_tokens,
    models: usage.model_calls,
    tools: usage.tool_calls,
  };
}

export function Facts({ run, fold, now }: { run: Api.Run; fold: Fold; now: number }) {
  const started = Date.parse(run.started_at ?? "") || fold.spans[0]?.end || fold.start || now;
  const ended = Date.parse(run.finished_at ?? "") || now;
  const cost = Math.max(run.cost_micros ?? 0, isFinal(run.status) ? 0 : fold.costMicros);
  const artifacts = run.artifacts ?? fold.spans.flatMap(({ event }) => (event.type === "artifact" ? [event.data] : []));
  const facts = texts.facts;
  const used = figuresOf(run, fold);
  return (
    <dl class="facts">
      <div>
        <dt>{facts.duration}</dt>
        <dd>
          {duration(Math.max(0, ended - started))}{" "}
          {run.timeout_seconds && <small>{texts.of(limit(run.timeout_seconds))}</small>}
        </dd>
      </div>
      <div class="budget">
        <dt>{facts.cost}</dt>
        <dd>
          {money(cost)}{" "}
          <small>
            {texts.of(plainMoney(run.max_cost_micros))}
            {run.billing_pending && isFinal(run.status) ? ` · ${texts.pending}` : ""}
          </small>
          <Meter label={texts.costMeter} used={cost} whole={run.max_cost_micros} />
        </dd>
      </div>
      <div>
        <dt>{facts.tokens}</dt>
        <dd>
          {count(used.input)} <small>{texts.tokensIn(percent(used.cached, used.input))}</small>
        </dd>
      </div>
      <div>
        <dt>{facts.output}</dt>
        <dd>
          {count(used.output)} <small>{texts.tokensOut}</small>
        </dd>
      </div>
      <div>
        <dt>{facts.calls}</dt>
        <dd>
          {count(used.models)} <small>{texts.calls(used.tools)}</small>
        </dd>
      </div>
      <div>
        <dt>{facts.artifacts}</dt>
        <dd>
          {artifacts.length}{" "}
          {artifacts.length > 0 && <small>{bytes(artifacts.reduce((sum, { size }) => sum + size, 0))}</small>}
        </dd>
      </div>
    </dl>
  );
}

export const Title = ({ run, fallback }: { run: Api.Run; fallback: string | undefined }) => (
  <div class="l1">
    <Status status={run.status} />
    <h1>{visible(run.title ?? fallback ?? run.workflow ?? t.runs.adHoc)}</h1>
  </div>
);
